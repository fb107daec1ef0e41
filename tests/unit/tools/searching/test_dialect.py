import pytest

from agentcli.tools.grep import Pattern, may_be_meant_literally, translate_pattern


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("foo$", r"foo\r?$"),
        (r"\$", r"\$"),
        ("[$]", "[$]"),
        ("[]$]", "[]$]"),
        ("[[:alpha:]$]$", r"[[:alpha:]$]\r?$"),
        ("f() {", r"f() \{"),
        ("a{2}{3,}", "a{2}{3,}"),
        ("a{,3}", "a{0,3}"),
        (r"\p{L}\x{41}", r"\p{L}\x{41}"),
        (r"\"a\/b\"", '"a/b"'),
        (r"[\"\]]", r'["\]]'),
        (r"[\\ ]", r"[\\ ]"),
        (r"\.\<", r"\.\<"),
        (r"\<foo\>", r"\bfoo\b"),
        (r"[\<a]\\<a", r"[\<a]\\<a"),
        ("(?<name>a)", "(?P<name>a)"),
        (r"\(?self", r"\(?self"),
        (r"[^\n]*", r"[^\n]*"),
        ("(?x) a $ # b", "(?x) a $ # b"),
        ("[", "["),
    ],
)
def test_pattern_is_made_portable(pattern: str, text: str) -> None:
    assert translate_pattern(pattern, literal=False) == Pattern(
        text=text, literal=False, multiline=False
    )


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a\nb", r"a(?:\r?\n)b"),
        ("a\nb", r"a(?:\r?\n)b"),
        ("(?s)a.b", "(?s)a.b"),
        ("(?is:a.b)", "(?is:a.b)"),
        (r"a[\s\S]*?b", r"a[\s\S]*?b"),
    ],
)
def test_pattern_that_speaks_of_line_ends_crosses_lines(pattern: str, text: str) -> None:
    assert translate_pattern(pattern, literal=False) == Pattern(
        text=text, literal=False, multiline=True
    )


@pytest.mark.parametrize("pattern", ["print(x)", "a[0]", "f() {", "a.b", "$x", "x?.y", "*ptr"])
def test_text_with_special_characters_may_be_meant_literally(pattern: str) -> None:
    assert may_be_meant_literally(pattern)


@pytest.mark.parametrize("pattern", ["plain", r"\d+", "a.*b", "a|b", "(?i)a", "[^a]", "[a-z]"])
def test_what_is_a_regex_or_plain_is_not_meant_literally(pattern: str) -> None:
    assert not may_be_meant_literally(pattern)


def test_literal_text_stays_as_it_is() -> None:
    assert translate_pattern("f(x)$", literal=True) == Pattern(
        text="f(x)$", literal=True, multiline=False
    )


def test_literal_lines_match_either_line_ending() -> None:
    assert translate_pattern("f(x)\n$", literal=True) == Pattern(
        text=r"f\(x\)\r?\n\$", literal=False, multiline=True
    )
