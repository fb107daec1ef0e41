import pytest

from agentcli.tools.edit.whitespace import (
    find_typography,
    iterate_plainings,
    retain_typography,
    to_plain_typography,
)

PLAIN: frozenset[str] = frozenset()


def plained(pairs: list[tuple[str, str]], text: str, own: frozenset[str] = PLAIN) -> set[str]:
    return {plain(text) for plain in iterate_plainings(pairs, own)}


def test_typographic_characters_have_plain_forms() -> None:
    assert to_plain_typography("“a” ‘b’ c—d e\u00a0f e\u0301") == "\"a\" 'b' c-d e f é"
    assert find_typography("“a”é e\u0301") == frozenset("“”\u0301")


@pytest.mark.parametrize(
    ("pairs", "text", "wanted"),
    [
        ([("a", "a")], "“b”", {"“b”"}),
        ([("“a”", '"a"')], "“b” ’c’", {"\"b\" 'c'"}),
        ([("“a”", '"a"')], "b–c", {"b–c", "b-c"}),
        ([("e\u0301", "é")], "u\u0308", {"ü"}),
        ([("é", "e\u0301")], "ü", {"u\u0308"}),
        ([('"a"', "“a”")], "b", set()),
    ],
)
def test_every_explanation_is_tried(
    pairs: list[tuple[str, str]], text: str, wanted: set[str]
) -> None:
    assert plained(pairs, text) == wanted


def test_what_the_file_has_is_not_made_plain() -> None:
    assert plained([("“a”", '"a"')], "“b”", frozenset("’")) == set()


@pytest.mark.parametrize(
    ("new", "plain", "own", "wanted"),
    [
        ('say("ho")', 'say("hi")', "say(“hi”)", "say(“ho”)"),
        ('say("a", "b")', 'say("a")', "say(“a”)", None),
        ("other", "", "", "other"),
        ("it's", "", "", None),
        ("naïve", "", "", None),
    ],
)
def test_unchanged_characters_are_retained(
    new: str, plain: str, own: str, wanted: str | None
) -> None:
    assert retain_typography(new, plain=plain, own=own) == wanted
