"""The blocks of the transcript that are neither Markdown nor cards, drawn for a given paint."""

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from agentcli.types.events import Attached, ServerAsked
from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import LAYOUT, Paint
from agentcli.ui.render.summary import elapsed
from agentcli.ui.repl.status import cut

PROSE_CHARS = 4_000
GO_ON = " in settings.toml, then agentcli --continue"
_OPTION = re.compile(
    r"--(?P<name>max-(?:cost|tokens|turns|wait)|timeout|tool-timeout|strict-cost)"
    r"(?: (?P<value>\d+))?"
)
_ANSWERED = {"accept": "you said yes", "decline": "you said no", "cancel": "no answer"}


def styled(paint: Paint, text: str, style: str) -> str:
    """Each row on its own: a style never reaches over the end of a line."""
    return "\n".join(paint.styled(row, getattr(paint.theme, style)) for row in text.split("\n"))


def prose(paint: Paint, text: str) -> str:
    """Lines no wider than the screen: broken between words, and hanging where they begin."""
    rows = []
    for line in text.split("\n"):
        begin = re.match(r" *(?:- )?", line)
        hang = " " * (begin.end() if begin else 0)
        first, *more = _rows(paint, line, width=paint.width - len(hang))
        rows += [first, *(hang + row for row in more)]
    return "\n".join(rows)


def prompt(paint: Paint, shown: str) -> str:
    rows = [
        row
        for line in escape(shown).split("\n")
        for row in _rows(paint, line, width=paint.prose_width - 2)
    ]
    lines = [f"{'> ' if index == 0 else '  '}{row}" for index, row in enumerate(rows)]
    return styled(paint, "\n".join(lines), "strong")


def warning(paint: Paint, message: str) -> str:
    return styled(paint, _hanging(paint, f"warning: {escape(message)}"), "warning")


def of_server(paint: Paint, event: Attached | ServerAsked) -> str:
    if isinstance(event, Attached):
        said = f"attached {event.name} ({event.size_bytes} bytes)"
    else:
        said = f"{event.server} asked: {event.message} ({_ANSWERED[event.answer]})"
    return styled(paint, _hanging(paint, f"  {escape(said)}"), "dim")


def error(paint: Paint, message: str, hint: str) -> str:
    """The fix is not wrapped: it may be a command to copy."""
    text = _hanging(paint, f"error: {escape(message)}").removeprefix("error:")
    said = paint.styled("error:", paint.theme.failed) + text
    return f"{said}\n  fix: {escape(hint)}" if hint else said


def fix_from_within(hint: str) -> str:
    """In words for somebody in the session: what is an option of `agentcli run` is a setting here,
    and neither that nor a variable that is set elsewhere reaches a program that runs already."""
    if hint.startswith("export "):
        return f"leave, {hint}, then go on: agentcli --continue"
    within = _OPTION.sub(_as_setting, hint)
    is_setting = within != hint
    return re.sub(r"--model\b", "/model", f"{within}{GO_ON}" if is_setting else within)


def _as_setting(option: "re.Match[str]") -> str:
    name, value = option["name"].replace("-", "_"), option["value"]
    return f"{name} = {value}" if value else name


def broken_off(paint: Paint, why: str) -> str:
    """Below the half of a reply: it stays on the screen, and the model does not know of it."""
    text = f"{paint.ellipsis} {why}; this half is dropped, the reply begins anew"
    return styled(paint, "  " + _hanging(paint, text), "warning")


def interrupted(paint: Paint, seconds: float, *, changed: int) -> str:
    text = f"{'STOP' if paint.ascii else '■'} interrupted after {elapsed(seconds)}"
    if changed:
        files = "1 file" if changed == 1 else f"{changed} files"
        text += f"{paint.dot}{files} changed, /rewind to undo"
    return styled(paint, _hanging(paint, text), "warning")


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
        text = what.lstrip(" ")
        hang = " " * (len(what) - len(text))
        wrapped = Text(escape(text)).wrap(LAYOUT, max(8, paint.width - width - 4 - len(hang)))
        first, *more = [hang + row.plain.rstrip() for row in wrapped] or [""]
        lines.append(f"  {paint.styled(name, paint.theme.strong)}{pad}  {first}".rstrip())
        lines += [f"  {' ' * width}  {row}" for row in more]
    return "\n".join(lines)


def _hanging(paint: Paint, text: str) -> str:
    """All rows but the first stand two columns in."""
    width = paint.prose_width - 2
    rows = [row for line in text.split("\n") for row in _rows(paint, line, width=width)]
    return "\n  ".join(rows)


def _cells(line: str) -> int:
    """Of most lines no more than their length: rich would keep thousands of them to know that."""
    return len(line) if line.isascii() and line.isprintable() else cell_len(line)


def _rows(paint: Paint, line: str, *, width: int) -> list[str]:
    """Between words. What is too long to be prose, the terminal may wrap."""
    if len(line) > PROSE_CHARS or _cells(line) <= width:
        return [line]
    return [row.plain.rstrip() for row in Text(line).wrap(paint.console(), max(8, width))]
