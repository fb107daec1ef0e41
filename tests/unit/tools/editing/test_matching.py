import pytest

from agentcli.tools.edit.matching import (
    find_missing_indentation,
    find_places,
    joins_lines,
    list_overlapping_hits,
    separate_hits,
)


def test_hits_are_counted_where_they_overlap() -> None:
    assert list_overlapping_hits("aaaa", "aa") == [0, 1, 2]
    assert separate_hits("aaaa", "aa") is None
    assert separate_hits("abab", "ab") == [0, 2]
    assert separate_hits("abab", "x") == []


def test_every_place_that_could_be_meant_is_found() -> None:
    lines = ["a", " b ", "", "A", "\ta", "b", "“c”"]
    assert find_places(lines, ["a", "b"]) == [0, 4]
    assert find_places(lines, ["b", ' "c"']) == [5]
    assert find_places(lines, ["c"]) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "joins"),
    [
        ("a\nb\nc", "b\n", "x", True),
        ("a\nb\nc", "b\n", "x\n", False),
        ("a\nb\nc", "b\n", "", False),
        ("a\nb\nc", "\nb", "x", True),
        ("a\nb\nc", "\nb", "", False),
        ("a\nb\nc", "\nb\n", "", True),
        ("a\nb\n", "b\n", "x", False),
        ("a\nb\n\nc", "b\n", "x", False),
        ("a # b\nc", " # b\n", "", True),
        ("\nb\nc", "\nb", "x", False),
    ],
)
def test_lines_that_would_be_joined_are_noticed(text: str, old: str, new: str, joins: bool) -> None:
    start = text.index(old)
    assert joins_lines(text, (start, start + len(old)), new=new) == joins


@pytest.mark.parametrize(
    ("text", "old", "new", "lead"),
    [
        ("  a\n", "a", "b", ""),
        ("  a\n", "a", "b\nc", "  "),
        ("  a\n", "a", "  b", "  "),
        ("  a\n", " a\n", "", " "),
        ("  a\n", "a", "", ""),
        ("  a b\n", "a", "b\nc", ""),
        ("x a\n", "a", "b\nc", ""),
        ("  a\n  b\n", "a\n  b", "b\nc", ""),
    ],
)
def test_indentation_that_is_left_out_is_noticed_where_it_matters(
    text: str, old: str, new: str, lead: str
) -> None:
    start = text.index(old)
    assert find_missing_indentation(text, (start, start + len(old)), new=new) == lead
