import re

import pytest

from agentcli.tools.search import globs


@pytest.mark.parametrize(
    ("glob", "meant"),
    [
        ("*.py", ["*.py"]),
        ("*.{py,js}", ["*.py", "*.js"]),
        ("a{b,c{d,e}}f", ["abf", "acdf", "acef"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("x{,y}", ["x", "xy"]),
        (r"\{a,b\}", [r"\{a,b\}"]),
        ("[{,}]", ["[{,}]"]),
    ],
)
def test_braces_stand_for_several_globs(glob: str, meant: list[str]) -> None:
    assert globs.expand_braces(glob) == meant


@pytest.mark.parametrize("glob", ["{a", "a}", "{a,{b}", "{a,b}" * 9])
def test_unbalanced_or_endless_braces_are_refused(glob: str) -> None:
    with pytest.raises(globs.GlobError):
        globs.expand_braces(glob)


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("**/*.py", ["a.py", "a/b/c.py"], ["a.js"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("**", ["a", "a/b"], []),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[!a-c]x", ["dx"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]-]", ["]", "-"], ["x"]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"a\*", ["a*"], ["ab"]),
        ("é?", ["éa", "éé"], ["é"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_source_matches_whole_paths(glob: str, matching: list[str], other: list[str]) -> None:
    pattern = re.compile(globs.translate_glob(glob), re.DOTALL)
    assert [path for path in (*matching, *other) if pattern.fullmatch(path)] == matching


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("[slug]/page.tsx", ["[slug]/page.tsx", "s/page.tsx"], ["slug/page.tsx"]),
        ("[...all].[jt]s", ["[...all].[jt]s", "a.js"], ["[...all].js"]),
        ("**/[[...all]]/*.[jt]s", ["app/[[...all]]/x.js", "[[...all]]/x.ts"], ["all/x.js"]),
        ("[user-id]/*", ["[user-id]/a"], ["u/a"]),
        ("[*]", ["*", "[*]"], ["[a]"]),
        (r"\[id]", ["[id]"], ["i"]),
        ("*[ab]b*]b", ["[ab]b"], ["ab"]),
    ],
)
def test_names_with_the_brackets_of_a_class_match_too(
    glob: str, matching: list[str], other: list[str]
) -> None:
    pattern = re.compile(globs.translate_glob(glob, also_literal=True), re.DOTALL)
    assert [path for path in (*matching, *other) if pattern.fullmatch(path)] == matching


@pytest.mark.parametrize("glob", ["[", "[]", "[!]", "[z-a]", "a\\"])
def test_what_is_no_glob_is_refused(glob: str) -> None:
    with pytest.raises(globs.GlobError):
        globs.translate_glob(glob)


@pytest.mark.parametrize(
    ("component", "text"), [("*.py", ".py"), ("a*bcd*", "bcd"), ("a", "a"), ("*", ""), ("ab?", "")]
)
def test_needed_is_in_every_match(component: str, text: str) -> None:
    assert globs.find_literal_part(component) == text


def test_many_stars_take_no_time() -> None:
    pattern = re.compile(globs.translate_glob("*a" * 30 + "*b"), re.DOTALL)
    assert not pattern.fullmatch("a" * 250)
    assert pattern.fullmatch("xa" * 30 + "b")


def test_many_double_stars_take_no_time() -> None:
    for glob in ("**/" * 30 + "z", "**/a/" * 30 + "z", "**/a*/" * 30 + "**"):
        pattern = re.compile(globs.translate_glob(glob), re.DOTALL)
        assert not pattern.fullmatch("a/" * 29 + "b/" * 300 + "c")
    assert pattern.fullmatch("x/a/" * 30 + "z")


@pytest.mark.parametrize(
    ("component", "wider"),
    [("*.py", "*.py"), ("a?[bc]d", "a*d"), (r"\*x", r"\*x"), ("**", "*"), ("[!]]x", "*x")],
)
def test_widened_uses_stars_alone(component: str, wider: str) -> None:
    assert globs.widen_glob(component) == wider
