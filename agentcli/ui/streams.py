"""The two output streams of a run: stdout for the answer, stderr for the progress.

If the reader of stderr goes away, nothing changes. If the reader of stdout does, the run ends.
"""

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentcli.system.lazy import compile_later
from agentcli.types.errors import AgentError, Ending, SettingsError

if TYPE_CHECKING:
    from agentcli.types.settings import Settings


class OutputClosed(AgentError):
    """The reader of stdout has closed it, as in `agentcli run … | head -1`."""

    ending = Ending.OUTPUT_CLOSED

    def __init__(self) -> None:
        super().__init__("the output was closed by its reader")


def write_out(text: str, *, encoding: str | None = None) -> None:
    """Write and flush. Raise OutputClosed if the reader is gone, SettingsError if writing fails."""
    data = text.encode(encoding or sys.stdout.encoding or "utf-8", "replace")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        redirect_to_null(sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            raise OutputClosed from error
        raise SettingsError(
            f"cannot write to stdout: {error.strerror}", hint="write to a disk with free space"
        ) from error


def write_json(record: Mapping[str, Any]) -> None:
    """Write a line of JSON. Raise as `write_out` does."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    # A CI that searches its output for commands finds them inside a line, too.
    write_out(escape_service_messages(text) + "\n", encoding="utf-8")


def write_err(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text if sys.stderr.isatty() else break_service_messages(text))
        sys.stderr.flush()
    except OSError:
        redirect_to_null(sys.stderr.fileno())


# Lines that a CI obeys wherever it finds them: Azure Pipelines, TeamCity, and GitHub of old.


_SERVICE_MESSAGE = compile_later(r"##(?=(?:vso|teamcity)?\[)", re.IGNORECASE)


def break_service_messages(text: str) -> str:
    """Return the text with an invisible character in what a CI would obey."""
    return _SERVICE_MESSAGE.sub("##\u200b", text) if "##" in text else text


def escape_service_messages(json_text: str) -> str:
    """Return the same JSON, written so that no CI finds anything to obey in it."""
    return _SERVICE_MESSAGE.sub(r"#\\u0023", json_text) if "##" in json_text else json_text


def out_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def takes_live_session(settings: "Settings") -> bool:
    """Return whether input and output are a terminal that can be drawn on."""
    is_plain = os.environ.get("TERM", "") in ("", "dumb")
    is_drawable = not settings.accessible and not is_plain and sys.platform != "win32"
    return is_drawable and sys.stdin is not None and sys.stdin.isatty() and out_is_terminal()


def out_is_file() -> bool:
    return _is_kind(1, stat.S_ISREG)


def err_is_pipe() -> bool:
    return _is_kind(2, stat.S_ISFIFO) or _is_kind(2, stat.S_ISSOCK)


def _is_kind(descriptor: int, is_kind: Callable[[int], bool]) -> bool:
    try:
        return is_kind(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def redirect_to_null(descriptor: int) -> None:
    """Point a descriptor at /dev/null: what is buffered could never be flushed, even at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
