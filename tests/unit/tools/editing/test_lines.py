import pytest

from agentcli.system.text import splice
from agentcli.tools.edit.matching import match_by_lines
from agentcli.tools.edit.readings import Reading
from agentcli.tools.edit.view import LfView


def after(text: str, old: str, new: str) -> str | None:
    found = match_by_lines(LfView(text), Reading(old, new))
    return None if found.splice is None else splice(text, [found.splice])


@pytest.mark.parametrize(
    ("text", "old", "new", "wanted"),
    [
        ("a\nb\n", "a \nb \n", "a \nc \n", "a\nc\n"),
        ("a\nb\n", "b \n", "", "a\n"),
        ("a\nb", "b ", "c\nd", "a\nc\nd"),
        ("a\nb\n", "\nb \n", "\nc \n", "a\nc\n"),
        ("a\n\nb\n", "\nb \n", "\n\nc \n", "a\n\n\nc\n"),
        ("a\nb\n", "\nb \n", "c \n", "a\nc\n"),
        ("a\nb\n", "a \n\n", "c \n", "c\nb\n"),
        ("a\nb\n", "a \n ", "c \n ", "c\nb\n"),
    ],
)
def test_whole_lines_are_replaced(text: str, old: str, new: str, wanted: str) -> None:
    assert after(text, old, new) == wanted


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a\nb\n", "b \n", "c"),
        ("a\n\nb\n", "\nb \n", "c \n"),
        ("a\n\nb\n", "\n\nb \n", "c \n"),
        ("\ta\n\tb\n", "\n    a\n    b\n", "\n\tc\n\tb\n"),
        ("a\n", "a ", "b\\nc"),
        ("\n\n", "\n", "a\n"),
    ],
)
def test_unclear_ends_are_not_touched(text: str, old: str, new: str) -> None:
    assert after(text, old, new) is None


def test_several_places_are_named() -> None:
    found = match_by_lines(LfView("a\nb\n a\n"), Reading("a  \n", "c  \n"))
    assert (found.lines, found.splice) == ((1, 3), None)
