import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions.path_patterns import (
    ANY_FOLDERS,
    ANYTHING,
    IN_A_NAME,
    GlobStep,
    PathPattern,
    is_matched,
)
from tests.support.examples import examples

EXPRESSIONS = {ANY_FOLDERS: "(?:[^/]+/)*", ANYTHING: r"[\s\S]*", IN_A_NAME: "[^/]*"}

tokens = st.lists(
    st.sampled_from([ANY_FOLDERS, ANYTHING, IN_A_NAME, "a", "b", "/", "[^/]", "(?!/)[^a]"]),
    max_size=7,
)
names = st.text(alphabet="ab/", max_size=10)


@given(tokens=tokens, name=names)
@examples(500)
def test_steps_match_what_the_expression_matches(tokens: list[str], name: str) -> None:
    steps = [
        GlobStep(token, None if token in EXPRESSIONS else re.compile(token)) for token in tokens
    ]
    expression = "".join(EXPRESSIONS.get(token, token) for token in tokens)

    assert is_matched(steps, name) == (re.fullmatch(expression, name) is not None)


@given(glob=st.lists(st.sampled_from(["**/", "**", "*", "a", "b/"]), min_size=1).map("".join))
@examples(100)
def test_no_pattern_takes_forever(glob: str) -> None:
    pattern = PathPattern.parse(f"{glob}x")
    root = Path("/w")

    for name in ("a" * 200, "/".join("a" * 60), "ab" * 60):
        assert not pattern.covers(root / name, root)
