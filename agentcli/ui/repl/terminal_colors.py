"""The colour of the terminal's background, asked for before anything is drawn.

A second question follows that every terminal answers. So a terminal that does not know the first
causes no wait. What the user typed meanwhile is kept.
"""

import os
import re
import select
import termios
import time
import tty

from agentcli.types.fast_dataclass import dataclass
from agentcli.ui.render.colour import Colour, parse_colour

PATIENCE_S = 0.1
QUESTION = b"\x1b]11;?\x1b\\\x1b[c"

_REPLY = re.compile(rb"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(rb"\x1b\[\?[0-9;]*c")


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReply:
    colour: Colour | None = None
    """The background colour, or None if the terminal does not report it."""
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
    received, deadline = b"", time.monotonic() + PATIENCE_S
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
        colour=parse_colour(found[1].decode("ascii", "replace")) if found else None, typed=typed
    )
