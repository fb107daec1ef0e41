"""The user's own status line: the first line that a command of theirs prints.

It runs after each turn, outside the sandbox, and gets the figures of the session as JSON.
"""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.system import own_process
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import SettingsError

if TYPE_CHECKING:
    from agentcli.session.session import Session
    from agentcli.ui.tally import Tally

LIMIT_S = 2.0
LINE_CHARS = 200
OUTPUT_BYTES = 10_000


def build_status_input(session: "Session", tally: "Tally", *, context_tokens: int) -> bytes:
    """Return the figures of a session, as the command reads them."""
    figures = {
        "session": session.paths.id,
        "workspace": str(session.settings.workspace),
        "model": session.model.name,
        "effort": session.model.effort,
        "mode": session.gate.mode,
        "plan": session.plan_tracker.progress,
        "context_tokens": context_tokens,
        "window_tokens": session.model.window_tokens,
        "cost_usd": tally.spending.cost_usd,
        "log": str(session.paths.log),
    }
    return json.dumps(figures).encode()


def run_status_command(
    command: str, workspace: Path, given: bytes, *, limit_s: float = LIMIT_S
) -> str:
    """Return the line. Raise SettingsError if the command fails or does not end."""
    try:
        child = own_process.start(
            ("sh", "-c", command),
            workspace=workspace,
            cwd=workspace,
            env=own_process.build_user_environment(workspace),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise SettingsError(f"the statusline command cannot run: {error.strerror}") from error
    try:
        printed, _ = child.communicate(given, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise SettingsError(f"the statusline command did not end within {limit_s:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # with all that it started
        child.wait()
    if child.returncode:
        raise SettingsError(f"the statusline command failed (exit code {child.returncode})")
    first = printed[:OUTPUT_BYTES].decode("utf-8", "replace").partition("\n")[0]
    return show_controls(first.strip())[:LINE_CHARS]
