"""The checks of built-in arguments beside those of pydantic: same values, same sentences."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agentcli.features.children.delegate import DelegateArgs
from agentcli.features.programs.run_program import RunProgramArgs
from agentcli.features.symbols.symbols import SymbolsArgs
from agentcli.tools.apply_patch import ApplyPatchArgs
from agentcli.tools.arguments import BuiltinArguments, parse_arguments
from agentcli.tools.bash import BashArgs
from agentcli.tools.edit_file import EditFileArgs
from agentcli.tools.find_files import FindFilesArgs
from agentcli.tools.grep import GrepArgs
from agentcli.tools.python_arguments import Arguments, parse
from agentcli.tools.read_file import ReadFileArgs
from agentcli.tools.search_tools import SearchToolsArgs
from agentcli.tools.write_file import WriteFileArgs
from agentcli.types.errors import ToolError
from tests.support.examples import examples
from tests.support.pydantic_arguments import build_twin

ALL: list[type[BuiltinArguments]] = [
    ApplyPatchArgs,
    BashArgs,
    DelegateArgs,
    EditFileArgs,
    FindFilesArgs,
    GrepArgs,
    ReadFileArgs,
    RunProgramArgs,
    SearchToolsArgs,
    SymbolsArgs,
    WriteFileArgs,
]
WORDING = {
    "a valid list": "an array",
    "a valid dictionary or instance of Item": "an object",
    "Unable to parse input string as an integer, exceeded maximum size": "a smaller integer",
}
"""Sentences of pydantic that say it less well."""

texts = st.one_of(
    st.text(max_size=8),
    st.text(alphabet="0123456789+-_. \t\n\x1c\x85\u2003", max_size=8),
    st.sampled_from(["7", " 7.0", "1_000", "true", "OFF", "y", "count", "network:example.org", ""]),
    st.text(alphabet=st.characters(categories=["Cs"]), min_size=1, max_size=2),
)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 2000),
        st.integers(),
        st.floats(),
        st.sampled_from([0.0, 1.0, 7.0, 1e18, 9.3e18, -9.3e18, 1e300]),
        texts,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["old_text", "old", "new_text", "new_str", "replace_all", "x"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=6,
)


TWINS: dict[str, type[Arguments]] = {of.__name__: build_twin(of) for of in ALL}


def names_of(of: type[BuiltinArguments]) -> list[str]:
    near = [f"{name}s" for name in of.__dataclass_fields__]
    return [*of.__dataclass_fields__, *of.aliases, *of.ignored, *of.advice, *near, "\ud800x", ""]


def read(parsing: Any, of: Any, raw: Any) -> object:
    try:
        parsed = parsing(of, raw)
    except ToolError as error:
        told = str(error)
        for theirs, ours in WORDING.items():
            told = told.replace(theirs, ours)
        return told
    return parsed.model_dump() if isinstance(parsed, Arguments) else asdict(parsed)


def differs_in_underscores(value: Any) -> bool:
    """Pydantic reads 0__7 and 0_ as numbers, which nobody writes."""
    if isinstance(value, str):
        return "0_" in value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(differs_in_underscores, inner))


@pytest.mark.parametrize("of", ALL, ids=lambda one: one.__name__)
@examples(100)
@given(data=st.data())
def test_arguments_are_taken_and_refused_as_pydantic_would(
    of: type[BuiltinArguments], data: st.DataObject
) -> None:
    chosen = st.dictionaries(st.sampled_from(names_of(of)), values, max_size=5)
    whole = dict.fromkeys(of.__dataclass_fields__, "x") if data.draw(st.booleans()) else {}
    raw = {**whole, **data.draw(chosen)}
    assume(not differs_in_underscores(raw))
    assert repr(read(parse_arguments, of, raw)) == repr(read(parse, TWINS[of.__name__], raw))


@examples(100)
@given(raw=st.one_of(values, st.text(alphabet='{}[]":,1a ', max_size=12)))
@example(raw='{"command": "ls"}')
def test_input_that_is_no_object_is_refused_in_the_same_words(raw: Any) -> None:
    assert read(parse_arguments, BashArgs, raw) == read(parse, TWINS["BashArgs"], raw)
