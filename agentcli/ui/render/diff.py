"""Diffs for people: numbered, in the colours of their language, with the changed words marked.

Changes that cannot be seen in a line are described in words, and omitted lines are counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby, pairwise

from rich.style import Style
from rich.text import Text
from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchSet

from agentcli.system.lazy import compile_later
from agentcli.types.tools import Diff
from agentcli.types.words import pluralize
from agentcli.ui.render.highlight import Highlighter, find_lexer_for_file
from agentcli.ui.render.paint import (
    Paint,
    TextRange,
    escape,
    escape_with_ranges,
    fold,
    make_run,
    wrap,
)
from agentcli.ui.render.theme import PLAIN, Theme

TAB = 4
NO_NEWLINE = "\\"


@dataclass(slots=True, kw_only=True)
class DiffLine:
    sign: str
    """`+`, `-` or a blank."""
    raw: str
    """The line as it is in the file, with its ending."""
    number: int
    """The line number: in the old file if it was removed, in the new one otherwise."""
    text: str = ""
    """The text to show: without its ending, tabs as blanks, control characters as escapes."""
    escapes: list[TextRange] = field(default_factory=list)
    words: list[TextRange] = field(default_factory=list)
    """The ranges of the words that are new in it, or removed with it."""
    is_unended: bool = False
    """True if no newline follows: it is the last line of its file."""


@dataclass(frozen=True, slots=True)
class FilePatch:
    path: str
    hunks: tuple[list[DiffLine], ...]


def read_patch(unified: str) -> list[FilePatch] | None:
    """Return the files of a unified diff; None if it cannot be read as one."""
    try:
        files = PatchSet(unified)
    except UnidiffParseError:
        return None
    read = [FilePatch(escape(file.path), tuple(map(_read_hunk, file))) for file in files]
    return read or None


def _read_hunk(hunk: Hunk) -> list[DiffLine]:
    lines: list[DiffLine] = []
    for line in hunk:
        if line.line_type == NO_NEWLINE:
            if lines:
                lines[-1].is_unended = True
            continue
        number = line.source_line_no if line.line_type == "-" else line.target_line_no
        shown = line.value.removesuffix("\n").removesuffix("\r").expandtabs(TAB)
        text, escapes = escape_with_ranges(shown)
        lines.append(
            DiffLine(
                sign=line.line_type,
                raw=line.value,
                number=number or 0,
                text=text,
                escapes=escapes,
            )
        )
    return lines


def list_remarks(files: Sequence[FilePatch]) -> list[str]:
    """Return the changes that no line shows."""
    lines = [line for file in files for hunk in file.hunks for line in hunk]
    removed = [line for line in lines if line.sign == "-"]
    added = [line for line in lines if line.sign == "+"]
    return [
        *_compare_line_ends(lines, removed, added=added),
        *_compare_last_newline(lines),
        *_compare_blanks(removed, added),
    ]


def _compare_line_ends(
    lines: Sequence[DiffLine], removed: Sequence[DiffLine], *, added: Sequence[DiffLine]
) -> Iterator[str]:
    if removed and added and _is_crlf(removed) != _is_crlf(added):
        yield f"line ends change from {_name_line_end(removed)} to {_name_line_end(added)}"
    elif _is_crlf(lines):
        yield "line ends are CRLF"


def _compare_last_newline(lines: Sequence[DiffLine]) -> Iterator[str]:
    unended = {line.sign for line in lines if line.is_unended}
    if unended == {"-"}:
        yield "a newline is added at the end of the file"
    elif unended == {"+"} and any(line.sign == "-" for line in lines):
        yield "the newline at the end of the file is removed"
    elif unended:
        yield "no newline at the end of the file"


def _compare_blanks(removed: Sequence[DiffLine], added: Sequence[DiffLine]) -> Iterator[str]:
    if not removed or not added or _join_letters(removed) != _join_letters(added):
        return
    before, after = _join_indents(removed), _join_indents(added)
    if [line.text for line in removed] == [line.text for line in added] and before == after:
        return
    if "\t" in before and "\t" not in after:
        yield "whitespace only: tabs become spaces"
    elif "\t" in after and "\t" not in before:
        yield "whitespace only: spaces become tabs"
    elif before != after or _join_letters(removed):
        yield "whitespace only"


def _join_letters(lines: Sequence[DiffLine]) -> str:
    return "".join("".join(line.raw.split()) for line in lines)


def _join_indents(lines: Sequence[DiffLine]) -> str:
    return "".join(line.raw[: len(line.raw) - len(line.raw.lstrip(" \t"))] for line in lines)


def _is_crlf(lines: Sequence[DiffLine]) -> bool:
    """Return whether all lines that have an ending end in CRLF."""
    ended = [line for line in lines if not line.is_unended]
    return bool(ended) and all(line.raw.endswith("\r\n") for line in ended)


def _name_line_end(lines: Sequence[DiffLine]) -> str:
    return "CRLF" if _is_crlf(lines) else "LF"


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
            gone.append(_measure_range(left, old_from, last=old_to))
            came.append(_measure_range(right, new_from, last=new_to))
    return [span for span in gone if span[0] < span[1]], [
        span for span in came if span[0] < span[1]
    ]


def split_tokens(line: str) -> list[str]:
    return _TOKEN.findall(line)


def _measure_range(words: Sequence[str], first: int, *, last: int) -> TextRange:
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
            [row for file in files for row in _render_file(file, files, paint=paint)],
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


def _render_file(file: FilePatch, files: Sequence[FilePatch], *, paint: Paint) -> Iterator[Text]:
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
            yield from _render_line(line, before if line.sign == "-" else after, paint=paint)


def _mark_changed_words(lines: Sequence[DiffLine]) -> None:
    """Mark the words that differ in lines that were replaced."""
    runs = [(sign, list(group)) for sign, group in groupby(lines, key=lambda line: line.sign)]
    for (sign, old), (next_sign, new) in pairwise(runs):
        if (sign, next_sign) != ("-", "+"):
            continue
        pairs = pair_lines([line.text for line in old], [line.text for line in new])
        for gone, came in pairs.items():
            old[gone].words, new[came].words = find_changed_words(old[gone].text, new[came].text)


def _render_line(line: DiffLine, highlighter: Highlighter, *, paint: Paint) -> list[Text]:
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
