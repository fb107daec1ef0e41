import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint, escape
from agentcli.ui.render.theme import DARK
from tests.support.examples import examples

SGR = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")

PIECES = st.sampled_from(
    [
        "# Title\n",
        "word ",
        "a longer sentence with *emphasis* and `code`\n",
        "\n",
        "\n\n",
        "- item\n",
        "  - nested\n",
        "1. first\n",
        "7) other\n",
        "   continued\n",
        "```python\n",
        "def f(x):\n",
        "\treturn 'x'  \n",
        "```\n",
        "~~~\n",
        "> quoted\n",
        "| a | b |\n",
        "|---|--:|\n",
        "| 日本 | 👩‍🔬 |\n",
        "---\n",
        "===\n",
        "    indented\n",
        "<div>\n",
        "<!-- open\n",
        "[name]: http://example.org/x\n",
        "[name] and [label](http://example.org/a_very_long_address/that/goes/on/and/on)\n",
        "\x1b[2J\u202e\u200b",
        "\r\n",
        "\r",
        "x" * 130,
        "  ",
        "\t",
        "*",
        "**",
        "`",
        "\\",
        "!",
    ]
)
SOURCES = st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=60)


def paint(columns: int = 40) -> Paint:
    return Paint(columns=columns, theme=DARK, color="truecolor")


def whole(source: str) -> str:
    stream = MarkdownStream(paint())
    return stream.feed(source) + stream.finish()


@examples(150)
@given(SOURCES, st.lists(st.integers(min_value=0, max_value=400), max_size=30))
def test_committed_text_is_the_same_however_the_source_was_cut(
    source: str, cuts: list[int]
) -> None:
    stream = MarkdownStream(paint())
    edges = sorted({0, len(source), *(cut for cut in cuts if cut < len(source))})
    committed = []
    for start, end in pairwise(edges):
        committed.append(stream.feed(source[start:end]))
        stream.render_tail(4)
    assert "".join((*committed, stream.finish())) == whole(source)


@examples(100)
@given(SOURCES, st.integers(min_value=20, max_value=130))
def test_every_row_but_those_of_code_and_of_a_long_word_fits_the_screen(
    source: str, columns: int
) -> None:
    prose = re.sub(r"[`~]{3}|\t|    ", "", source)
    stream = MarkdownStream(paint(columns))
    text = stream.feed(prose) + stream.finish()
    rows = [SGR.sub("", row) for row in text.split("\n")]
    too_long = [row for row in rows if cell_len(row) > columns - 1]
    # A word that no row can hold stays whole, so that an address can be copied.
    assert [row for row in too_long if " " in row.strip(" │┃>•◦▪-*0123456789.")] == []
    assert [row for row in rows if row != row.rstrip(" ")] == []


@examples(100)
@given(SOURCES, st.integers(min_value=1, max_value=12))
def test_tail_fits_its_rows_and_the_screen(source: str, rows: int) -> None:
    stream = MarkdownStream(paint())
    stream.feed(source)
    shown = [SGR.sub("", row) for row in stream.render_tail(rows).split("\n")]
    assert len(shown) <= rows
    assert [row for row in shown if cell_len(row) > 39] == []


@examples(100)
@given(SOURCES)
def test_nothing_acts_on_the_terminal_but_our_own_styles(source: str) -> None:
    text = SGR.sub("", whole(source))
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b]", text) == []


@examples(60)
@given(SOURCES)
def test_accessible_output_has_no_escapes(source: str) -> None:
    stream = MarkdownStream(Paint(columns=40, theme=DARK, color="truecolor", accessible=True))
    assert "\x1b" not in stream.feed(source) + stream.render_tail(9) + stream.finish()


CODE = st.lists(
    st.text(max_size=40).filter(lambda line: escape(line) == line and not set(line) & set("\n`"))
    | st.sampled_from(["\tif x:", '    """Doc', "trailing   ", "/* open", "*/", "<EOF", "'", '"']),
    min_size=1,
    max_size=20,
)


@examples(120)
@given(CODE, st.sampled_from(["python", "js", "c", "yaml", "html", "sh", "json", "none", ""]))
def test_copied_code_is_the_source(lines: list[str], language: str) -> None:
    source = "\n".join(lines)
    stream = MarkdownStream(paint())
    text = stream.feed(f"```{language}\n{source}\n```\n") + stream.finish()
    assert SGR.sub("", text) == source + "\n"
