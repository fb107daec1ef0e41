"""The start and end of the live session around its event loop. Always gives the terminal back."""

import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from platformdirs import user_state_path
from prompt_toolkit.utils import get_cwidth

from agentcli import __version__
from agentcli.settings import Settings
from agentcli.types.errors import Exit
from agentcli.ui.render.wording import is_ascii, shorten_home
from agentcli.ui.repl.git_branch import GitBranch
from agentcli.ui.repl.repl import Repl
from agentcli.ui.repl.session_manager import LateImports, ReplOptions
from agentcli.ui.repl.status import shorten_end
from agentcli.ui.repl.terminal import IN_ASCII
from agentcli.ui.repl.terminal_colors import TerminalReply, ask_background
from agentcli.ui.repl.terminal_guard import Guard

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths

DOT = " · "
HINTS = ("/help", "@file", "!shell", "ctrl+j newline", "ctrl+d exit")
PATH_COLUMNS_MIN = 10
"""The fewest columns for the folder. With less space, it is left out."""


def run_repl(
    settings: Settings,
    *,
    model: str,
    branch: GitBranch,
    color: str,
    load: Callable[[], LateImports],
    resume: "SessionPaths | None" = None,
) -> Exit:
    """Run the live session. `model` is its name as far as known before anything is loaded."""
    began = time.monotonic()
    _log_to_file()
    stdin, stdout = sys.stdin.fileno(), sys.stdout.fileno()
    guard = Guard(stdin)
    try:
        asks = settings.theme == "auto" and color != "never" and not os.environ.get("NO_COLOR")
        answer = ask_background(stdin, stdout) if asks else TerminalReply()
        branch.wait_briefly()
        opening = ReplOptions(
            model=model, branch=branch, terminal_reply=answer, color=color, resume=resume
        )
        _greet(settings, opening)
        repl = Repl(settings, opening, load=load)
        code = asyncio.run(repl.run())
    finally:
        guard.dismiss()
    _print_summary(repl, time.monotonic() - began)
    return code


def _log_to_file() -> None:
    """Write log messages, ours and those of libraries, to a file and not onto the screen."""
    path = user_state_path("agentcli", appauthor=False) / "agentcli.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return
    logging.basicConfig(
        handlers=[logging.FileHandler(path, delay=True, encoding="utf-8")],
        level=logging.WARNING,
        format="%(asctime)s %(name)s %(message)s",
    )


def _greet(settings: Settings, options: ReplOptions) -> None:
    """Print exactly two lines, which also keep the live region off the first row."""
    width = shutil.get_terminal_size().columns - 1
    shown = f"{render_first_line(settings, options, width)}\n{render_hints(width)}\n"
    sys.stdout.write(shown.translate(IN_ASCII) if is_ascii() else shown)
    sys.stdout.flush()


def render_first_line(settings: Settings, options: ReplOptions, width: int) -> str:
    branch = f" ({options.branch.name})" if options.branch.name else ""
    model = options.model.rpartition("/")[2] or options.model
    parts = [f"agentcli {__version__}", model, f"{settings.mode} mode"]
    room = width - sum(map(get_cwidth, parts)) - 3 * len(DOT) - get_cwidth(branch)
    if room >= PATH_COLUMNS_MIN:
        parts.insert(2, shorten_start(shorten_home(settings.workspace), room) + branch)
    return shorten_end(DOT.join(parts), width)


def render_hints(width: int) -> str:
    """Return as many hints as fit."""
    fitting = [DOT.join(HINTS[:count]) for count in range(len(HINTS) + 1)]
    return next(shown for shown in reversed(fitting) if len(shown) <= width or not shown)


def shorten_start(path: str, width: int) -> str:
    """Cut the start of a path, because its end says most."""
    return path if len(path) <= width else f"…{path[len(path) - max(8, width - 1) :]}"


def _print_summary(repl: Repl, seconds: float) -> None:
    lines = repl.render_summary(seconds)
    if lines:
        sys.stderr.write("\n".join(lines) + "\n")
