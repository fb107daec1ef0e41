"""Tables without borders: columns by cells, wrapped to fit, or rows as `key: value`."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from agentcli.ui.render.inline import render_inline
from agentcli.ui.render.paint import Paint, make_run, wrap
from agentcli.ui.render.tree import Node

GAP = "  "
MIN_COLUMN_CELLS = 6
"""A column that would have to be narrower than this and than its text: rows instead."""

TableRow = list[Text]


def render_table(node: Node, paint: Paint, *, width: int) -> list[Text]:
    rows = [_render_cells(row, paint) for part in node.children for row in part.children]
    head, body = rows[0], rows[1:]
    alignment = [_read_alignment(cell) for cell in node.children[0].children[0].children]
    wanted = [max(_width(row[column]) for row in rows) for column in range(len(head))]
    sizes = _fit_columns(wanted, width - len(GAP) * (len(head) - 1))
    if sizes is None or (paint.accessible and sizes != wanted):
        return _render_pairs(head, body, paint, width=width)
    rule = [make_run(("-" if paint.ascii else "─") * size, paint.theme.dim) for size in sizes]
    for cell in head:
        cell.stylize(paint.theme.strong)
    laid_out = [_render_row(row, sizes, alignment) for row in (head, rule, *body)]
    # Rows that were wrapped run into each other without something between them.
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


def _width(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


def _fit_columns(wanted: Sequence[int], width: int) -> list[int] | None:
    """Narrow columns keep their size, the wide ones share what is left."""
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


def _render_row(cells: TableRow, sizes: Sequence[int], alignment: Sequence[str]) -> list[Text]:
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
    head: TableRow, body: Sequence[TableRow], paint: Paint, *, width: int
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
