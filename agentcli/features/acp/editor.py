"""What an editor offers to us: its unsaved files, and terminals that show commands.

A command never runs in a terminal of the editor, which has no sandbox. The terminal runs a small
program that prints what the command writes to its log, and ends as the command ends. If the user
stops it there, the command is stopped.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from acp import RequestError
from acp.interfaces import Client
from acp.schema import ClientCapabilities, TerminalToolCallContent

from agentcli.system.plain_text import show_controls
from agentcli.types.deltas import CommandStarted
from agentcli.types.events import CallFinished, Event
from agentcli.types.tools import Command
from agentcli.ui.streams import write_err

READ_LIMIT_S = 3.0
WRITE_LIMIT_S = 10.0
SHOWN_AFTER_S = 0.5
"""A command that ends sooner is shown as text alone."""
SETTLED_AFTER_S = 2.0
TERMINAL_BYTES = 1_000_000

_FAILURES = (RequestError, ConnectionError, TimeoutError)

_VIEWER = """
import os, re, sys, time
log, end = sys.argv[1:]
unsafe = re.compile(rb"\\x1b(?!\\[[0-9;]*m)")
with open(log, "rb") as file:
    while True:
        is_over = os.path.exists(end)
        while data := file.read(65536):
            sys.stdout.buffer.write(unsafe.sub(b"", data))
            sys.stdout.flush()
        if is_over:
            sys.exit(int(open(end).read() or 0))
        time.sleep(0.05)
"""
"""Prints the log until the other file says how the command ended. Only colours pass."""


class ClientFiles:
    """The files of the editor, as far as it offers them."""

    def __init__(
        self, client: Client, capabilities: ClientCapabilities | None, *, get_id: Callable[[], str]
    ) -> None:
        self._client = client
        offered = capabilities.fs if capabilities else None
        self.may_read = bool(offered and offered.read_text_file)
        self.may_write = bool(offered and offered.write_text_file)
        self._get_id = get_id

    async def read(self, path: Path) -> str | None:
        """Return the editor's text; None if it has none, or does not answer in time."""
        if not self.may_read:
            return None
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                answer = await self._client.read_text_file(
                    session_id=self._get_id(), path=str(path)
                )
        except _FAILURES:
            return None
        return answer.content

    async def write(self, path: Path, text: str) -> None:
        """Let the editor show and save a text that is on disk already."""
        if not self.may_write:
            return
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                await self._client.write_text_file(
                    session_id=self._get_id(), path=str(path), content=text
                )
        except _FAILURES as error:
            write_err(f"warning: the editor did not take {path}: {show_controls(str(error))}\n")


class CommandTerminals:
    """The terminals of the editor that show running commands."""

    def __init__(
        self,
        client: Client,
        *,
        get_id: Callable[[], str],
        cwd: Path,
        announce: Callable[[str, TerminalToolCallContent], None],
        stop_command: Callable[[], None],
    ) -> None:
        """`announce` shows a terminal in a call. `stop_command` ends the command of a call."""
        self._client = client
        self._get_id = get_id
        self._cwd = cwd
        self._announce = announce
        self._stop_command = stop_command
        self._ends: dict[str, Path] = {}
        """For each command the file that says how it ended."""
        self._finished: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._directory = TemporaryDirectory(prefix="agentcli-acp-")

    def __call__(self, event: Event) -> None:
        match event:
            case CommandStarted(call_id=call_id, log_path=log_path):
                end = Path(self._directory.name, f"{len(self._ends)}.end")
                self._ends[call_id], self._finished[call_id] = end, asyncio.Event()
                task = asyncio.ensure_future(self._show(call_id, Path(log_path), end=end))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case CallFinished(result=result) if result.call_id in self._ends:
                details = result.details
                code = details.exit_code if isinstance(details, Command) else None
                end = self._ends[result.call_id]
                whole = end.with_suffix(".new")
                whole.write_text(str(code or 0))
                whole.replace(end)
                self._finished[result.call_id].set()
            case _:
                pass

    async def settle(self) -> None:
        """Wait until the terminals have shown the last output and are released, not for long."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SETTLED_AFTER_S)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._directory.cleanup()

    async def _show(self, call_id: str, log: Path, *, end: Path) -> None:
        finished = self._finished[call_id]
        with suppress(TimeoutError):
            await asyncio.wait_for(finished.wait(), SHOWN_AFTER_S)
            return
        session_id = self._get_id()
        with suppress(*_FAILURES):  # then it is shown as text
            made = await self._client.create_terminal(
                session_id=session_id,
                command=sys.executable,
                args=["-I", "-c", _VIEWER, str(log), str(end)],
                cwd=str(self._cwd),
                output_byte_limit=TERMINAL_BYTES,
            )
            shown = TerminalToolCallContent(type="terminal", terminal_id=made.terminal_id)
            self._announce(call_id, shown)
            try:
                await self._client.wait_for_terminal_exit(
                    session_id=session_id, terminal_id=made.terminal_id
                )
                if not finished.is_set():
                    self._stop_command()
            finally:
                await self._client.release_terminal(
                    session_id=session_id, terminal_id=made.terminal_id
                )
