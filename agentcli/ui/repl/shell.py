"""`!command`: run by the user, in their own shell, without the model and without a sandbox."""

import math
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcli.system import process, process_tree
from agentcli.system.environment import add_tag
from agentcli.system.plain_text import to_plain_text
from agentcli.types.errors import UsageError
from agentcli.types.fast_dataclass import dataclass

KEPT_BYTES = 1_000_000
LIVE_BYTES = 4096
CONTEXT_CHARACTERS = 20_000
NEED_TERMINAL = re.compile(
    r"n?vim?|nano|emacs|less|more|man|h?top|btop|ssh|mosh|tmux|screen|watch|fzf|lazygit|tig|gdb|pdb"
    r"|ipython|psql|mysql|sqlite3|sudo|su|passwd"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    command: str
    exit_code: int
    output: str
    duration_s: float

    def render_for_model(self) -> str:
        """Return the text for the model, limited in size."""
        output = self.output.rstrip("\n")
        if len(output) > CONTEXT_CHARACTERS:
            half = CONTEXT_CHARACTERS // 2
            left_out = len(output) - 2 * half
            output = f"{output[:half]}\n[{left_out} characters left out]\n{output[-half:]}"
        return f"[The user ran this command: {self.command}]\n{output}\n[exit {self.exit_code}]"


def needs_terminal(command: str) -> bool:
    words = command.split()
    return bool(words) and NEED_TERMINAL.fullmatch(Path(words[0]).name) is not None


async def run_captured(command: str, *, cwd: Path, progress: Callable[[str], None]) -> ShellResult:
    """Run a command and capture its output. Raise UsageError if it cannot start.

    If cancelled, end the command: first as Ctrl-C does, then by force.
    """
    tag = process_tree.make_tag(confined=False)
    output = _CapturedOutput(progress)
    pipe = process.Pipe(output)
    try:
        with _report_start_errors(cwd):
            child = process.start(
                [_find_shell(), "-c", command],
                cwd=cwd,
                env=add_tag(os.environ, tag),
                stdout=pipe.writer,
            )
    except UsageError:
        pipe.close()
        raise
    ended = await process.run(child, pipe=pipe, tag=tag, timeout_s=math.inf)
    output.is_watched = False
    return ShellResult(
        command=command,
        exit_code=ended.returncode,
        output=output.read_last(KEPT_BYTES),
        duration_s=ended.duration_s,
    )


def run_on_terminal(command: str, *, cwd: Path) -> ShellResult:
    """Run a command on the terminal. Raise UsageError if it cannot start."""
    began = time.monotonic()
    with _report_start_errors(cwd):
        code = subprocess.run([_find_shell(), "-c", command], cwd=cwd).returncode
    return ShellResult(
        command=command, exit_code=code, output="", duration_s=time.monotonic() - began
    )


class _CapturedOutput:
    """The end of the output, shown as it comes. Processes left running may go on writing."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._data = bytearray()
        self.is_watched = True

    def feed(self, chunk: bytes) -> None:
        self._data += chunk
        del self._data[:-KEPT_BYTES]
        if self.is_watched:
            self._show(self.read_last(LIVE_BYTES))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def read_last(self, size_bytes: int) -> str:
        return to_plain_text(self._data[-size_bytes:].decode("utf-8", "replace"))


@contextmanager
def _report_start_errors(cwd: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: arguments that no process can take
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot start {_find_shell()} in {cwd}: {reason}",
            hint="set SHELL to the shell to use",
        ) from error


def _find_shell() -> str:
    return os.environ.get("SHELL") or "/bin/sh"
