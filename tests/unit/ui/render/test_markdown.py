import re

import pytest

from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import DARK, NONE

CODES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")


def stream(columns: int = 60) -> MarkdownStream:
    return MarkdownStream(Paint(columns=columns, theme=NONE, color="none"))


def shown(source: str, columns: int = 60) -> str:
    one = stream(columns)
    return CODES.sub("", one.feed(source) + one.finish())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# Title\ntext", "Title\n\ntext\n"),
        ("Title\n===\n\ntext", "Title\n\ntext\n"),
        ("one\ntwo\n\nthree", "one two\n\nthree\n"),
        ("hard  \nbreak", "hard\nbreak\n"),
        ("- a\n- b\n  - c\n\n  d\n", "• a\n• b\n  • c\n\n  d\n"),
        ("1. a\n1. b\n1. c\n1. d\n1. e\n1. f\n", "1. a\n2. b\n3. c\n4. d\n5. e\n6. f\n"),
        ("7. a\n8. b\n", "7. a\n8. b\n"),
        ("- a\n\n- b\n", "• a\n\n• b\n"),
        ("> a\n> b\n\nc", "│ a b\n\nc\n"),
        ("    code\n\n      more\n\ntext", "code\n\n  more\n\ntext\n"),
        ("a\n\n---\n\nb", "a\n\n───\n\nb\n"),
        ("<b>x</b>\n", "<b>x</b>\n"),
        ("[x]: http://a.b/c\n\n[x]\n", "x (http://a.b/c)\n"),
        ("<http://a.b/c>", "http://a.b/c\n"),
        ("![alt](pic.png)", "image: alt (pic.png)\n"),
        ("a\r\nb\r\n\r\nc", "a b\n\nc\n"),
        ("```\na\n```\n```\nb\n```\n", "a\n\nb\n"),
        ("- a\n  ```\n  x\n\n  y\n  ```\n- b\n", "• a\n  x\n\n  y\n• b\n"),
        ("````\n```\n````\n", "```\n"),
        ("  ```\n   x\n  ```\n", " x\n"),
        ("\x1b[31mred\u202e", "\\x1b[31mred\\u202e\n"),
        ("", ""),
        ("\n\n", ""),
    ],
)
def test_block_is_shown_as(source: str, expected: str) -> None:
    assert shown(source) == expected


def test_paragraph_is_committed_by_the_empty_line_after_it() -> None:
    one = stream()
    assert one.feed("first par") == ""
    assert one.feed("agraph\n") == ""
    assert one.feed("\n") == "first paragraph\n"
    assert one.feed("second\n\n") == "\nsecond\n"
    assert one.finish() == ""


def test_code_is_committed_line_by_line() -> None:
    one = stream()
    assert one.feed("```python\n") == ""
    assert one.feed("x = 1") == ""
    assert one.render_tail(3) == "x = 1"
    assert one.feed("\ny = 2\n") == "x = 1\ny = 2\n"
    assert one.feed("```\n") == ""


def test_table_is_held_until_it_is_complete() -> None:
    one = stream()
    assert one.feed("| a | b |\n|---|--:|\n| x | 1 |\n") == ""
    assert "x" in CODES.sub("", one.render_tail(9))
    committed = CODES.sub("", one.feed("| longer | 22 |\n\n"))
    assert committed == "a        b\n──────  ──\nx        1\nlonger  22\n"


def test_list_is_committed_item_by_item() -> None:
    one = stream()
    committed = "".join(one.feed(f"- item {number}\n") for number in range(20))
    assert "item 12" in committed and "item 19" not in committed
    assert committed + one.finish() == "".join(f"• item {number}\n" for number in range(20))


def test_paragraph_behind_a_long_list_is_committed_as_soon_as_it_ends() -> None:
    one = stream()
    one.feed("".join(f"- item {number}\n" for number in range(20)))
    assert one.feed("\nafter\n").endswith("• item 19\n")
    assert one.feed("\n") == "\nafter\n"


def test_prose_is_not_wider_than_a_hundred_columns() -> None:
    rows = shown("word " * 60, columns=200).split("\n")
    assert max(map(len, rows)) <= 100


def test_wide_table_becomes_pairs() -> None:
    source = "| name | what it does | since |\n|-|-|-|\n| alpha | begins everything | 1 |\n"
    assert shown(source, columns=20) == "name: alpha\nwhat it does:\nbegins everything\nsince: 1\n"


def test_table_cells_are_wrapped_by_cells() -> None:
    source = "| a | b |\n|-|-|\n| 日本語のとても長い文 | text |\n| 二 | x |\n"
    assert shown(source, columns=20) == (
        "a              b\n─────────────  ────\n日本語のとて   text\nも長い文\n\n二             x\n"
    )


def test_links_are_clickable_only_once_they_are_committed() -> None:
    one = MarkdownStream(Paint(columns=60, theme=DARK, color="truecolor"))
    one.feed("see [it](https://example.org) and [local](file:///etc/passwd)")
    assert "\x1b]8" not in one.render_tail(3)
    committed = one.finish()
    assert "\x1b]8;;https://example.org\x1b\\" in committed
    assert "\x1b]8;;file" not in committed


def test_what_comes_after_a_resize_has_the_new_width() -> None:
    one = stream(60)
    assert one.feed("word " * 10 + "\n\n").count("\n") == 1
    one.set_paint(Paint(columns=20, theme=NONE, color="none"))
    rows = (one.feed("word " * 10) + one.finish()).split("\n")
    assert max(map(len, rows)) <= 19


@pytest.mark.parametrize("mark", [">", "- ", "1. "])
def test_text_nested_without_end_is_not_lost(mark: str) -> None:
    rows = shown(mark * 100 + "deep\n\nafter").split("\n")
    assert "".join(rows[:-3]).endswith("deep")
    assert rows[-3:] == ["", "after", ""]


def test_finished_stream_begins_anew() -> None:
    one = stream()
    one.feed("```python\nx = (")
    one.finish()
    assert one.feed("text\n\n") == "text\n"


def test_tail_of_a_long_block_is_its_end() -> None:
    one = stream()
    one.feed("start " + "word " * 5_000 + "end")
    assert one.render_tail(2).endswith("end")
    assert one.render_tail(2).count("\n") == 1
    assert one.render_tail(0) == ""


@pytest.mark.parametrize("before", ["See ", "- item ", "> quote ", "1. "])
def test_long_address_is_never_broken(before: str) -> None:
    address = "https://example.org/" + "a/long/path/" * 20 + "end"
    stream = MarkdownStream(Paint(columns=60, theme=NONE, color="none"))
    text = stream.feed(f"{before}{address} and words.\n") + stream.finish()
    assert address in text
