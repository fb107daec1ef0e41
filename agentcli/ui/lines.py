"""One finished call as one line of plain words, from its typed details alone."""

import json

from agentcli.machine.plain import visible
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Diff, ErrorKind, FileView, Matches, Raw, ToolResult

TARGET_CHARS = 72
REASON_CHARS = 200


def call_line(call: ToolCall, result: ToolResult, duration_s: float) -> str:
    return f"{call.name} {target(call)}: {_outcome(result)} ({duration(duration_s)})"


def target(call: ToolCall) -> str:
    """What the call is about, on one line, shortened in the middle."""
    text = ""
    if isinstance(call.input, dict):
        first = next(
            (
                call.input[key]
                for key in ("command", "path", "pattern", "glob")
                if key in call.input
            ),
            None,
        )
        text = first if isinstance(first, str) else json.dumps(call.input, ensure_ascii=False)
    elif isinstance(call.input, str):
        text = call.input
    text = visible(" ".join(text.split()))
    if len(text) <= TARGET_CHARS:
        return text
    half = TARGET_CHARS // 2
    return f"{text[:half]}…{text[-half + 1 :]}"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    return f"{int(seconds // 60)}m {int(seconds % 60):02}s"


def _outcome(result: ToolResult) -> str:
    if result.error is not None and not isinstance(result.details, Command):
        return f"{_WORDS.get(result.error, 'failed')}: {_first_line(result.text)}"
    match result.details:
        case Diff() as diff:
            return f"{'new file, ' if diff.created else ''}+{diff.added} -{diff.removed}"
        case Command() as command:
            return _command(command)
        case FileView() as view:
            return _view(view)
        case Matches() as found:
            return _matches(found)
        case Raw(text=text):
            return _first_line(text)
        case None:
            return "ok"


def _view(view: FileView) -> str:
    if view.media != "text":
        return view.media
    return _counted(view.last_line - view.first_line + 1 if view.last_line else 0, "line")


def _matches(found: Matches) -> str:
    more = ", there are more" if found.more else ""
    files = _counted(found.files, "file")
    if found.matches == found.files:
        return files + more
    return f"{_counted(found.matches, 'match', 'matches')} in {files}{more}"


def _command(command: Command) -> str:
    if command.background_pid is not None:
        return f"in the background, pid {command.background_pid}"
    if command.timed_out:
        ending = "timed out"
    elif command.signal:
        ending = f"killed by {command.signal}"
    else:
        ending = f"exit {command.exit_code}"
    return f"{ending}, {_counted(command.output_lines, 'line')}"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _first_line(text: str) -> str:
    line = visible(text.strip().split("\n", 1)[0])
    return line if len(line) <= REASON_CHARS else line[:REASON_CHARS] + "…"


_WORDS: dict[ErrorKind, str] = {
    ErrorKind.DENIED: "denied",
    ErrorKind.TIMEOUT: "timed out",
    ErrorKind.CANCELLED: "interrupted",
    ErrorKind.NOT_RUN: "not run",
}
