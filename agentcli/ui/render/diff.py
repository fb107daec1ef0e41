"""Diffs for people: numbered, in the colours of their language, with the changed words marked.

Changes that cannot be seen in a line are described in words, and omitted lines are counted.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise

from rich.style import Style
from rich.text import Text

from agentcli.system.lazy import compile_later
from agentcli.types.tools import Diff
from agentcli.types.words import pluralize
from agentcli.ui.render.highlight import Highlighter, find_lexer_for_file
from agentcli.ui.render.paint import Paint, TextRange, escape, fold, make_run, wrap
from agentcli.ui.render.patch import DiffLine, FilePatch, list_remarks, read_patch
from agentcli.ui.render.theme import PLAIN, Theme

# Pairs of removed and added lines, and the words that changed in them.


SIMILAR = 0.4
"""The least similarity of a pair of lines. Below it they have nothing to do with each other."""
COMPARED_TOKENS = 400
LOOKAHEAD = 4
"""The number of added lines that are compared with a removed one."""

_TOKEN = compile_later(r"\w+|\s+|.")


def pair_lines(removed: Sequence[str], added: Sequence[str]) -> dict[int, int]:
    """Map indices of removed lines to those of the added lines they became, both in order."""
    pairs: dict[int, int] = {}
    start = 0
    for index, old in enumerate(removed):
        near = range(start, min(len(added), start + LOOKAHEAD))
        best = max(near, key=lambda at: measure_similarity(old, added[at]), default=None)
        if best is not None and measure_similarity(old, added[best]) >= SIMILAR:
            pairs[index] = best
            start = best + 1
    return pairs


def measure_similarity(old: str, new: str) -> float:
    left, right = split_tokens(old.strip()), split_tokens(new.strip())
    if max(len(left), len(right)) > COMPARED_TOKENS:
        return 0.0
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def find_changed_words(old: str, new: str) -> tuple[list[TextRange], list[TextRange]]:
    """Return the ranges of the words only in the old line, and of those only in the new one."""
    left, right = split_tokens(old), split_tokens(new)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    gone: list[TextRange] = []
    came: list[TextRange] = []
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            gone.append(_measure_range(left, old_from, old_to))
            came.append(_measure_range(right, new_from, new_to))
    return [span for span in gone if span[0] < span[1]], [
        span for span in came if span[0] < span[1]
    ]


def split_tokens(line: str) -> list[str]:
    return _TOKEN.findall(line)


def _measure_range(words: Sequence[str], first: int, last: int) -> TextRange:
    start = sum(map(len, words[:first]))
    return start, start + sum(map(len, words[first:last]))


SHOWN_LINES = 40
SHOWN_SHARE = 0.6
"""The share of the screen's rows that a diff may take."""
NEW_FILE_LINES = 12
MIN_COLUMNS = 8


def render_diff(diff: Diff, paint: Paint, *, number: int | None = None, whole: bool = False) -> str:
    """Render the lines below a header.

    With `whole` nothing is left out, for the user who must decide. `number` is that of the card,
    which is named if something is left out.
    """
    files = read_patch(diff.unified)
    if files is None:
        rows, remarks = _render_source(diff.unified, paint), []
    else:
        rows, remarks = (
            [row for file in files for row in _render_file(file, files, paint)],
            list_remarks(files),
        )
    notes = [
        part
        for note in dict.fromkeys((*remarks, *diff.notes))
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
                before.style_line(line.text)  # removed lines continue from its state
            yield from _render_line(line, before if line.sign == "-" else after, paint)


def _mark_changed_words(lines: Sequence[DiffLine]) -> None:
    """Mark the words that differ in lines that were replaced."""
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
