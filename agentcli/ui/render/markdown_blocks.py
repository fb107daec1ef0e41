"""Blocks of Markdown as finished lines: wrapped by cells, indented by nesting, never padded."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from markdown_it.token import Token
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from agentcli.ui.render.highlight import Highlighter, find_lexer_by_name
from agentcli.ui.render.paint import Paint, escape, make_run, style_escaped, wrap, wrap_whole_words
from agentcli.ui.render.theme import PLAIN

# The result of the parser as a tree: blocks, and the pieces of their text.


class Node:
    """One token, or an opening and a closing one with the nodes between them."""

    __slots__ = ("children", "content", "map", "token", "type")

    def __init__(self, token: Token) -> None:
        self.token = token
        """The token, or the opening one of two."""
        self.type = token.type.removesuffix("_open") if token.nesting else token.type
        self.content = token.content
        self.map = token.map
        """The first line of its source, and the line after its last."""
        self.children: list[Node] = build_tree(token.children) if token.children else []


def build_tree(tokens: Iterable[Token]) -> list[Node]:
    """Return the top-level nodes."""
    top: list[Node] = []
    open_lists = [top]
    for token in tokens:
        if token.nesting < 0:
            open_lists.pop()
            continue
        node = Node(token)
        open_lists[-1].append(node)
        if token.nesting > 0:
            open_lists.append(node.children)
    return top


# The inside of a paragraph: emphasis, code, links and line breaks as one styled text.


_CLICKABLE = frozenset(("http", "https", "mailto"))
_STYLES = {
    "strong": Style(bold=True),
    "em": Style(italic=True),
    "s": Style(strike=True),
}


def render_inline(node: Node, paint: Paint, *, style: Style = PLAIN) -> Text:
    """Return the text of a node, with only the line breaks that its author wanted."""
    if len(node.children) == 1:
        return _render_piece(node.children[0], paint, style=style)
    shown = Text()
    for child in node.children:
        shown.append_text(_render_piece(child, paint, style=style))
    return shown


def _render_piece(node: Node, paint: Paint, *, style: Style) -> Text:
    match node.type:
        case "strong" | "em" | "s":
            return render_inline(node, paint, style=style + _STYLES[node.type])
        case "code_inline":
            quoted = f"`{node.content}`" if paint.accessible else node.content
            return style_escaped(quoted, style + paint.theme.code, escape_style=paint.theme.escaped)
        case "link":
            return _render_link(
                render_inline(node, paint, style=style),
                str(node.token.attrs.get("href", "")),
                paint=paint,
                style=style,
            )
        case "image":
            label = make_run(f"image: {escape(node.content)}", style)
            return _render_link(
                label, str(node.token.attrs.get("src", "")), paint=paint, style=style
            )
        case "softbreak":
            return make_run(" ", style)
        case "hardbreak":
            return Text("\n")
        case _:
            return style_escaped(
                node.content.replace("\t", " "), style, escape_style=paint.theme.escaped
            )


def _render_link(label: Text, address: str, *, paint: Paint, style: Style) -> Text:
    """Return the label and its address: an address must not hide behind a name."""
    address = escape(address)
    target = Style(link=address) if _is_clickable(address) else PLAIN
    shown = label.copy()
    shown.stylize(paint.theme.link + target)
    if label.plain.strip() in (address, address.removeprefix("mailto:")) or not address:
        return shown
    shown.append(" (", style + paint.theme.dim)
    shown.append(address, style + paint.theme.dim + target)
    return shown.append(")", style + paint.theme.dim)


def _is_clickable(address: str) -> bool:
    try:
        return urlsplit(address).scheme in _CLICKABLE
    except ValueError:
        return False


# Tables without borders: columns measured in cells, wrapped to fit, or rows as `key: value`.


GAP = "  "
MIN_COLUMN_CELLS = 6
"""The least width of a column. If one needs more but would get less, rows are shown instead."""

TableRow = list[Text]


def render_table(node: Node, paint: Paint, *, width: int) -> list[Text]:
    rows = [_render_cells(row, paint) for part in node.children for row in part.children]
    head, body = rows[0], rows[1:]
    alignment = [_read_alignment(cell) for cell in node.children[0].children[0].children]
    wanted = [max(_measure_width(row[column]) for row in rows) for column in range(len(head))]
    sizes = _fit_columns(wanted, width - len(GAP) * (len(head) - 1))
    if sizes is None or (paint.accessible and sizes != wanted):
        return _render_pairs(head, body, paint=paint, width=width)
    rule = [make_run(("-" if paint.ascii else "─") * size, paint.theme.dim) for size in sizes]
    for cell in head:
        cell.stylize(paint.theme.strong)
    laid_out = [_render_row(row, sizes, alignment=alignment) for row in (head, rule, *body)]
    # Wrapped rows run into each other without an empty line between them.
    is_wrapped = any(len(lines) > 1 for lines in laid_out)
    lines: list[Text] = []
    for index, row_lines in enumerate(laid_out):
        if is_wrapped and index > 2:
            lines.append(Text())
        lines += row_lines
    return lines


def _render_cells(row: Node, paint: Paint) -> TableRow:
    return [
        render_inline(cell.children[0], paint) if cell.children else Text() for cell in row.children
    ]


def _read_alignment(cell: Node) -> str:
    return str(cell.token.attrs.get("style", "")).removeprefix("text-align:")


def _measure_width(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


def _fit_columns(wanted: Sequence[int], width: int) -> list[int] | None:
    """Share out the width: narrow columns keep their size, the wide ones share the rest."""
    sizes = list(wanted)
    share = width
    for _ in wanted:
        wide = [size for size in wanted if size > share]
        left = width - sum(size for size in wanted if size <= share)
        if not wide:
            break
        share = left // len(wide)
        sizes = [min(size, share) for size in wanted]
    is_readable = all(
        size >= min(MIN_COLUMN_CELLS, whole) for size, whole in zip(sizes, wanted, strict=True)
    )
    return sizes if sum(sizes) <= width and is_readable else None


def _render_row(cells: TableRow, sizes: Sequence[int], *, alignment: Sequence[str]) -> list[Text]:
    columns = [
        wrap(cell, size) if cell.plain else [Text()]
        for cell, size in zip(cells, sizes, strict=True)
    ]
    lines = []
    for index in range(max(map(len, columns))):
        line, gap = Text(), 0
        for parts, size, side in zip(columns, sizes, alignment, strict=True):
            part = parts[index] if index < len(parts) else Text()
            room = max(0, size - cell_len(part.plain))
            before = {"right": room, "center": room // 2}.get(side, 0)
            if part.plain:
                line.append(" " * (gap + before)).append_text(part)
                gap = 0
            else:
                gap += before
            gap += room - before + len(GAP)
        lines.append(line)
    return lines


def _render_pairs(
    head: TableRow, body: Sequence[TableRow], *, paint: Paint, width: int
) -> list[Text]:
    lines: list[Text] = []
    for index, row in enumerate(body):
        if index:
            lines.append(Text())
        for name, value in zip(head, row, strict=True):
            pair = Text.assemble(name, ": ", value)
            pair.stylize(paint.theme.strong, 0, len(name) + 1)
            lines += wrap(pair, width)
    return lines


MIN_COLUMNS = 8
"""The least width for nested blocks. Where less would be left, they are not indented further."""


class BlockRenderer:
    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._theme = paint.theme

    def render_block(self, node: Node, width: int | None = None) -> list[Text]:
        width = width or self._paint.prose_width
        match node.type:
            case "paragraph":
                return wrap_whole_words(render_inline(node.children[0], self._paint), width)
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
                return list(_prefix_lines(bar, bar, lines=inner))
            case "table":
                return render_table(node, self._paint, width=width)
            case _:
                return self._render_leaf(node, width)

    def render_items(
        self, nodes: Sequence[Node], *, number: int | None, width: int | None = None
    ) -> list[Text]:
        """Render items of a list. `number` is that of the first one; None gives them bullets."""
        width = width or self._paint.prose_width
        lines: list[Text] = []
        for index, item in enumerate(nodes):
            if index and are_apart(nodes[index - 1], item):
                lines.append(Text())
            lines += self._render_item(
                item, None if number is None else number + index, width=width
            )
        return lines

    def _render_item(self, node: Node, number: int | None, *, width: int) -> list[Text]:
        bullet = "-" if self._paint.ascii else "•"
        sign = bullet if number is None else f"{number}."
        mark = make_run(f"{sign} ", self._theme.dim)
        if width - len(mark) < MIN_COLUMNS:
            return [make_run(sign, self._theme.dim), *self._render_stacked(node.children, width)]
        inner = self._render_stacked(node.children, width - len(mark)) or [Text()]
        return list(_prefix_lines(mark, Text(" " * len(mark)), lines=inner))

    def _render_stacked(self, nodes: Sequence[Node], width: int) -> list[Text]:
        """Render blocks below each other, with an empty line where the author left one."""
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
        title = render_inline(node.children[0], self._paint, style=self._theme.heading)
        if self._paint.accessible:
            title = Text(f"{'#' * int(node.token.tag[1:])} ") + title
        return wrap(title, width)

    def _render_code(self, node: Node) -> list[Text]:
        """Render a block of code, not wrapped: what is copied from the screen must be the code."""
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
    """Return whether the source has an empty line between two blocks."""
    return after.map is not None and _find_end(before) < after.map[0]


def _find_end(node: Node) -> int:
    """Return the line after a block. The parser counts empty lines after an item as part of it."""
    if node.type in ("bullet_list", "ordered_list", "list_item", "blockquote") and node.children:
        return _find_end(node.children[-1])
    first, end = node.map or (0, 0)
    return first + 1 if node.type == "list_item" else end


def _prefix_lines(first: Text, further: Text, *, lines: Iterable[Text]) -> Iterable[Text]:
    """Put a mark before the first line, and indent the others to stand under it."""
    mark = first
    for line in lines:
        joined = mark + line
        if not line.plain:
            joined.rstrip()
        yield joined
        mark = further
