"""What gets the terminal for a while: an editor, a pager, a question that is answered by a line."""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from agentcli.machine import own_process
from agentcli.ui.repl.line_reader import LineReader

EDITORS = ("VISUAL", "EDITOR")


async def edit_text(text: str, *, suffix: str, workspace: Path) -> str | None:
    """The text as the editor left it; None: there is no editor, or it failed."""
    return await asyncio.to_thread(_run_editor, text, suffix, workspace)


async def ask_line(question: str) -> str:
    """What the person answers on a line of its own; empty: nothing."""
    # What is written to `sys.stdout` waits until the terminal is handed back.
    os.write(1, f"{question} ".encode("utf-8", "replace"))
    return (await LineReader(sys.stdin.fileno()).read_line() or "").strip()


async def page_text(text: str, *, workspace: Path) -> None:
    await asyncio.to_thread(_run_pager, text, workspace)


def _run_editor(text: str, suffix: str, workspace: Path) -> str | None:
    command = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "vi")
    with tempfile.TemporaryDirectory(prefix="agentcli-") as directory:
        path = Path(directory) / f"message{suffix}"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            editor = own_process.start(
                [*shlex.split(command), path],
                beside=workspace,
                env=own_process.user_environment(workspace),
                stdin=None,
                stdout=None,
                stderr=None,
            )
            code = editor.wait()
            return path.read_text(encoding="utf-8", errors="replace") if code == 0 else None
        except (OSError, ValueError):
            return None


def _run_pager(text: str, workspace: Path) -> None:
    command = os.environ.get("PAGER") or "less"
    environ = {
        **own_process.user_environment(workspace),
        "LESS": os.environ.get("LESS", "-R"),
        "LESSCHARSET": "utf-8",
    }
    try:
        pager = own_process.start(
            shlex.split(command),
            beside=workspace,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=None,
            stderr=None,
        )
        # A pager that is left before its end closes the pipe.
        pager.communicate(text.encode("utf-8", "replace"))
    except (OSError, ValueError):
        _page_by_hand(text)


def _page_by_hand(text: str) -> None:
    """Where there is no pager: all of it, and a key to go on."""
    os.write(1, text.encode("utf-8", "replace") + b"\n[Enter goes on]")
    os.read(0, 1024)
