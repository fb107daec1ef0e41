"""Diffs for people: numbered, in the colours of their language, with the words that changed.

What cannot be seen in a line is said in words, and what is left out is counted.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from rich.style import Style
from rich.text import Text

from agentcli.types.tools import Diff
from agentcli.types.words import pluralize
from agentcli.ui.render.code import Highlighter, find_lexer_for_file
from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import Paint, fold, make_run, wrap
from agentcli.ui.render.palette import PLAIN, Theme
from agentcli.ui.render.patch import DiffLine, FilePatch, list_remarks, read_patch
from agentcli.ui.render.words import find_changed_words, pair_lines

SHOWN_LINES = 40
SHOWN_SHARE = 0.6
"""Of the rows of a screen."""
NEW_FILE_LINES = 12
MIN_COLUMNS = 8


def render_diff(diff: Diff, paint: Paint, *, number: int | None = None, whole: bool = False) -> str:
    """Lines for under a header. `whole`: nothing is left out, for the person who must decide.

    `number`: of the card, to be named where something is left out.
    """
    files = read_patch(diff.unified)
    if files is None:
        rows, said = _render_source(diff.unified, paint), []
    else:
        rows, said = (
            [row for file in files for row in _render_file(file, files, paint)],
            list_remarks(files),
        )
    notes = [
        part
        for note in dict.fromkeys((*said, *diff.notes))
        for part in wrap(make_run(escape(note), paint.theme.dim), paint.width, indent="  ")
    ]
    limit = _find_limit(diff, paint)
    if whole or len(rows) <= limit + 1:
        return paint.render_lines(rows + notes)
    more = f"{paint.ellipsis} {pluralize(len(rows) - limit, 'more line')}"
    show = f"{paint.dot}/show {number}" if number else ""
    hidden = wrap(make_run(more + show, paint.theme.dim), paint.width, indent="  ")
    return paint.render_lines([*rows[:limit], *hidden, *notes])


def _find_limit(diff: Diff, paint: Paint) -> int:
    if diff.created:
        return NEW_FILE_LINES
    return max(3, min(SHOWN_LINES, int(SHOWN_SHARE * paint.rows)))


def _render_source(text: str, paint: Paint) -> list[Text]:
    lines = text.rstrip("\n").split("\n") if text else []
    safe = (make_run(f"  {escape(line.expandtabs(4))}") for line in lines)
    return [part for line in safe for part in fold(line, paint.width)]


def _render_file(file: FilePatch, files: Sequence[FilePatch], paint: Paint) -> Iterator[Text]:
    if len(files) > 1:
        yield from wrap(make_run(file.path, paint.theme.strong), paint.width, indent="  ")
    lexer = find_lexer_for_file(file.path)
    for index, lines in enumerate(file.hunks):
        if index:
            yield make_run(f"  {paint.ellipsis:>4}", paint.theme.dim)
        _mark_changed_words(lines)
        before, after = Highlighter(lexer, paint.theme), Highlighter(lexer, paint.theme)
        for line in lines:
            if line.sign == " ":
                before.style_line(line.text)  # it must know of what it goes on from
            yield from _render_line(line, before if line.sign == "-" else after, paint)


def _mark_changed_words(lines: Sequence[DiffLine]) -> None:
    """Where lines were replaced: the words that make the difference."""
    runs = [(sign, list(group)) for sign, group in groupby(lines, key=lambda line: line.sign)]
    for (sign, old), (next_sign, new) in pairwise(runs):
        if (sign, next_sign) != ("-", "+"):
            continue
        pairs = pair_lines([line.text for line in old], [line.text for line in new])
        for gone, came in pairs.items():
            old[gone].words, new[came].words = find_changed_words(old[gone].text, new[came].text)


def _render_line(line: DiffLine, highlighter: Highlighter, paint: Paint) -> list[Text]:
    base, word = _choose_styles(line.sign, paint.theme)
    shown = highlighter.style_line(line.text, base)
    if line.sign != " " and not paint.theme.syntax_in_diffs:
        shown = make_run(line.text, base)
    for start, end in line.words:
        shown.stylize(word, start, end)
    for start, end in line.escapes:
        shown.stylize(paint.theme.escaped, start, end)
    gutter, indent = f"  {line.number:>4} ", "  "
    width = max(MIN_COLUMNS, paint.width - len(gutter) - len(indent))
    rows = []
    parts = fold(shown, width)
    for index, part in enumerate(parts):
        number = gutter if index == 0 else " " * len(gutter)
        sign = f"{line.sign} " if index == 0 else indent
        row = make_run(number, paint.theme.dim) + make_run(sign, base) + part
        if index < len(parts) - 1 or not part.plain or line.sign == " ":
            row.rstrip()
        rows.append(row)
    return rows


def _choose_styles(sign: str, theme: Theme) -> tuple[Style, Style]:
    match sign:
        case "+":
            return theme.added, theme.added_word
        case "-":
            return theme.removed, theme.removed_word
        case _:
            return PLAIN, PLAIN
