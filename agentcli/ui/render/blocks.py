"""Blocks of Markdown as finished lines: wrapped by cells, indented by nesting, never padded."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from agentcli.ui.render.code import Highlighter, find_lexer_by_name
from agentcli.ui.render.escape import style_escaped
from agentcli.ui.render.inline import render_inline
from agentcli.ui.render.paint import Paint, make_run, wrap
from agentcli.ui.render.table import render_table
from agentcli.ui.render.tree import Node

MIN_COLUMNS = 8
"""What is nested so deeply that less would be left is drawn at the same depth."""


class BlockRenderer:
    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._theme = paint.theme

    def render_block(self, node: Node, width: int | None = None) -> list[Text]:
        width = width or self._paint.prose_width
        match node.type:
            case "paragraph":
                return wrap(render_inline(node.children[0], self._paint), width)
            case "heading":
                return self._render_heading(node, width)
            case "bullet_list":
                return self.render_items(node.children, number=None, width=width)
            case "ordered_list":
                first = int(str(node.token.attrs.get("start", 1)))
                return self.render_items(node.children, number=first, width=width)
            case "blockquote":
                bar = make_run("> " if self._paint.ascii else "│ ", self._theme.dim)
                inner = self._render_stacked(node.children, max(MIN_COLUMNS, width - 2))
                return list(_prefix_lines(bar, bar, inner))
            case "table":
                return render_table(node, self._paint, width=width)
            case _:
                return self._render_leaf(node, width)

    def render_items(
        self, nodes: Sequence[Node], *, number: int | None, width: int | None = None
    ) -> list[Text]:
        """Items of a list, the first of them with this number; None: they have bullets."""
        width = width or self._paint.prose_width
        lines: list[Text] = []
        for index, item in enumerate(nodes):
            if index and are_apart(nodes[index - 1], item):
                lines.append(Text())
            lines += self._render_item(item, None if number is None else number + index, width)
        return lines

    def _render_item(self, node: Node, number: int | None, width: int) -> list[Text]:
        bullet = "-" if self._paint.ascii else "•"
        sign = bullet if number is None else f"{number}."
        mark = make_run(f"{sign} ", self._theme.dim)
        if width - len(mark) < MIN_COLUMNS:
            return [make_run(sign, self._theme.dim), *self._render_stacked(node.children, width)]
        inner = self._render_stacked(node.children, width - len(mark)) or [Text()]
        return list(_prefix_lines(mark, Text(" " * len(mark)), inner))

    def _render_stacked(self, nodes: Sequence[Node], width: int) -> list[Text]:
        """One below the other, with an empty line where the author left one."""
        lines: list[Text] = []
        for index, node in enumerate(nodes):
            if index and are_apart(nodes[index - 1], node):
                lines.append(Text())
            lines += self.render_block(node, width)
        return lines

    def _render_leaf(self, node: Node, width: int) -> list[Text]:
        match node.type:
            case "fence" | "code_block":
                return self._render_code(node)
            case "hr":
                return [make_run("---" if self._paint.ascii else "───", self._theme.dim)]
            case _:
                return self._render_source(node, width)

    def _render_heading(self, node: Node, width: int) -> list[Text]:
        title = render_inline(node.children[0], self._paint, self._theme.heading)
        if self._paint.accessible:
            title = Text(f"{'#' * int(node.token.tag[1:])} ") + title
        return wrap(title, width)

    def _render_code(self, node: Node) -> list[Text]:
        """Not wrapped: what is copied from the screen must be the code."""
        words = node.token.info.split() if node.type == "fence" else []
        highlighter = Highlighter(find_lexer_by_name(words[0]) if words else None, self._theme)
        return [
            highlighter.style_line(line) for line in node.content.removesuffix("\n").split("\n")
        ]

    def _render_source(self, node: Node, width: int) -> list[Text]:
        return [
            part
            for line in node.content.rstrip("\n").expandtabs(4).split("\n")
            for part in wrap(
                style_escaped(line, self._theme.dim, escape_style=self._theme.escaped), width
            )
        ]


def are_apart(before: Node, after: Node) -> bool:
    """Whether there is an empty line between two blocks of a source."""
    return after.map is not None and _find_end(before) < after.map[0]


def _find_end(node: Node) -> int:
    """The line after a block. The parser counts empty lines behind an item as part of it."""
    if node.type in ("bullet_list", "ordered_list", "list_item", "blockquote") and node.children:
        return _find_end(node.children[-1])
    first, end = node.map or (0, 0)
    return first + 1 if node.type == "list_item" else end


def _prefix_lines(first: Text, further: Text, lines: Iterable[Text]) -> Iterable[Text]:
    """Lines behind a mark, which the first has and the others stand under."""
    mark = first
    for line in lines:
        joined = mark + line
        if not line.plain:
            joined.rstrip()
        yield joined
        mark = further
