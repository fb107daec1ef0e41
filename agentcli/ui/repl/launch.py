"""The start and end of the live session around its event loop. Always gives the terminal back."""

import asyncio
import json
import logging
import os
import re
import select
import shutil
import subprocess
import sys
import termios
import time
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from platformdirs import user_state_path
from prompt_toolkit.utils import get_cwidth

from agentcli import __version__
from agentcli.system import own_process
from agentcli.system.home import shorten_home
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.settings import Settings
from agentcli.ui.render.wording import is_ascii
from agentcli.ui.repl import terminal_guard_child
from agentcli.ui.repl.repl import Repl
from agentcli.ui.repl.state import GitBranch, ReplEnd, ReplOptions
from agentcli.ui.repl.status import shorten_end
from agentcli.ui.repl.terminal import IN_ASCII, open_terminal
from agentcli.ui.streams import redirect_to_null, write_err

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.ui.render.theme import ColorWhen

DOT = " · "
HINTS = ("/help", "@file", "!shell", "ctrl+j newline", "ctrl+d exit")
PATH_COLUMNS_MIN = 10
"""The fewest columns for the folder. With less space, it is left out."""


def run_repl(
    settings: Settings,
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
    stdin, stdout = sys.stdin.fileno(), sys.stdout.fileno()
    guard = Guard(stdin)
    try:
        asks = settings.theme == "auto" and color != "never" and not os.environ.get("NO_COLOR")
        answer = ask_background(stdin, stdout) if asks else TerminalReply()
        branch.wait_briefly()
        options = ReplOptions(
            model=model,
            branch=branch,
            color=color,
            resume=resume,
            background=answer.background,
            typed=draft + answer.typed,
        )
        _greet(settings, options)
        terminal = open_terminal(sys.stdin, sys.stdout, typed_before=options.typed)
        repl = Repl(settings, options, terminal)
        code = asyncio.run(repl.run())
    finally:
        guard.dismiss()
    if terminal.output.is_gone:
        redirect_to_null(stdout)
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
        write_err("\n".join(lines) + "\n")  # whoever closed the window does not read it


# The background colour, asked for before anything is drawn. A second question follows that every
# terminal answers, so a terminal that does not know the first causes no wait.


REPLY_PATIENCE_S = 0.1
QUESTION = b"\x1b]11;?\x1b\\\x1b[c"

_REPLY = re.compile(rb"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(rb"\x1b\[\?[0-9;]*c")


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReply:
    background: str = ""
    """The background colour as the terminal reports it, or empty if it does not."""
    typed: str = ""
    """The input that came besides the answer."""


def ask_background(terminal_in: int, terminal_out: int) -> TerminalReply:
    try:
        before = termios.tcgetattr(terminal_in)
        tty.setcbreak(terminal_in, termios.TCSANOW)
    except termios.error:
        return TerminalReply()
    try:
        os.write(terminal_out, QUESTION)
        return parse_reply(_read_reply(terminal_in))
    except OSError:
        return TerminalReply()
    finally:
        termios.tcsetattr(terminal_in, termios.TCSANOW, before)


def _read_reply(terminal: int) -> bytes:
    received, deadline = b"", time.monotonic() + REPLY_PATIENCE_S
    while not _ATTRIBUTES.search(received):
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([terminal], [], [], left_s)[0]:
            break
        piece = os.read(terminal, 4096)
        if not piece:
            break
        received += piece
    return received


def parse_reply(received: bytes) -> TerminalReply:
    found = _REPLY.search(received)
    typed = _ATTRIBUTES.sub(b"", _REPLY.sub(b"", received)).decode("utf-8", "replace")
    return TerminalReply(
        background=found[1].decode("ascii", "replace") if found else "", typed=typed
    )


# The process that gives the terminal back if the session dies


class Guard:
    """The guard process. It does not run if there is no terminal to read from."""

    def __init__(self, terminal: int) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        settings = _read_settings(terminal)
        if settings is None:
            return
        with suppress(OSError):
            self._child = own_process.start(
                [sys.executable, "-I", "-S", terminal_guard_child.__file__, json.dumps(settings)],
                beside=None,
                stdin=subprocess.PIPE,
                stdout=terminal,
                process_group=0,
            )

    def dismiss(self) -> None:
        """End the guard process, because the terminal has been given back."""
        if self._child is None or self._child.stdin is None:
            return
        with suppress(OSError):
            self._child.stdin.write(terminal_guard_child.GOODBYE)
            self._child.stdin.close()
        self._child.wait()
        self._child = None


def _read_settings(terminal: int) -> list[Any] | None:
    try:
        *flags, characters = termios.tcgetattr(terminal)
    except termios.error:
        return None
    return [*flags, [list(one) if isinstance(one, bytes) else one for one in characters]]
