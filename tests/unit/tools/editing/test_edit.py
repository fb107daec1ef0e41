from collections.abc import Callable

import pytest

from agentcli.system.text import splice
from agentcli.tools.edit.edit import EditRequest, plan_edit
from agentcli.types.errors import ToolError

CODE = """\
class Shop:
    def sell(self, item):
        price = self.price(item)
        if price > 0:
            self.cash += price
        return price

    def close(self):
        self.open = False
"""


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> tuple[str, str]:
    wish = EditRequest(path="f", old=old, new=new, replace_all=replace_all)
    result = plan_edit(text, wish)
    return splice(text, result.splices), result.overlooked


def refused(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    with pytest.raises(ToolError) as caught:
        edited(text, old, new, replace_all=replace_all)
    return str(caught.value)


OLD = "        if price > 0:\n            self.cash += price\n        return price\n"
NEW = (
    "        if price > 0:\n            self.cash += price\n            self.count -= 1\n"
    "        return price\n"
)
WANTED = CODE.replace("+= price\n", "+= price\n            self.count -= 1\n")


def shifted(text: str, by: int) -> str:
    if by < 0:
        return "".join(line[-by:] for line in text.splitlines(keepends=True))
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


def numbered(text: str, first: int = 4, mark: str = "\t") -> str:
    lines = enumerate(text.splitlines(keepends=True), first)
    return "".join(f"{number}{mark}{line}" for number, line in lines)


def marked(text: str, mark: str) -> str:
    return "".join(mark + line for line in text.splitlines(keepends=True))


def with_trails(text: str) -> str:
    return text.replace("\n", "  \n")


@pytest.mark.parametrize(
    ("old", "new", "overlooked"),
    [
        (OLD, NEW, ""),
        (OLD.replace("\n", "\r\n"), NEW.replace("\n", "\r\n"), ""),
        (OLD.rstrip("\n"), NEW.rstrip("\n"), ""),
        (numbered(OLD), numbered(NEW), "line numbers"),
        (numbered(OLD), NEW, "line numbers"),
        (numbered(OLD, 9), numbered(NEW, 9), "line numbers"),
        *(
            (numbered(OLD, mark=mark), numbered(NEW, mark=mark), "line numbers")
            for mark in ("→", "|", ":", " |", " :", ": ", " | ", ". ", ") ", "- ", " ")
        ),
        (numbered(OLD, mark=":"), NEW, "line numbers"),
        (with_trails(OLD), with_trails(NEW), "trailing whitespace"),
        (with_trails(OLD), NEW, "trailing whitespace"),
        ("\n\n" + OLD, "\n\n" + NEW, "blank lines"),
        (shifted(OLD, 4), shifted(NEW, 4), "indentation"),
        (shifted(OLD, -8), shifted(NEW, -8), "indentation"),
        (shifted(OLD, -8), NEW, "indentation"),
        (OLD.replace("    ", "\t"), NEW.replace("    ", "\t"), "indentation"),
        (OLD.replace(" ", "\u00a0"), NEW.replace(" ", "\u00a0"), "typographic characters"),
        (OLD.replace("\n", "\\n"), NEW.replace("\n", "\\n"), "escapes"),
        (f"```python\n{OLD}```", f"```python\n{NEW}```", "a code fence"),
        (f"```\n{OLD}```\n", NEW, "a code fence"),
        (marked(OLD, "-"), marked(NEW, "+"), "the marks of a diff"),
        (marked(OLD, "- "), marked(NEW, "+ "), "the marks of a diff and indentation"),
        (OLD.replace(">", "&gt;"), NEW.replace(">", "&gt;"), "HTML entities"),
        (OLD.replace(">", "&gt;"), NEW, "HTML entities"),
        (OLD.replace("\n", "\n\n", 1), NEW.replace("\n", "\n\n", 1), "blank lines"),
        (
            f"```\n{numbered(OLD)}```",
            f"```\n{numbered(NEW)}```",
            "a code fence and line numbers",
        ),
        (
            numbered(shifted(OLD, -4)),
            numbered(shifted(NEW, -4)),
            "line numbers and indentation",
        ),
        (
            "\n" + with_trails(shifted(OLD, 4)),
            "\n" + with_trails(shifted(NEW, 4)),
            "blank lines and indentation",
        ),
    ],
)
def test_a_drifted_call_does_what_the_exact_one_would(old: str, new: str, overlooked: str) -> None:
    assert edited(CODE, old, new) == (WANTED, overlooked)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("```\n## Title\n```", ""),
        ("\n```sh\nmake\n```\n\n\n", "\n```sh\nmake\n```\nmore\n\n"),
        ("\n```sh\nmake\n```\n\n\n", "\n```sh\nmake\n```\n```sh\nmore\n```\n"),
    ],
)
def test_fence_that_may_be_of_the_file_itself_is_not_taken_off(old: str, new: str) -> None:
    assert refused("# Page\n\n## Title\n\n```sh\nmake\n```\n\nEnd.\n", old, new)


REPEATED = "x = 1\n    y()\n" * 3


@pytest.mark.parametrize("mark", ["\t", "→", "|", ":"])
def test_line_numbers_name_one_of_several_places(mark: str) -> None:
    old, new = numbered("x = 1\n", 3, mark), numbered("x = 2\n", 3, mark)
    assert edited(REPEATED, old, new)[0] == REPEATED.replace("x = 1\n    y()\n" * 2, SECOND, 1)


SECOND = "x = 1\n    y()\nx = 2\n    y()\n"


def test_numbers_before_code_are_code_unless_they_fit_the_file() -> None:
    assert "old_text is not in f" in refused("a\nb\nc\n", "7: b\n", "7: d\n")
    assert edited("a\nb\nc\n", "2: b\n", "2: d\n")[0] == "a\nd\nc\n"


SPACED = "a = 1\n\n\nb = 2\n\nc = 3\n"


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("a = 1\nb = 2\nc = 3", "a = 1\nb = 9\nc = 3", SPACED.replace("2", "9")),
        ("a = 1\n\nb = 2", "a = 7\n\nb = 8", SPACED.replace("1", "7").replace("2", "8")),
    ],
)
def test_blank_lines_between_are_the_files_own(old: str, new: str, wanted: str) -> None:
    assert edited(SPACED, old, new) == (wanted, "blank lines")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a = 1\nb = 2", "a = 1\nx = 0\nb = 2"),  # before the blank lines, or after them?
        ("a = 1\n\nb = 2", "a = 1\nb = 2"),
        ("a = 1\n\nb = 2", "b = 2\n\na = 1"),
        ("a = 1\nb = 2\n", "a = 1\nb = 2\n\n"),
        ("b = 2\n\n\nc = 3", "b = 2\nx = 0\n\n\nc = 3"),
        ("\na = 1\nb = 2\n\nc = 3", "a = 1\n\nx = 0\nb = 2\n\nc = 3"),
    ],
)
def test_a_change_beside_blank_lines_that_drifted_is_refused(old: str, new: str) -> None:
    assert "Not edited" in refused(SPACED, old, new)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        # What is new may mean the entity, or what it stands for.
        ("<p>a</p>\n", "&lt;p&gt;a&lt;/p&gt;", "<p>a &amp; b</p>"),
        # Its quotes are of two kinds.
        ('say("a")\nend\n', 'say(\\"a\\")\nend\n', 'say("b \\"c\\"")\nend\n'),
    ],
)
def test_a_text_that_is_written_in_two_ways_is_refused(text: str, old: str, new: str) -> None:
    assert "Not edited" in refused(text, old, new)


@pytest.mark.parametrize(
    ("code", "drift"),
    [
        (CODE, lambda text: text.replace("\n    def", "\n\tdef")),
        (CODE.replace("    ", "\t"), lambda text: text.replace("\n\tdef", "\n    def")),
    ],
)
def test_one_level_of_indentation_may_drift(code: str, drift: Callable[[str], str]) -> None:
    start = code.index("\n", code.index("return")) + 1
    old, new = code[start:], code[start:].replace("False", "None").replace("close", "shut")
    assert edited(code, drift(old), drift(new))[0] == code[:start] + new


@pytest.mark.parametrize(
    ("text", "old", "new", "wanted"),
    [
        # The file's quotes are kept where they did not change.
        ("say(“hi”)\nend\n", 'say("hi")\nend\n', 'say("hello")\nend\n', "say(“hello”)\nend\n"),
        ('say("hi")\nend\n', "say(“hi”)\nend\n", "say(“ho”)\nend\n", 'say("ho")\nend\n'),
        ("é = 1\nx\n", "e\u0301 = 1\nx", "e\u0301 = 2\nx", "é = 2\nx\n"),
        ("e\u0301 = 1\nx\n", "é = 1\nx", "é = 2\nx", "e\u0301 = 2\nx\n"),
        # Whitespace that the model does not see stays.
        ("a  \nb\nc \n", "a\nb\nc\n", "a\nB\nc\n", "a  \nB\nc \n"),
        # Deleted lines go with their newline.
        ("a\n  b\nc\n", "b  \n", "", "a\nc\n"),
        # The end of the file.
        ("a\n  b", "b  ", "c", "a\n  c"),
    ],
)
def test_unchanged_lines_are_the_files_own(text: str, old: str, new: str, wanted: str) -> None:
    assert edited(text, old, new)[0] == wanted


@pytest.mark.parametrize(
    ("text", "old", "new", "wanted"),
    [
        ("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "a", "a\nx", "a\r\nx\r\nb\r\n"),
        ("a\nb\r\nc\nd\r\n", "b\nc\n", "B\nc\nx\n", "a\nB\r\nc\nx\nd\r\n"),
        ("a\nb\r\nc\n", "a\nb\r\n", "x\r\nb\n", "x\r\nb\nc\n"),
        ("a\r\nb\nc\n", "a\r\nb", "a\nb", "a\nb\nc\n"),
        ("a\rb\n", "a\rb", "a\rc", "a\rc\n"),
        ("a\r\r\nb\r\n", "b", "c", "a\r\r\nc\r\n"),
        ("one", "one", "a\r\nb", "a\r\nb"),
        ("a\nb", "b", "b\n", "a\nb\n"),
        ("a\nb\n", "b\n", "b", "a\nb"),
    ],
)
def test_line_endings_are_kept(text: str, old: str, new: str, wanted: str) -> None:
    assert edited(text, old, new)[0] == wanted


@pytest.mark.parametrize(
    ("text", "old", "new", "why"),
    [
        ("aaa", "aa", "b", "Not edited: old_text occurs 2 times in f (line 1). Add "
         "more of the line, or set replace_all."),
        ("x\n" * 2000, "x", "y", "Not edited: old_text occurs at least 1000 times in f (lines 1, "
         "2, 3, 4, 5, 6, 7, 8, 9, 10, …). Add surrounding lines, or set replace_all."),
        ("  a\n\ta\n", "a  \n", "b  \n", "Not edited: no exact match, and 2 places match if "
         "whitespace is ignored (lines 1, 2). Copy the exact text of the one you mean."),
        ("a\nb\n", "a\n", "x", "Not edited: old_text begins or ends with a newline that new_text "
         "lacks, which would join two lines. Give whole lines in both, or the text of both lines "
         "in old_text."),
        ("    a\n", "a", "b\nc", "Not edited: old_text leaves out the indentation of line 1, so "
         "that of new_text is unclear. Give whole lines, with their indentation."),
        ("a\r\n", "a\n", "a\r\n", "Not edited: old_text and new_text differ only in line "
         "endings, and old_text is not in f exactly once with its own."),
    ],
)  # fmt: skip
def test_what_is_not_certain_is_refused(text: str, old: str, new: str, why: str) -> None:
    assert refused(text, old, new) == why


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        # Whitespace is the whole edit, and not the file's.
        ("a  \nb\n", "a\nb\n", "a \nb\n"),
        ("    a\n", "  a\n", "      a\n"),
        # No one map explains both lines.
        ("    a\n  b\n", "a\nb\n", "a\nc\nb\n"),
        # Which of two lines that the model wrote the same way is to go?
        ("      a\n    }\n  }\nb\n", "a\n}\n}\nb\n", "a\n}\nb\n"),
        # The map cannot express the new line.
        ("a\n  b\n", "    a\n      b\n", "    a\n  x\n      b\n"),
        # Which quote is meant?
        ("“a”\nb\n", '"a"\nb\n', '"a"\n"c"\nb\n'),
        # A drift that old_text does not show.
        ("a\nb\n", "a \nb \n", "a \nx – y \nb \n"),
        ("a\n    b\n", "a \n    b \n", "a \n\tc \n    b \n"),
        # Numbers that do not follow each other, or only half of them.
        ("a\nb\n", "1\ta\n3\tb\n", "1\ta\n3\tc\n"),
        ("a\nb\n", "1\ta\n2\tb\n", "1\ta\nc\n"),
        # An escape of the code, or a new line?
        ("a\nb\n", "a\\nb", 'a\\nprint("x\\n")\\nb'),
        # Blank lines that are to go, or crept in?
        ("a\nb\n\n", "a \nb \n\n\n", "a \nc \n"),
        # The last line's newline.
        ("a\nb\n", "a \nb \n", "a \nc"),
        # Similar is not equal.
        ("alpha beta gamma\n", "alpha beta gama\n", "x\n"),
        ("a\nb\nc\nd\n", "a\n...\nd\n", "x\n"),
    ],
)
def test_what_has_no_one_explanation_is_refused(text: str, old: str, new: str) -> None:
    assert refused(text, old, new).startswith("Not edited: old_text is not in f.")


def test_the_closest_lines_are_shown() -> None:
    assert refused(CODE, "        if price > 1:\n            self.cash += price\n", "x") == (
        "Not edited: old_text is not in f. Closest, line 4:\n"
        "4\t        if price > 0:\n5\t            self.cash += price\n6\t        return price"
    )


def test_an_edit_made_before_is_pointed_out() -> None:
    assert refused(WANTED, "self.cash += price\n        return", "self.count -= 1\n") == (
        "Not edited: old_text is not in f. new_text is already at line 6; nothing to do?"
    )


def test_left_out_code_is_pointed_out() -> None:
    assert refused(CODE, "class Shop:\n    # ... existing code ...\n", "x").startswith(
        'Not edited: old_text is not in f. old_text must not leave code out ("...").'
    )


def test_replace_all_replaces_separate_hits_only() -> None:
    assert edited("a-a-a\n", "a", "bb", replace_all=True)[0] == "bb-bb-bb\n"
    assert refused("aaa", "aa", "b", replace_all=True) == (
        "Not edited: the places where old_text occurs overlap. Add surrounding lines."
    )


def test_overlapping_hits_are_counted_quickly() -> None:
    text = "a" * 2_000_000
    assert "at least 1000 times" in refused(text, "a" * 10_000, "b")
    assert "overlap" in refused(text, "a" * 10_000, "b", replace_all=True)


def test_part_of_an_indentation_is_taken_as_drift() -> None:
    text = "if a:\n        x = 1\n"
    assert edited(text, "    x = 1\n", "    x = 1\n    y = 3\n") == (
        "if a:\n        x = 1\n        y = 3\n",
        "indentation",
    )
    assert refused(text, "    x = 1\n", "    x = 2\n    y = 3\n") == (
        "Not edited: old_text is not in f. Closest, line 2:\n2\t        x = 1\n"
        "[line 2 begins with 8 spaces, in old_text 4 spaces]"
    )


def test_text_without_its_indentation_is_exact_where_that_is_plain() -> None:
    text = "if a:\n    x = 1\n    z\n"
    assert edited(text, "x = 1", "x = 2")[0] == "if a:\n    x = 2\n    z\n"
    assert edited(text, "x = 1", "x = 2\n    y = 3")[0] == "if a:\n    x = 2\n    y = 3\n    z\n"


def test_place_with_another_blank_line_between_counts_too() -> None:
    told = refused("  a\n  b\nc\na\n\nb\n", "    a\n    b\n", "    a\n    x\n    b\n")
    assert "2 places match if whitespace is ignored (lines 1, 4)" in told
