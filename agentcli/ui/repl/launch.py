"""The start and end of the live session around its event loop."""

import asyncio
import logging
import shutil
import sys
import time
from typing import TYPE_CHECKING

from platformdirs import user_state_path
from prompt_toolkit.utils import get_cwidth

from agentcli import __version__
from agentcli.system.files import shorten_home
from agentcli.types.settings import Settings
from agentcli.ui.render.wording import is_ascii
from agentcli.ui.repl.key_table import build_table
from agentcli.ui.repl.repl import Repl
from agentcli.ui.repl.state import GitBranch, ReplEnd, ReplOptions
from agentcli.ui.repl.status import shorten_end
from agentcli.ui.repl.terminal import IN_ASCII, open_terminal
from agentcli.ui.streams import redirect_to_null, write_err

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.ui.render.theme import ColorWhen
    from agentcli.ui.repl.held_terminal import HeldTerminal

DOT = " · "
PATH_COLUMNS_MIN = 10
"""The fewest columns for the folder. With less space, it is left out."""


def run_repl(
    settings: Settings,
    held: "HeldTerminal",
    *,
    model: str,
    branch: GitBranch,
    color: "ColorWhen",
    resume: "SessionPaths | None" = None,
    draft: str = "",
    is_kept: bool = True,
) -> ReplEnd:
    """Run the live session. `model` is its name as far as known before anything is loaded.

    `draft` is in the input at first. `is_kept` is False if nobody can take the session up again.
    """
    began = time.monotonic()
    _log_to_file()
    reply = held.read_reply()
    branch.wait_briefly()
    options = ReplOptions(
        model=model,
        branch=branch,
        color=color,
        resume=resume,
        background=reply.background,
        typed=draft + reply.typed,
    )
    _greet(settings, options)
    terminal = open_terminal(sys.stdin, sys.stdout, typed_before=options.typed)
    repl = Repl(settings, options, terminal=terminal)
    code = asyncio.run(repl.run())
    if terminal.output.is_gone:
        redirect_to_null(sys.stdout.fileno())
    if is_kept and repl.settings.workspace == settings.workspace:
        _print_summary(repl, time.monotonic() - began)
    session = repl.session.paths if repl.has_session else None
    return ReplEnd(exit_code=code, settings=repl.settings, session=session)


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
    shown = (
        f"{render_first_line(settings, options, width=width)}\n{render_hints(settings, width)}\n"
    )
    sys.stdout.write(shown.translate(IN_ASCII) if is_ascii() else shown)
    sys.stdout.flush()


def render_first_line(settings: Settings, options: ReplOptions, *, width: int) -> str:
    branch = f" ({options.branch.name})" if options.branch.name else ""
    model = options.model.rpartition("/")[2] or options.model
    parts = [f"agentcli {__version__}", model, f"{settings.mode} mode"]
    room = width - sum(map(get_cwidth, parts)) - 3 * len(DOT) - get_cwidth(branch)
    if room >= PATH_COLUMNS_MIN:
        parts.insert(2, shorten_start(shorten_home(settings.workspace), room) + branch)
    return shorten_end(DOT.join(parts), width)


def render_hints(settings: Settings, width: int) -> str:
    """Return as many hints as fit."""
    keys = build_table(settings.keys)
    named = (f"{keys['newline'].hint} newline", f"{keys['leave'].hint} exit")
    hints = ("/help", "@file", "!shell", *named)
    fitting = [DOT.join(hints[:count]) for count in range(len(hints) + 1)]
    return next(shown for shown in reversed(fitting) if len(shown) <= width or not shown)


def shorten_start(path: str, width: int) -> str:
    """Cut the start of a path, because its end says most."""
    return path if len(path) <= width else f"…{path[len(path) - max(8, width - 1) :]}"


def _print_summary(repl: Repl, seconds: float) -> None:
    lines = repl.render_summary(seconds)
    if lines:
        write_err("\n".join(lines) + "\n")  # whoever closed the window does not read it
