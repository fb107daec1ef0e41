"""The session's side of the process that gives the terminal back if the session dies."""

import json
import subprocess
import sys
import termios
from contextlib import suppress
from typing import Any

from agentcli.system import own_process
from agentcli.ui.repl import terminal_guard_child


class Guard:
    """The guard process. It does not run if there is no terminal to read from."""

    def __init__(self, terminal: int) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        settings = _settings_of(terminal)
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


def _settings_of(terminal: int) -> list[Any] | None:
    try:
        *flags, characters = termios.tcgetattr(terminal)
    except termios.error:
        return None
    return [*flags, [list(one) if isinstance(one, bytes) else one for one in characters]]
