"""Programs and questions that get the terminal for a while: an editor, a pager, a line to type."""

import asyncio
import os
import select
import shlex
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.system import own_process

if TYPE_CHECKING:
    from agentcli.ui.repl.terminal import Terminal

# Lines from a terminal in its own line mode, read without blocking the event loop


READ_BYTES = 65536


class LineReader:
    """The lines of a terminal, for one caller at a time. Keeps what was typed ahead."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._is_closed = False

    async def read_line(self) -> str | None:
        """Return the next line without its newline, or None at the end of input."""
        while b"\n" not in self._buffer and not self._is_closed:
            await self._read_more()
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    def take_waiting(self) -> list[str]:
        """Return the whole lines typed before now, without waiting for any."""
        while sys.platform != "win32" and not self._is_closed:
            if not select.select([self._descriptor], [], [], 0)[0]:
                break
            self._append_data(self._read())
        *lines, self._buffer = self._buffer.split(b"\n")
        return [line.decode("utf-8", "replace").rstrip("\r") for line in lines]

    async def _read_more(self) -> None:
        if sys.platform == "win32":
            self._append_data(await asyncio.to_thread(self._read))
            return
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
        self._append_data(self._read())

    def _read(self) -> bytes:
        with suppress(OSError):
            return os.read(self._descriptor, READ_BYTES)
        return b""

    def _append_data(self, data: bytes) -> None:
        self._buffer += data
        self._is_closed = not data


EDITORS = ("VISUAL", "EDITOR")


async def edit_text(text: str, *, suffix: str, workspace: Path) -> str | None:
    """Return the edited text, or None if there is no editor or it failed."""
    return await asyncio.to_thread(_run_editor, text, suffix, workspace)


async def ask_line(question: str, *, hidden: bool = False) -> str:
    """Return what the user types on a line of its own, or an empty string for nothing."""
    stdin = sys.stdin.fileno()
    # The echo is off before the question shows: a key may be pasted at once.
    with hide_typing(stdin) if hidden else nullcontext():
        # Text written to `sys.stdout` waits until the terminal is handed back.
        os.write(1, f"{question} ".encode("utf-8", "replace"))
        return (await LineReader(stdin).read_line() or "").strip()


@contextmanager
def hide_typing(terminal: int) -> Iterator[None]:
    """Switch the echo of a terminal off for a while. Its newline is still shown."""
    before = termios.tcgetattr(terminal)
    local_modes = before[3] & ~termios.ECHO | termios.ECHONL
    # Input typed ahead belongs to the question: it is kept.
    termios.tcsetattr(terminal, termios.TCSADRAIN, [*before[:3], local_modes, *before[4:]])
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def page_text(text: str, *, line: int = 1, workspace: Path) -> None:
    await asyncio.to_thread(_run_pager, text, line, workspace)


def _run_editor(text: str, suffix: str, workspace: Path) -> str | None:
    command = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "vi")
    with tempfile.TemporaryDirectory(prefix="agentcli-") as directory:
        path = Path(directory) / f"message{suffix}"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            editor = own_process.start(
                [*shlex.split(command), path],
                workspace=workspace,
                env=own_process.build_user_environment(workspace),
                stdin=None,
                stdout=None,
                stderr=None,
            )
            code = editor.wait()
            return path.read_text(encoding="utf-8", errors="replace") if code == 0 else None
        except (OSError, ValueError):
            return None


def _run_pager(text: str, line: int, workspace: Path) -> None:
    command = os.environ.get("PAGER") or "less"
    environ = {
        **own_process.build_user_environment(workspace),
        "LESS": os.environ.get("LESS", "-R"),
        "LESSCHARSET": "utf-8",
    }
    try:
        words = shlex.split(command)
        if line > 1 and Path(words[0]).name in ("less", "more", "most"):
            words.append(f"+{line}")
        pager = own_process.start(
            words,
            workspace=workspace,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=None,
            stderr=None,
        )
        # A pager that is quit before its end closes the pipe.
        pager.communicate(text.encode("utf-8", "replace"))
    except (OSError, ValueError):
        _page_by_hand(text)


def _page_by_hand(text: str) -> None:
    """Print the whole text and wait for a key, because there is no pager."""
    os.write(1, text.encode("utf-8", "replace") + b"\n[press Enter to continue]")
    os.read(0, 1024)


class Handover:
    """The programs and questions to which the live session gives its terminal for a while."""

    def __init__(self, terminal: "Terminal", workspace: Path) -> None:
        self._terminal = terminal
        self._workspace = workspace
        self._line: asyncio.Future[str] | None = None
        """The line that the user is asked for, on the terminal itself."""

    async def edit(self, text: str, *, suffix: str) -> str | None:
        """Return the edited text, or None if there is no editor or it failed."""
        return await self._terminal.hand_over(
            lambda: edit_text(text, suffix=suffix, workspace=self._workspace)
        )

    async def page(self, text: str, *, line: int = 1) -> None:
        await self._terminal.hand_over(
            lambda: page_text(text, line=line, workspace=self._workspace)
        )

    async def ask(self, question: str, *, hidden: bool = False) -> str:
        """Return what the user types, or an empty string for nothing or a cancelled question."""
        self._terminal.repaint()  # earlier output stays above the question
        work = self._terminal.hand_over(lambda: ask_line(question, hidden=hidden))
        self._line = asyncio.ensure_future(work)
        await asyncio.wait([self._line])
        return "" if self._line.cancelled() else self._line.result()

    def cancel_question(self) -> bool:
        """Cancel the question. Return whether there was one."""
        return self._line is not None and self._line.cancel()
