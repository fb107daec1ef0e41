import pytest

from agentcli.tools.searching.regex import RegexError, compiled


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\w+", "é_1 x", "é_1"),
        (r"\s", "a\x1cb\u2003c", "\u2003"),
        (r"\S+", "\x1cab c", "\x1cab"),
        (r"[\s,]+", "a, \tb", ", \t"),
        (r"[^\S]+", "a \tb", " \t"),
        (r"[[:digit:]_-]+", "a1-2_b", "1-2_"),
        (r"[]a]+", "x]a]", "]a]"),
        (r"[a\-z]+", "b-z", "-z"),
        (r"\x41\x{42}\u0043\u{44}\U00000045", "ABCDE", "ABCDE"),
        (r"(?i)ÉA", "éa", "éa"),
        (r"(?s)a.b", "a\nb", "a\nb"),
        (r"(?<x>a)(?P<y>b)(?:c)", "abc", "abc"),
        (r"(?-i:a)", "A a", "a"),
        (r"a{2}b{1,}c{0,1}", "aabbc", "aabbc"),
        (r"a+?", "aaa", "a"),
        (r"\<b\>", "ab b", "b"),
        (r"\.\*\#\&", ".*#&", ".*#&"),
        (r"^b$", "a\nb\nc", "b"),
        (r"[\s\S]+", "a\nb", "a\nb"),
    ],
)
def test_pattern_finds_what_it_finds_in_rust(pattern: str, text: str, found: str) -> None:
    match = compiled(pattern, literal=False, ignore_case=False).search(text)
    assert match and match.group() == found


@pytest.mark.parametrize("pattern", [".", "[^a]", r"\W", r"\D", r"\S", r"[\s\S]", r"[\W]", "(?s)."])
def test_nothing_matches_a_byte_that_is_not_text(pattern: str) -> None:
    assert compiled(pattern, literal=False, ignore_case=False).search("\udcff") is None


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (r"\pL", r"\p needs ripgrep"),
        (r"\A", r"\A needs ripgrep"),
        (r"\1", "backreferences are not supported"),
        ("(?=a)", "look-around is not supported"),
        ("(?<!a)", "look-around is not supported"),
        ("a(?i)b", "this kind of group, or a flag that is not at the start, needs ripgrep"),
        ("(?>a)", "this kind of group, or a flag that is not at the start, needs ripgrep"),
        ("a++", "a quantifier after a quantifier needs ripgrep"),
        ("a{", "a { does not begin a count such as {2,3}"),
        ("[a[b]]", r"a [ within a class must be written \["),
        ("[a&&b]", "&& in a class needs ripgrep"),
        ("[a", "unclosed character class"),
        (r"\q", r"unrecognized escape sequence \q"),
        ("\\", "unrecognized escape sequence \\"),
        (r"\x{110000}", "there is no character 0x110000"),
        (r"\b{start}", r"\b{…} needs ripgrep"),
        ("*a", "nothing to repeat"),
        ("(a", "missing ), unterminated subpattern"),
        ("a{9999999999}", "the repetition number is too large"),
    ],
)
def test_what_python_cannot_say_is_refused(pattern: str, told: str) -> None:
    with pytest.raises(RegexError) as raised:
        compiled(pattern, literal=False, ignore_case=False)
    assert str(raised.value) == told


def test_literal_text_is_no_pattern() -> None:
    assert compiled("a.[b", literal=True, ignore_case=True).search("xA.[B")
