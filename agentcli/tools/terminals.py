"""Commands that are kept on a pseudo-terminal: what they print, and the input sent to them.

Terminals are numbered in the order of their start, so that a replay of the session finds the same
ones. All that a command prints is in one log. Each call gets what was printed since the last one.
"""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from agentcli.system import process_tree
from agentcli.system.output import BoundedOutput, LiveOutput
from agentcli.system.process import AFTER_INTERRUPT, end, run_to_completion
from agentcli.system.process_table import ProcessTable
from agentcli.tools.report import CARD_TAIL_LINES, report_interrupted, report_terminal
from agentcli.tools.shells import PooledShell
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.tools import ErrorKind, Output

if sys.platform != "win32":
    import termios

TERMINALS_MAX = 4
LINE_LIMIT_BYTES = 4095
"""The longest line that a terminal takes while its program reads whole lines."""
QUIET_S = 1.0
"""Output has stopped if nothing came for so long."""
QUIET_AT_PROMPT_S = 0.2
"""The same if the last line has no end: then it is most likely a prompt."""
_INTERRUPT = b"\x03"


class TerminalOutput:
    """A sink for all that a command prints: one log, and the part since the last report."""

    def __init__(self, log_path: Path, log_fd: int, *, limit_bytes: int) -> None:
        self.log_path = log_path
        self.is_fresh = False
        """True if anything came since `expect`."""
        self.changed = asyncio.Event()
        self.changed_at = 0.0
        """The time of the latest output, by the clock of the loop."""
        self._log_fd = log_fd
        self._left_bytes = limit_bytes
        self._ends_in_line = False
        self._part = self._begin_part()
        self._live: LiveOutput | None = None

    @property
    def quiet_s(self) -> float:
        """The seconds without output after which it has stopped."""
        return QUIET_AT_PROMPT_S if self._ends_in_line else QUIET_S

    def expect(self, report: Callable[[str], None]) -> None:
        """Report what comes from now on to the user, until it is taken."""
        self.is_fresh = False
        self._live = LiveOutput(self._part, report=report, lines=CARD_TAIL_LINES)

    def feed(self, chunk: bytes) -> None:
        self.is_fresh = True
        self._ends_in_line = not chunk.endswith(b"\n")
        self.changed_at = asyncio.get_running_loop().time()
        (self._live or self._part).feed(chunk)
        self.changed.set()

    @property
    def is_full(self) -> bool:
        return self._part.is_full

    def skip(self, chunk: bytes) -> None:
        self._part.skip(chunk)

    def take(self) -> BoundedOutput:
        """Return what was printed since the last time."""
        if self._live is not None:
            self._live.stop_progress()
            self._live = None
        part = self._part
        part.close()
        self._left_bytes -= part.logged_bytes
        self._part = self._begin_part()
        return part

    def close(self) -> None:
        os.close(self._log_fd)
        self._log_fd = -1
        self.changed.set()

    @property
    def sha256(self) -> str:
        """The hash of the whole log; empty if it cannot be read."""
        try:
            with self.log_path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""

    def _begin_part(self) -> BoundedOutput:
        is_open = self._log_fd >= 0
        log_fd = os.dup(self._log_fd) if is_open else os.open(os.devnull, os.O_WRONLY)
        return BoundedOutput(self.log_path, log_fd, limit_bytes=self._left_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCommand:
    """A command that was started on a terminal."""

    command: str
    cwd: Path
    grants: Grants
    call_id: str
    shell: PooledShell
    output: TerminalOutput


class CommandTerminal:
    """One command on its terminal."""

    def __init__(self, number: int, kept: KeptCommand, *, processes: ProcessTable) -> None:
        self.number = number
        self.kept = kept
        self._processes = processes
        self._input = os.dup(kept.shell.output)
        self.is_open = True

    def finish(self) -> None:
        """Note that the command has ended."""
        os.close(self._input)
        self.is_open = False
        self.kept.output.changed.set()

    async def exchange(
        self, data: bytes, *, within_s: float, report: Callable[[str], None], notes: tuple[str, ...]
    ) -> Output:
        """Send input, wait until the output has stopped, and report it.

        If that is cancelled, the command is ended: its call is what the user stopped."""
        output = self.kept.output
        output.expect(report)
        began = asyncio.get_running_loop().time()
        try:
            deadline = began + within_s
            left = await self._send(data, deadline)
            await self._wait_until_quiet(deadline)
        except asyncio.CancelledError:
            ran_s = asyncio.get_running_loop().time() - began
            shell = self.kept.shell
            await run_to_completion(end(shell.child, tag=shell.tag, steps=AFTER_INTERRUPT))
            raise asyncio.CancelledError(
                report_interrupted(
                    self.kept.command, output=output.take(), cwd=self.kept.cwd, ran_s=ran_s
                )
            ) from None
        if left:
            notes = (*notes, f"[the last {left} bytes were not taken: the program does not read]")
        return self._report(notes, ran_s=asyncio.get_running_loop().time() - began)

    def check_input(self, data: bytes) -> None:
        """Raise ToolError for a line that the terminal would cut off."""
        longest = max(map(len, data.split(b"\n")))
        if self.is_open and longest >= LINE_LIMIT_BYTES and self._reads_lines():
            raise ToolError(
                f"Not sent: a line has {longest} bytes, and this program reads lines of at most "
                f"{LINE_LIMIT_BYTES}. Write it to a file and let the program read that."
            )

    def _reads_lines(self) -> bool:
        if sys.platform == "win32":
            return False
        return bool(termios.tcgetattr(self._input)[3] & termios.ICANON)

    async def _send(self, data: bytes, deadline: float) -> int:
        """Send bytes as they are taken. Return how many were not."""
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        while view and self.is_open:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                if loop.time() >= deadline:
                    break
                await _wait_until_writable(self._input, deadline - loop.time())
            except OSError:
                break  # no process holds the terminal any more
        if _INTERRUPT in data and self.is_open and not self._has_foreground():
            # Where the shell could not take the terminal, no key of it is a signal.
            process_tree.signal_group(self.kept.shell.child.pid, signal.SIGINT)
        return len(view)

    def _has_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._input) > 0
        except OSError:
            return False

    async def _wait_until_quiet(self, deadline: float) -> None:
        """Wait until output came and stopped, or the command ended, but not beyond the deadline."""
        loop, output = asyncio.get_running_loop(), self.kept.output
        while self.is_open and loop.time() < deadline:
            until = deadline
            if output.is_fresh:
                until = min(deadline, output.changed_at + output.quiet_s)
                if loop.time() >= until:
                    return
            output.changed.clear()
            try:
                async with asyncio.timeout(until - loop.time()):
                    await output.changed.wait()
            except TimeoutError:
                continue

    def _report(self, notes: tuple[str, ...], *, ran_s: float) -> Output:
        kept = self.kept
        if not self.is_open:
            # The model learns of the end here, and of nothing twice.
            remarks = self._processes.take_remarks(kept.shell.tag)
            notes = (*notes, *map("[{}]".format, remarks))
        return report_terminal(
            kept.command,
            number=self.number,
            output=kept.output.take(),
            cwd=kept.cwd,
            pid=kept.shell.child.pid if self.is_open else None,
            returncode=kept.shell.child.returncode,
            ran_s=ran_s,
            notes=notes,
        )


async def _wait_until_writable(descriptor: int, within_s: float) -> None:
    loop = asyncio.get_running_loop()
    is_writable = asyncio.Event()
    loop.add_writer(descriptor, is_writable.set)
    try:
        async with asyncio.timeout(within_s):
            await is_writable.wait()
    except TimeoutError:
        return
    finally:
        loop.remove_writer(descriptor)


class Terminals:
    """The terminals of a session, by number."""

    def __init__(self) -> None:
        self._all: dict[int, CommandTerminal] = {}

    def add(self, kept: KeptCommand, *, processes: ProcessTable) -> CommandTerminal:
        number = len(self._all) + 1
        terminal = CommandTerminal(number, kept, processes=processes)
        self._all[number] = terminal
        return terminal

    def check_number(self) -> None:
        """Raise ToolError if there are as many open terminals as there may be."""
        opened = [one for one in self._all.values() if one.is_open]
        if len(opened) >= TERMINALS_MAX:
            pids = " ".join(str(one.kept.shell.child.pid) for one in opened)
            raise ToolError(f"Not run: {len(opened)} terminals are open. End one: kill {pids}")

    def find(self, number: int) -> CommandTerminal:
        """Return a terminal whose command runs. Raise ToolError if there is none."""
        if (found := self._all.get(number)) is not None and found.is_open:
            return found
        opened = ", ".join(str(one.number) for one in self._all.values() if one.is_open)
        why = "has ended" if found is not None else "does not exist"
        what = f"Open are: {opened}." if opened else "Start one with bash and terminal=true."
        raise ToolError(f"Terminal {number} {why}. {what}", kind=ErrorKind.INVALID_INPUT)
