"""The blocks of the transcript that are neither Markdown nor cards, drawn for a given paint."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.summary import elapsed
from agentcli.ui.repl.status import cut


def styled(paint: Paint, text: str, style: str) -> str:
    """Each row on its own: a style never reaches over the end of a line."""
    return "\n".join(paint.styled(row, getattr(paint.theme, style)) for row in text.split("\n"))


def prompt(paint: Paint, shown: str) -> str:
    rows = escape(shown).split("\n")
    lines = [f"{'> ' if index == 0 else '  '}{row}" for index, row in enumerate(rows)]
    return styled(paint, "\n".join(lines), "strong")


def error(paint: Paint, message: str, hint: str) -> str:
    first, *more = escape(message).split("\n")
    rows = [paint.styled("error:", paint.theme.failed) + f" {first}"]
    rows += [f"  {row}" for row in more]
    return "\n".join([*rows, f"  fix: {escape(hint)}"] if hint else rows)


def interrupted(paint: Paint, seconds: float, *, changed: int) -> str:
    text = f"{'STOP' if paint.ascii else '■'} interrupted after {elapsed(seconds)}"
    if changed:
        files = "1 file" if changed == 1 else f"{changed} files"
        text += f"{paint.dot}{files} changed, /rewind to undo"
    return paint.styled(text, paint.theme.warning)


def thought(paint: Paint, text: str, seconds: float, *, is_shown: bool) -> str:
    line = f"Thought for {elapsed(seconds)}{paint.dot}{len(text) // 4} tok"
    return styled(paint, f"{line}\n{escape(text)}" if is_shown and text else line, "dim")


def told(paint: Paint, text: str) -> str:
    """What the model was told by the runtime: its first line says enough."""
    first, _, more = escape(text).strip().partition("\n")
    rest = f" (and {more.count(chr(10)) + 1} more lines)" if more else ""
    line = cut(f"told the model: {first}", max(8, paint.width - len(rest)))
    return styled(paint, line + rest, "dim")


def table(paint: Paint, rows: Sequence[tuple[str, str]]) -> str:
    """Names in one column, and what there is to say of them, wrapped, in another."""
    width = min(max((cell_len(name) for name, _ in rows), default=0), max(8, paint.width // 2))
    lines = []
    for name, what in rows:
        name, pad = escape(name), " " * max(0, width - cell_len(name))
        wrapped = Text(escape(what)).wrap(paint.console(), max(8, paint.width - width - 4))
        first, *more = [row.plain for row in wrapped] or [""]
        lines.append(f"  {paint.styled(name, paint.theme.strong)}{pad}  {first}".rstrip())
        lines += [f"  {' ' * width}  {row}" for row in more]
    return "\n".join(lines)
