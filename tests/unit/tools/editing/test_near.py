import pytest

from agentcli.tools.edit.near import explain_not_found
from agentcli.tools.edit.readings import Reading
from agentcli.tools.edit.view import LfView

TEXT = "import os\n\n\ndef first(path):\n    return path\n\n\ndef second(path):\n    return 2\n"


def told(old: str, new: str = "") -> str:
    return explain_not_found(LfView(TEXT), Reading(old, new), path="f")


def test_the_lines_most_of_it_agrees_on_are_closest() -> None:
    assert told("def second(path):\n    return 3\n") == (
        "old_text is not in f. Closest, line 8:\n8\tdef second(path):\n9\t    return 2"
    )


EXPRESSION = "It is taken as it is, not as a regular expression."


@pytest.mark.parametrize(
    ("old", "is_expression"),
    [
        (r"def \w+\(path\)", True),
        ("def s[a-z]{2,}.*path", True),
        (r"def third\(\w+\)", False),
        ("return path.*import", False),
        ("def second(path, mode)", False),
    ],
)
def test_regular_expression_is_told_from_text(old: str, is_expression: bool) -> None:
    assert (EXPRESSION in told(old)) == is_expression


def test_expression_without_end_takes_no_time() -> None:
    shown = explain_not_found(LfView("a" * 5000 + "!"), Reading(r"^(a+)+\.*$", ""), path="f")
    assert EXPRESSION in shown


def test_without_a_shared_line_words_decide() -> None:
    assert told("def second(path, mode):") == (
        "old_text is not in f. Closest, line 8:\n8\tdef second(path):"
    )


@pytest.mark.parametrize(
    ("own", "old", "note"),
    [
        ("\t\tif word:\nx", "    if word:\ny", "begins with 2 tabs, in old_text 4 spaces"),
        ("\t if word:\nx", "if word:\ny", "begins with 1 tab, 1 space, in old_text none"),
        ("if word:  \nx", "if word:\ny", "ends with 2 spaces, in old_text none"),
        ("if\u00a0word:\nx", "if word:\ny", r"has '\xa0' (no-break space), old_text ' '"),
        ("“word”\nx", '"word"\ny', "has '\\u201c' (left double quotation mark), old_text '\"'"),
    ],
)
def test_what_does_not_show_is_said(own: str, old: str, note: str) -> None:
    shown = explain_not_found(LfView(own), Reading(old, ""), path="f")
    assert shown.endswith(f"\n2\tx\n[line 1 {note}]")


@pytest.mark.parametrize(
    ("own", "old", "note"),
    [
        ("foo = 1", "foo = 1\n", "line 1 is followed by 0 newlines, in old_text by 1"),
        ("foo = 1\nbar\n", "foo = 1\n\n", "line 1 is followed by 1 newline, in old_text by 2"),
        ("foo = 1\n", "\nfoo = 1", "old_text begins with 1 newline, line 1 does not"),
        ("foo = 1\n", "foo = 1\nbar\n", "the file ends with line 1; old_text has 1 more line"),
        (
            "foo\u200d = 1\n",
            "foo = 1\n",
            r"line 1 has '\u200d' (zero width joiner) at column 4, old_text ''",
        ),
        (
            "f\u043eo bar\n",
            "foo bar\n",
            r"line 1 has '\u043e' (cyrillic small letter o) at column 2, old_text 'o'",
        ),
        ("foo =  1\n", "foo = 1\n", "line 1 has ' ' at column 7, old_text ''"),
        ("foo = '\x1b'\n", "foo = ''\n", r"line 1 has '\x1b' at column 8, old_text ''"),
        ("foo = 1\n  \nbar", "foo = 1\n\nbaz", "line 2 begins with 2 spaces, in old_text none"),
        ("foo " * 99 + "1", "foo " * 99 + "2", "line 1 differs from old_text at column 397"),
    ],
)
def test_lines_that_look_like_old_text_come_with_the_difference(
    own: str, old: str, note: str
) -> None:
    shown = explain_not_found(LfView(own), Reading(old, ""), path="f")
    assert shown.splitlines()[-1] == f"[{note}]"


@pytest.mark.parametrize("old", ["foo = s3cret…", "foo = «1»", "foo = xx", "foo ="])
def test_difference_never_spells_a_part_of_a_value(old: str) -> None:
    shown = explain_not_found(LfView("foo = s3cret-value\n"), Reading(old, ""), path="f")
    assert shown.endswith("\tfoo = s3cret-value")


def test_nothing_close_is_nothing_shown() -> None:
    assert told("zebra") == (
        "old_text is not in f. Nothing in it is like it. Is it another file? grep for a few words "
        "of it, and copy the lines you find."
    )


def test_long_lines_are_cut() -> None:
    view = LfView("word " * 1000 + "\nend\n")
    shown = explain_not_found(view, Reading("word " * 1000 + "\nEnd\n", ""), path="f")
    assert len(shown) < 400


def test_removing_lines_is_not_taken_for_done() -> None:
    view = LfView("first line of it\nsecond line of it\n")
    reading = Reading("zero line\nsecond line of it\n", "second line of it\n")
    assert "already" not in explain_not_found(view, reading, path="f")
