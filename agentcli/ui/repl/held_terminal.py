"""The terminal before anything is drawn: its guard, and the question for its background.

Nothing heavy is imported here: the answer travels while the rest of the session is loaded.
"""

import json
import os
import re
import select
import subprocess
import sys
import termios
import time
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from agentcli.system import own_process
from agentcli.types.fast_dataclass import dataclass
from agentcli.ui.repl import terminal_guard_child

if TYPE_CHECKING:
    from agentcli.types.settings import Settings
    from agentcli.ui.render.theme import ColorWhen

REPLY_PATIENCE_S = 0.1
QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
"""Ask for the background, then for what every terminal answers: one that does not know the first
question causes no wait."""

_REPLY = re.compile(rb"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(rb"\x1b\[\?[0-9;]*c")


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReply:
    background: str = ""
    """The background colour as the terminal reports it, or empty if it does not."""
    typed: str = ""
    """The input that came besides the answer."""


class HeldTerminal:
    """The terminal of a session. It is given back at the end, also if the session is killed."""

    def __init__(self, settings: "Settings", color: "ColorWhen") -> None:
        self._stdin = sys.stdin.fileno()
        is_theme_open = settings.theme == "auto" and color != "never"
        self._asks = is_theme_open and not os.environ.get("NO_COLOR")
        self._before: list[Any] | None = None
        """The terminal's settings before the question, while its answer has not been read."""
        self._asked_at = 0.0

    def __enter__(self) -> Self:
        self._guard = Guard(self._stdin)
        if self._asks:
            self._ask_background()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_question()
        self._guard.dismiss()

    def _ask_background(self) -> None:
        with suppress(termios.error, OSError):
            before = termios.tcgetattr(self._stdin)
            tty.setcbreak(self._stdin, termios.TCSANOW)
            self._before = before
            os.write(sys.stdout.fileno(), QUESTION)
            self._asked_at = time.monotonic()

    def read_reply(self) -> TerminalReply:
        """Return the answer to the question, and what the user has typed before it."""
        if self._before is None:
            return TerminalReply()
        try:
            return parse_reply(self._receive())
        except OSError:
            return TerminalReply()
        finally:
            self._end_question()

    def _receive(self) -> bytes:
        received, deadline = b"", self._asked_at + REPLY_PATIENCE_S
        while not _ATTRIBUTES.search(received):
            left_s = max(0, deadline - time.monotonic())
            if not select.select([self._stdin], [], [], left_s)[0]:
                break
            piece = os.read(self._stdin, 4096)
            if not piece:
                break
            received += piece
        return received

    def _end_question(self) -> None:
        if self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._stdin, termios.TCSANOW, self._before)
            self._before = None


def parse_reply(received: bytes) -> TerminalReply:
    found = _REPLY.search(received)
    typed = _ATTRIBUTES.sub(b"", _REPLY.sub(b"", received)).decode("utf-8", "replace")
    return TerminalReply(
        background=found[1].decode("ascii", "replace") if found else "", typed=typed
    )


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
                workspace=None,
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
