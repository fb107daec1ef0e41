"""A tiny process that gives the terminal back if the session dies without doing it itself.

It is run as a program, so that it shares nothing with what it guards: it holds the terminal's
settings as they were found, reads a pipe, and acts only when that closes without the goodbye.
"""

import json
import os
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

GOODBYE = b"k"
RESET = "\x1b[?2026l\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?25h\x1b[0m"


_NEEDED = ("PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables that a Python may not start without. It outlives us, so it gets no others."""


class Guard:
    """The side of the session. Without a terminal to read from there is nothing to guard."""

    def __init__(self, terminal: int) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        settings = _settings_of(terminal)
        if settings is None:
            return
        with suppress(OSError):
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", Path(__file__), json.dumps(settings)],
                env={name: os.environ[name] for name in _NEEDED if name in os.environ},
                stdin=subprocess.PIPE,
                stdout=terminal,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )

    def dismiss(self) -> None:
        """The terminal has been given back."""
        if self._child is None or self._child.stdin is None:
            return
        with suppress(OSError):
            self._child.stdin.write(GOODBYE)
            self._child.stdin.close()
        self._child.wait()
        self._child = None


def _settings_of(terminal: int) -> list[Any] | None:
    try:
        *flags, characters = termios.tcgetattr(terminal)
    except termios.error:
        return None
    return [*flags, [list(one) if isinstance(one, bytes) else one for one in characters]]


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
