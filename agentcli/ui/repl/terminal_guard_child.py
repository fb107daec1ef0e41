"""A tiny process that gives the terminal back if the session dies without doing so.

It runs as a program, so that it shares nothing with what it guards. It holds the terminal's
original settings and reads a pipe. It acts only if the pipe closes without the goodbye.
"""

import json
import os
import signal
import sys
import termios
from contextlib import suppress
from typing import Any

GOODBYE = b"k"
RESET = (
    "\x1b[?2026l\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?25h\x1b[0m\x1b[23;2t"
)


def _watch(settings: list[Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    if os.read(0, 1) == GOODBYE:
        return
    *flags, characters = settings
    restored = [*flags, [bytes(one) if isinstance(one, list) else one for one in characters]]
    with suppress(termios.error):
        termios.tcsetattr(1, termios.TCSANOW, restored)
    with suppress(OSError):
        os.write(1, RESET.encode())


if __name__ == "__main__":
    _watch(json.loads(sys.argv[1]))
