import pytest

from agentcli.types.tools import Diff
from agentcli.ui.render.diff import find_changed_words, pair_lines, render_diff
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import DARK, NONE
from tests.support.scenes import NEW_CALC, OLD_CALC, diff_of


def shown(diff: Diff, *, columns: int = 80, rows: int = 40, whole: bool = False) -> str:
    paint = Paint(columns=columns, rows=rows, theme=NONE, color="none", accessible=True)
    return render_diff(diff, paint, number=7, whole=whole)


def test_diff_has_numbers_signs_and_the_lines_as_they_are() -> None:
    assert shown(diff_of(OLD_CALC, NEW_CALC)) == (
        "     5       return a + b\n"
        "     6\n"
        "     7\n"
        "     8 - def divide(a, b):\n"
        "     8 + def divide(a: float, b: float) -> float:\n"
        '     9 +     """Divide a by b."""\n'
        "    10 +     if b == 0:\n"
        '    11 +         raise ValueError("b must not be zero")\n'
        "    12       return a / b\n"
    )


def test_changed_words_have_their_own_background() -> None:
    paint = Paint(columns=80, rows=40, theme=DARK, color="truecolor")
    text = render_diff(diff_of("x = 1\n", "x = 2\n"), paint)
    assert "48;2;116;38;43m1\x1b[0m" in text and "48;2;31;92;53m2\x1b[0m" in text


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("a\r\nb\r\n", "a\nb\n", "line ends change from CRLF to LF"),
        ("a\nb\n", "a\r\nb\r\n", "line ends change from LF to CRLF"),
        ("a\r\nb\r\n", "a\r\nc\r\n", "line ends are CRLF"),
        ("a\nb", "a\nb\n", "a newline is added at the end of the file"),
        ("a\nb\n", "a\nb", "the newline at the end of the file is removed"),
        ("a\nb", "a\nc", "no newline at the end of the file"),
        ("\ta\n", "    a\n", "whitespace only: tabs become spaces"),
        ("    a\n", "\ta\n", "whitespace only: spaces become tabs"),
        ("a = 1\n", "a  =  1\n", "whitespace only"),
    ],
)
def test_what_cannot_be_seen_is_said(old: str, new: str, note: str) -> None:
    assert shown(diff_of(old, new)).split("\n")[-2] == f"  {note}"


def test_ordinary_change_needs_no_note() -> None:
    assert shown(diff_of("a\n", "b\n")) == "     1 - a\n     1 + b\n"


def test_control_characters_are_escaped() -> None:
    text = shown(diff_of("a = one + two\n", "a = one + two\x1b\u202e\n"))
    assert text.endswith("+ a = one + two\\x1b\\u202e\n")


def test_long_diff_is_cut_and_says_so() -> None:
    diff = diff_of("a\n" * 100, "b\n" * 100)
    rows = shown(diff, rows=24).rstrip("\n").split("\n")
    assert len(rows) == 15
    assert rows[-1] == "  ... 186 more lines, /show 7"
    assert len(shown(diff, whole=True).rstrip("\n").split("\n")) == 200


def test_new_file_shows_its_first_lines() -> None:
    diff = diff_of("", "x\n" * 84, created=True)
    rows = shown(diff).rstrip("\n").split("\n")
    assert len(rows) == 13
    assert rows[-1] == "  ... 72 more lines, /show 7"


def test_long_line_is_wrapped_not_clipped() -> None:
    text = shown(diff_of("", "abc" * 40 + "\n", created=True), columns=40)
    assert "".join(row[9:] for row in text.split("\n")) == "abc" * 40


def test_patch_of_several_files_names_each() -> None:
    one, two = diff_of("a\n", "b\n", path="one.py"), diff_of("c\n", "d\n", path="two.py")
    both = Diff(path="2 files", unified=one.unified + two.unified, added=2, removed=2)
    assert shown(both) == ("  one.py\n     1 - a\n     1 + b\n  two.py\n     1 - c\n     1 + d\n")


def test_what_is_no_diff_is_shown_as_it_is() -> None:
    odd = Diff(path="x", unified="@@ nonsense\n+a\x1b\n", added=1, removed=0)
    assert shown(odd) == "  @@ nonsense\n  +a\\x1b\n"


def test_lines_are_paired_by_likeness() -> None:
    removed = ["def add(a, b):", "    return a"]
    added = ["import math", "def add(a, b, c):", "    return a + b"]
    assert pair_lines(removed, added) == {0: 1, 1: 2}
    assert pair_lines(["import os"], ["    return 1 + 2"]) == {}


def test_changed_words_are_found() -> None:
    assert find_changed_words("return a / b", "return a // c") == ([(11, 12)], [(10, 11), (12, 13)])
