"""Markdown as it streams in: final text is returned once, and the rest can be previewed.

Only complete lines decide anything, so the result does not depend on how the text was cut into
chunks. The parser gets the block that is being written and none of those before it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.text import Text

from agentcli.system.lazy import compile_later
from agentcli.ui.render.highlight import Highlighter, find_lexer_by_name
from agentcli.ui.render.markdown_blocks import BlockRenderer, Node, are_apart, build_tree
from agentcli.ui.render.paint import Paint, fold

TAIL_CHARS = 4_000
"""The characters of a long block that are parsed to show its last rows."""
ITEM_LINES = 4
"""The lines of a list that are collected before its items are parsed again."""
MAX_NESTING = 50

_FENCE = compile_later(r"(?P<indent> {0,3})(?P<marks>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_HEADING = compile_later(r" {0,3}#{1,6}(?:\s|$)")
_ITEM = compile_later(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_BLOCK_START = compile_later(rf"{_HEADING.pattern}|{_ITEM.pattern}| {{0,3}}[>|<]")
_TABLE_RULE = compile_later(r"[ |:-]*-[ |:-]*")
_MARKS = compile_later(r"[\s`~|:=#*_>+-]*")
"""The beginning of a line that may still become anything."""
_LISTS = frozenset(("bullet_list", "ordered_list"))
_CLOSED_AT_ONCE = frozenset(("heading", "hr"))
_CLOSED_BY_EMPTY_LINE = frozenset(("paragraph", "table", "blockquote"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fence:
    """An open block of code, and the pattern that closes it."""

    closing: re.Pattern[str]
    indent: re.Pattern[str]
    highlighter: Highlighter


@dataclass(frozen=True, slots=True)
class _BlockPosition:
    """The position of the next block."""

    needs_gap: bool
    number: int | None = None
    """The number of its first item, if items of the same list were returned before."""


class MarkdownStream:
    def __init__(self, paint: Paint) -> None:
        self.set_paint(paint)
        self._parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING})
        self._parser.enable(["table", "strikethrough"])
        self._reset()

    def set_paint(self, paint: Paint) -> None:
        """Use this paint from now on, such as after a resize."""
        self._paint = paint
        self._blocks = BlockRenderer(paint)
        self._live_paint = replace(paint, links=False)

    def feed(self, text: str) -> str:
        """Return what is final now: terminal codes to commit, ended by a newline, or nothing."""
        whole, rest = self._split(text)
        self._partial.append(rest)
        if not whole:
            return ""
        return self._paint.render_lines(
            line for source in whole for line in self._feed_line(source)
        )

    def render_tail(self, rows: int) -> str:
        """Return the last rows of what is not final yet, without a newline at the end."""
        lines = self._render_pending()[-rows:] if rows > 0 else []
        fitting = [row for line in lines for row in fold(_expand_tabs(line), self._paint.width)]
        return self._live_paint.render_lines(fitting[-rows:]).removesuffix("\n")

    def finish(self) -> str:
        """Return the rest, which is final now, and start a new stream."""
        partial = "".join(self._partial)
        final = self._feed_line(partial) if partial else []
        final += self._render_blocks(self._parse(self._lines, self._names), self._position)
        self._reset()
        return self._paint.render_lines(final)

    def _reset(self) -> None:
        self._partial: list[str] = []
        self._carriage = ""
        self._lines: list[str] = []
        self._names: dict[str, Any] = {}
        self._fence: _Fence | None = None
        self._position = _BlockPosition(needs_gap=False)
        self._worth_parsing_at = 0

    def _split(self, text: str) -> tuple[list[str], str]:
        """Return the lines that are complete now, and the beginning of the next."""
        text = self._carriage + text
        self._carriage = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        if "\n" not in text:
            return [], text
        *whole, rest = text.split("\n")
        whole[0] = "".join((*self._partial, whole[0]))
        self._partial.clear()
        return whole, rest

    def _feed_line(self, line: str) -> list[Text]:
        if self._fence is not None:
            return self._render_code_line(self._fence, line)
        if not self._lines and not line.strip():
            return []
        self._lines.append(line)
        if _FENCE.match(line) or _ends_list(self._lines):
            return self._advance() if len(self._lines) > 1 else self._open_fence()
        if len(self._lines) < self._worth_parsing_at or not _may_border(self._lines):
            return []
        return self._advance()

    def _advance(self) -> list[Text]:
        """Return the blocks that no further line can change."""
        nodes = self._parse(self._lines, self._names)
        if not nodes:
            if not self._lines[-1].strip():
                self._lines.clear()
                self._worth_parsing_at = 0
            return []
        last = nodes[-1]
        if self._is_closed(last):
            self._lines.clear()
            self._worth_parsing_at = 0
            return self._commit_blocks(nodes)
        final = self._commit_blocks(nodes[:-1])
        if last.type == "fence":
            final += self._open_fence()
        elif last.type in _LISTS:
            final += self._commit_items(last)
        else:
            self._keep_from(last)
        # A block that grows without end is parsed at ever larger intervals.
        more = ITEM_LINES if last.type in _LISTS else 0
        self._worth_parsing_at = len(self._lines) * 5 // 4 + more
        return final

    def _is_closed(self, last: Node) -> bool:
        if last.type in _CLOSED_AT_ONCE:
            return True
        if self._lines[-1].strip():
            return False
        if last.type == "html_block":
            return last.map is not None and last.map[1] < len(self._lines)
        return last.type in _CLOSED_BY_EMPTY_LINE

    def _commit_blocks(self, nodes: Sequence[Node]) -> list[Text]:
        lines = self._render_blocks(nodes, self._position)
        if lines:
            self._position = _BlockPosition(needs_gap=True)
        return lines

    def _commit_items(self, node: Node) -> list[Text]:
        *whole, last = node.children
        self._keep_from(last)
        if not whole:
            return []
        first = _read_number(node, self._position)
        lines = _build_gap(self._position) + self._blocks.render_items(whole, number=first)
        self._position = _BlockPosition(
            needs_gap=are_apart(whole[-1], last),
            number=None if first is None else first + len(whole),
        )
        return lines

    def _keep_from(self, node: Node) -> None:
        first, _ = node.map or (0, 0)
        del self._lines[:first]

    def _render_blocks(self, nodes: Sequence[Node], position: _BlockPosition) -> list[Text]:
        lines: list[Text] = []
        for node in nodes:
            if node.type in _LISTS:
                block = self._blocks.render_items(
                    node.children, number=_read_number(node, position)
                )
            else:
                block = self._blocks.render_block(node)
            if block:
                lines += _build_gap(position) + block
                position = _BlockPosition(needs_gap=True)
        return lines

    def _open_fence(self) -> list[Text]:
        """Open a fence with the last line, which shows nothing itself."""
        opening = _FENCE.match(self._lines.pop())
        assert opening is not None
        self._lines.clear()
        marks = opening["marks"]
        name = opening["info"].split()
        self._fence = _Fence(
            closing=re.compile(rf" {{0,3}}{marks[0]}{{{len(marks)},}}[ \t]*"),
            indent=re.compile(rf" {{0,{len(opening['indent'])}}}"),
            highlighter=Highlighter(
                find_lexer_by_name(name[0]) if name else None, self._paint.theme
            ),
        )
        return []

    def _render_code_line(self, fence: _Fence, line: str) -> list[Text]:
        if fence.closing.fullmatch(line):
            self._fence = None
            self._position = _BlockPosition(needs_gap=True)
            return []
        lines = [
            *_build_gap(self._position),
            fence.highlighter.style_line(fence.indent.sub("", line, count=1)),
        ]
        self._position = _BlockPosition(needs_gap=False)
        return lines

    def _render_pending(self) -> list[Text]:
        """Return what would be final if the text ended here."""
        partial = "".join(self._partial)
        if self._fence is not None:
            if not partial or self._fence.closing.fullmatch(partial):
                return []
            line = self._fence.indent.sub("", partial, count=1)[-TAIL_CHARS:]
            return [*_build_gap(self._position), self._fence.highlighter.preview_line(line)]
        if _MARKS.fullmatch(partial):
            partial = ""
        nodes = self._parse(_take_last_part([*self._lines, partial]), dict(self._names))
        return self._render_blocks(nodes, self._position)

    def _parse(self, lines: Sequence[str], names: dict[str, Any]) -> list[Node]:
        """Return the top-level blocks; `names` collects the link targets defined in them."""
        source = "\n".join(lines)
        tokens = self._parser.parse(source, names)
        if any(token.level >= MAX_NESTING - 1 for token in tokens):
            # The parser leaves out what is nested deeper, so the source is shown unchanged.
            end = source.rstrip().count("\n") + 1
            tokens = [Token("html_block", "", 0, content=source, map=[0, end])]
        return build_tree(tokens)


def _may_border(lines: Sequence[str]) -> bool:
    """Return whether a block can end before or with the last line. Rows, prose and quotes go on."""
    line = lines[-1]
    if len(lines) == 1:
        return bool(_HEADING.match(line))
    before = lines[-2]
    if not line.strip():
        return bool(before.strip()) and not _ITEM.match(lines[0])
    if not before.strip():
        return True
    return bool(_BLOCK_START.match(line)) and not (line[0] == before[0] and line[0] in ">|<")


def _ends_list(lines: Sequence[str]) -> bool:
    """Return whether the last line can only follow the list before it, not belong to it."""
    if len(lines) < 2 or lines[-2].strip() or not _ITEM.match(lines[0]):
        return False
    return bool(lines[-1].strip()) and not lines[-1][0].isspace() and not _ITEM.match(lines[-1])


def _read_number(node: Node, position: _BlockPosition) -> int | None:
    if node.type == "bullet_list":
        return None
    return (
        position.number
        if position.number is not None
        else int(str(node.token.attrs.get("start", 1)))
    )


def _build_gap(position: _BlockPosition) -> list[Text]:
    return [Text()] if position.needs_gap else []


def _take_last_part(lines: list[str]) -> list[str]:
    """Return enough of a long block to show its last rows; for a table, with its head."""
    head = lines[:2] if len(lines) > 2 and _TABLE_RULE.fullmatch(lines[1]) else []
    chars = taken = 0
    while taken < len(lines) - len(head) and chars < TAIL_CHARS:
        taken += 1
        chars += len(lines[-taken])
    last = lines[len(lines) - taken :] if taken else []
    if len(last) == 1:
        last = [last[0][-TAIL_CHARS:]]
    return head + last


def _expand_tabs(line: Text) -> Text:
    """Return the line without tabs, whose width depends on their column."""
    spaced = line.copy()
    spaced.expand_tabs(4)
    return spaced
