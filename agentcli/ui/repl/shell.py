"""`!command`: run by the person, in their own shell, without the model and without a sandbox."""

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentcli.machine.plain import plain

KEPT_BYTES = 1_000_000
CONTEXT_CHARACTERS = 20_000
READ_BYTES = 65536
NEED_TERMINAL = re.compile(
    r"n?vim?|nano|emacs|less|more|man|h?top|btop|ssh|mosh|tmux|screen|watch|fzf|lazygit|tig|gdb|pdb"
    r"|ipython|psql|mysql|sqlite3|sudo|su|passwd"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    command: str
    exit_code: int
    output: str
    duration_s: float

    def for_model(self) -> str:
        """What the model is told, bounded."""
        output = self.output.rstrip("\n")
        if len(output) > CONTEXT_CHARACTERS:
            half = CONTEXT_CHARACTERS // 2
            left_out = len(output) - 2 * half
            output = f"{output[:half]}\n[{left_out} characters left out]\n{output[-half:]}"
        return f"[The user ran this command: {self.command}]\n{output}\n[exit {self.exit_code}]"


def needs_terminal(command: str) -> bool:
    words = command.split()
    return bool(words) and NEED_TERMINAL.fullmatch(Path(words[0]).name) is not None


async def run_captured(command: str, *, cwd: Path, progress: Callable[[str], None]) -> Ran:
    """Cancelled, it ends the command: first as Ctrl-C does, then harder."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        _shell(),
        "-c",
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    kept = bytearray()
    try:
        await _follow(process, kept, progress)
    except asyncio.CancelledError:
        await asyncio.shield(_end(process))
        raise
    return Ran(
        command=command,
        exit_code=process.returncode or 0,
        output=plain(bytes(kept).decode("utf-8", "replace")),
        duration_s=time.monotonic() - began,
    )


def run_on_terminal(command: str, *, cwd: Path) -> Ran:
    began = time.monotonic()
    code = subprocess.run([_shell(), "-c", command], cwd=cwd).returncode
    return Ran(command=command, exit_code=code, output="", duration_s=time.monotonic() - began)


async def _follow(
    process: asyncio.subprocess.Process, kept: bytearray, progress: Callable[[str], None]
) -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(READ_BYTES):
        kept += piece
        if len(kept) > KEPT_BYTES:
            del kept[: len(kept) - KEPT_BYTES]
        progress(plain(bytes(kept[-4096:]).decode("utf-8", "replace")))
    await process.wait()


async def _end(process: asyncio.subprocess.Process) -> None:
    for number, patience_s in ((signal.SIGINT, 2), (signal.SIGTERM, 3), (signal.SIGKILL, 1)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await process.wait()
                return


def _shell() -> str:
    return os.environ.get("SHELL") or "/bin/sh"
