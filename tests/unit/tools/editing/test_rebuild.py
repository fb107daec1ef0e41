import pytest

from agentcli.tools.edit.rebuild import describe_difference, rebuild_lines
from agentcli.tools.edit.view import LfView


def lines(text: str) -> list[str]:
    return text.split("|")


def rebuild(own: str, old: str, new: str, *, file: str = "") -> str | None:
    style = LfView((file or own).replace("|", "\n")).style
    result = rebuild_lines(lines(own), lines(old), new=lines(new) if new else [], style=style)
    return None if result is None else "|".join(result)


@pytest.mark.parametrize(
    ("own", "old", "what"),
    [
        ("a|b", "a|b", ""),
        ("a |b", "a|b", "trailing whitespace"),
        ("“a” |b", '"a"|b', "typographic characters"),
        (" “a”|b", '"a" |b', "indentation"),
    ],
)
def test_the_difference_is_named(own: str, old: str, what: str) -> None:
    assert describe_difference(lines(own), lines(old)) == what


@pytest.mark.parametrize(
    ("own", "old", "new", "wanted"),
    [
        # Both texts drifted: what is new is mapped.
        ("  a|  b", "a|b", "a|x|b", "  a|  x|  b"),
        ("\ta|\t\tb", "    a|        b", "    a|    x|        b", "\ta|\tx|\t\tb"),
        # Only old_text drifted: new_text is taken as it is.
        ("  a|  b", "a|b", "  a|    x|  b", "  a|    x|  b"),
        ("a|b", "a |b ", "a|x|b", "a|x|b"),
        # Nothing is left.
        ("  a|  b", "a|b", "", ""),
        # As deep as the rest, nothing opens a block.
        ("  a|  b", "a|b", "a|f()|y|b", "  a|  f()|  y|  b"),
        ("  a|  b", "a|b", "a|f(|)|b", "  a|  f(|  )|  b"),
        # One line for one line.
        ("  a", "a", "b", "  b"),
        ("  a", "a", "  b", "  b"),
    ],
)
def test_lines_are_the_files_own_or_what_is_meant(
    own: str, old: str, new: str, wanted: str
) -> None:
    assert rebuild(own, old, new) == wanted


@pytest.mark.parametrize(
    ("own", "old", "new"),
    [
        # The edit is of the kind that was overlooked.
        ("  a|  b", "a|b", " a| b"),
        # The ends contradict each other.
        ("  a|  b", "a|b", "a|x|  b"),
        # As deep as either, with nothing shared, and not line by line.
        ("    a|    b", "a|b", "    x|y|  z"),
        # What is added has drifted in a way of its own.
        ("a|b", "a |b ", "a |x\u00a0y |b "),
        ("a|  b", "a |  b ", "a |\tx |  b "),
        ("\ta|\t\tb", "\ta| \t\tb", "\ta| \t\tx|\t\tb"),
        # All indentation is gone, also that of what is added.
        ("  a|  b", "a|b", "a|if x:|y|b"),
        ("  a|  b", "a|b", "a|f(|y|)|b"),
    ],
)
def test_what_is_not_certain_is_none(own: str, old: str, new: str) -> None:
    assert rebuild(own, old, new) is None


def test_what_the_file_has_elsewhere_may_be_meant() -> None:
    assert rebuild('"a"|b', "“a”|b", "“a”|“x”|b") == '"a"|"x"|b'
    assert rebuild('"a"|b', "“a”|b", "“a”|“x”|b", file='"a"|b|“c”') is None
