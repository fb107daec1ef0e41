import re
from fnmatch import fnmatchcase
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
from agentcli.tools.search.globs import translate_glob
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


@given(tokens=tokens, name=names)
@examples(500)
def test_folders_are_matched_in_one_pass_as_one_by_one(tokens: list[str], name: str) -> None:
    steps = [
        GlobStep(token, None if token in EXPRESSIONS else re.compile(token)) for token in tokens
    ]
    folders = [name[:index] for index, char in enumerate(name) if index and char == "/"]
    one_by_one = any(is_matched(steps, one) for one in (*folders, name))
    assert is_matched(steps, name, or_folder=True) == one_by_one


def test_deep_path_is_judged_like_a_flat_one() -> None:
    root, deep = Path("/ws"), "a/" * 1500
    for pattern, touched in (("**/b*/**", False), ("**/b*/**/c*/**/d", False), ("a/**", True)):
        assert PathPattern.parse(pattern).touches(root / f"{deep}x", root) is touched
    assert PathPattern.parse("**/.env*").touches(root / f"{deep}.env/y", root)


def test_path_that_cannot_exist_is_denied_and_never_allowed() -> None:
    root, long = Path("/ws"), "a/" * 3000
    pattern = PathPattern.parse("**/b/**/c/**")
    assert pattern.touches(root / long, root)
    assert not PathPattern.parse("**").covers(root / long, root)


PART = st.sampled_from(["**", "*", "a", "b", "a*", "*b*a", "?"])


def match_parts(parts: list[str], names: list[str]) -> bool:
    """What a glob means, tried in every way."""
    if not parts:
        return not names
    if parts[0] == "**":
        return any(match_parts(parts[1:], names[at:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], parts[0]) and match_parts(parts[1:], names[1:])


@given(
    parts=st.lists(PART, min_size=1, max_size=7),
    names=st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=7),
)
@examples(1000)
def test_search_glob_matches_what_it_means(parts: list[str], names: list[str]) -> None:
    if parts[-1] == "**":
        parts = [*parts, "*"]  # `a/**` is what is below `a`
    found = re.fullmatch(translate_glob("/".join(parts)), "/".join(names), re.DOTALL)
    assert (found is not None) == match_parts(parts, names)
