import pytest

from agentcli.system.text import splice
from agentcli.tools.edit.view import LfView, Style, is_mixed

MIXED = "a\r\nb\nc\r\n\rd"


def test_positions_lead_back_to_the_raw_text() -> None:
    view = LfView(MIXED)
    assert view.text == "a\nb\nc\n\rd"
    assert [view.read_raw_part(start, start + 1) for start in range(len(view.text))] == [
        "a", "\r\n", "b", "\n", "c", "\r\n", "\r", "d"
    ]  # fmt: skip


def test_lines_and_their_places() -> None:
    view = LfView("one\r\ntwo\r\n")
    assert view.lines == ["one", "two"]
    assert [view.find_line_start(index) for index in (0, 1, 2)] == [0, 4, 8]
    assert [view.find_line_number(position) for position in (0, 3, 4, 8)] == [1, 1, 2, 3]
    assert LfView("one\ntwo").find_line_start(2) == 7
    assert LfView("").lines == []


@pytest.mark.parametrize(
    ("raw", "old", "new", "after"),
    [
        ("a\r\nb\r\n", "a\n", "x\ny\n", "x\r\ny\r\nb\r\n"),
        ("a\nb\r\nc\r\n", "a", "x\ny", "x\r\ny\nb\r\nc\r\n"),
        (MIXED, "a\nb\n", "a\nx\nb\n", "a\r\nx\nb\nc\r\n\rd"),
        (MIXED, "b\nc\n", "B\nC\n", "a\r\nB\nC\r\n\rd"),
    ],
)
def test_new_lines_take_the_ending_of_what_they_replace(
    raw: str, old: str, new: str, after: str
) -> None:
    view = LfView(raw)
    start = view.text.index(old)
    assert splice(raw, [view.splice((start, start + len(old)), new)]) == after


def test_style_is_what_occurs() -> None:
    assert LfView("  a\n\tb “c”\n \t\nd\n").style == Style(
        indents=frozenset({"  ", "\t", " \t"}), typography=frozenset("“”")
    )


def test_mixed_endings_are_told() -> None:
    assert [is_mixed(text) for text in ("", "a\n", "a\r\n", "a\r\nb\n")] == [
        False,
        False,
        False,
        True,
    ]
