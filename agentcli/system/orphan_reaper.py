"""Cleanup for a session that was killed and could not do it itself.

A small process outside waits for a farewell, an empty line. If its pipe closes without one, the
session is gone, and the process becomes the program it was given.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

from agentcli.system import own_process, process_tree

_FAREWELL = b"\n"
_SHELL = "/bin/sh"
_WAIT = 'set -f; while read -r words; do [ "$words" ] || exit; set -- "$@" $words; done; exec "$@"'
# A process that was just being started may not carry the tag yet, so it looks more than once.
# One search finds the few that do: two for each process of the machine would take seconds.
_KILL = """
for look in 1 2 3; do
    sleep 0.5
    grep -lsF "$1" /proc/[0-9]*/environ | while IFS=/ read -r _ _ process _; do
        if grep -qsF "$1" "/proc/$process/environ" && grep -qs "$2" "/proc/$process/status"
        then kill -KILL "$process"; fi
    done
done
"""


class ReaperProcess:
    def __init__(self, words: Sequence[str]) -> None:
        """Start the waiting process. `words` are the program and the arguments known so far."""
        self._process = own_process.start(
            [_SHELL, "-c", _WAIT, "agentcli", *words],
            beside=None,
            cwd=Path("/"),
            env={"PATH": os.defpath},
            stdin=PIPE,
            start_new_session=True,
        )

    def send(self, words: Sequence[str]) -> None:
        """Add arguments, without spaces, to the program. Raise OSError if the process is gone."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        self._process.stdin.flush()

    def dismiss(self) -> None:
        """End the process: there is nothing left to do."""
        self._process.communicate(_FAREWELL)


class OrphanReaper:
    """Kills everything that carries the session's tag, whatever its parent is by then."""

    def __init__(self, tag: str) -> None:
        """Start the reaper process, unless processes cannot be found by their tags here."""
        self._executor: ReaperProcess | None = None
        if Path("/proc/self/environ").exists():
            status = process_tree.CONFINED_STATUS if process_tree.is_confined(tag) else ""
            self._executor = ReaperProcess([_SHELL, "-c", _KILL, "agentcli", tag, status])

    def dismiss(self) -> None:
        """End the reaper, because all commands have ended."""
        if self._executor is not None:
            self._executor.dismiss()
