"""Blocks of Markdown as finished lines: wrapped by cells, indented by nesting, never padded."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from agentcli.ui.render.code import Highlighter, lexer_by_name
from agentcli.ui.render.escape import escaped
from agentcli.ui.render.inline import inline
from agentcli.ui.render.paint import Paint, run, wrapped
from agentcli.ui.render.table import table_lines
from agentcli.ui.render.tree import Node

MIN_COLUMNS = 8
"""What is nested so deeply that less would be left is drawn at the same depth."""


class Blocks:
    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._theme = paint.theme

    def block(self, node: Node, width: int | None = None) -> list[Text]:
        width = width or self._paint.prose_width
        match node.type:
            case "paragraph":
                return wrapped(inline(node.children[0], self._paint), width)
            case "heading":
                return self._heading(node, width)
            case "bullet_list":
                return self.items(node.children, number=None, width=width)
            case "ordered_list":
                first = int(str(node.token.attrs.get("start", 1)))
                return self.items(node.children, number=first, width=width)
            case "blockquote":
                bar = run("> " if self._paint.ascii else "│ ", self._theme.dim)
                inner = self._stacked(node.children, max(MIN_COLUMNS, width - 2))
                return list(_beside(bar, bar, inner))
            case "table":
                return table_lines(node, self._paint, width=width)
            case _:
                return self._leaf(node, width)

    def items(
        self, nodes: Sequence[Node], *, number: int | None, width: int | None = None
    ) -> list[Text]:
        """Items of a list, the first of them with this number; None: they have bullets."""
        width = width or self._paint.prose_width
        lines: list[Text] = []
        for index, item in enumerate(nodes):
            if index and are_apart(nodes[index - 1], item):
                lines.append(Text())
            lines += self._item(item, None if number is None else number + index, width)
        return lines

    def _item(self, node: Node, number: int | None, width: int) -> list[Text]:
        bullet = "-" if self._paint.ascii else "•"
        sign = bullet if number is None else f"{number}."
        mark = run(f"{sign} ", self._theme.dim)
        if width - len(mark) < MIN_COLUMNS:
            return [run(sign, self._theme.dim), *self._stacked(node.children, width)]
        inner = self._stacked(node.children, width - len(mark)) or [Text()]
        return list(_beside(mark, Text(" " * len(mark)), inner))

    def _stacked(self, nodes: Sequence[Node], width: int) -> list[Text]:
        """One below the other, with an empty line where the author left one."""
        lines: list[Text] = []
        for index, node in enumerate(nodes):
            if index and are_apart(nodes[index - 1], node):
                lines.append(Text())
            lines += self.block(node, width)
        return lines

    def _leaf(self, node: Node, width: int) -> list[Text]:
        match node.type:
            case "fence" | "code_block":
                return self._code(node)
            case "hr":
                return [run("---" if self._paint.ascii else "───", self._theme.dim)]
            case _:
                return self._as_written(node, width)

    def _heading(self, node: Node, width: int) -> list[Text]:
        title = inline(node.children[0], self._paint, self._theme.heading)
        if self._paint.accessible:
            title = Text(f"{'#' * int(node.token.tag[1:])} ") + title
        return wrapped(title, width)

    def _code(self, node: Node) -> list[Text]:
        """Not wrapped: what is copied from the screen must be the code."""
        words = node.token.info.split() if node.type == "fence" else []
        highlighter = Highlighter(lexer_by_name(words[0]) if words else None, self._theme)
        return [highlighter.line(line) for line in node.content.removesuffix("\n").split("\n")]

    def _as_written(self, node: Node, width: int) -> list[Text]:
        return [
            part
            for line in node.content.rstrip("\n").expandtabs(4).split("\n")
            for part in wrapped(escaped(line, self._theme.dim, mark=self._theme.escaped), width)
        ]


def are_apart(before: Node, after: Node) -> bool:
    """Whether there is an empty line between two blocks of a source."""
    return after.map is not None and _end(before) < after.map[0]


def _end(node: Node) -> int:
    """The line after a block. The parser counts empty lines behind an item as part of it."""
    if node.type in ("bullet_list", "ordered_list", "list_item", "blockquote") and node.children:
        return _end(node.children[-1])
    first, end = node.map or (0, 0)
    return first + 1 if node.type == "list_item" else end


def _beside(first: Text, further: Text, lines: Iterable[Text]) -> Iterable[Text]:
    """Lines behind a mark, which the first has and the others stand under."""
    mark = first
    for line in lines:
        joined = mark + line
        if not line.plain:
            joined.rstrip()
        yield joined
        mark = further
