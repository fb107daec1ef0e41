"""What is done for a session that was killed and could not do it itself.

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
# What was just being started may not carry the mark yet, so it looks more than once.
_KILL = """
for look in 1 2 3; do
    sleep 0.5
    for process in /proc/[0-9]*; do
        if grep -qsF "$1" "$process/environ" && grep -qs "$2" "$process/status"
        then kill -KILL "${process#/proc/}"; fi
    done
done
"""


class ReaperProcess:
    def __init__(self, words: Sequence[str]) -> None:
        """`words`: the program, and what it is told by now."""
        self._process = own_process.start(
            [_SHELL, "-c", _WAIT, "agentcli", *words],
            beside=None,
            cwd=Path("/"),
            env={"PATH": os.defpath},
            stdin=PIPE,
            start_new_session=True,
        )

    def send(self, words: Sequence[str]) -> None:
        """More for the program; words without spaces. OSError where nobody listens any more."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        self._process.stdin.flush()

    def dismiss(self) -> None:
        """There is nothing left to do."""
        self._process.communicate(_FAREWELL)


class OrphanReaper:
    """Everything that carries the session's mark is killed, whoever its parent is by now."""

    def __init__(self, tag: str) -> None:
        """Where processes cannot be told by their marks there is none."""
        self._executor: ReaperProcess | None = None
        if Path("/proc/self/environ").exists():
            status = process_tree.CONFINED_STATUS if process_tree.is_confined(tag) else ""
            self._executor = ReaperProcess([_SHELL, "-c", _KILL, "agentcli", tag, status])

    def dismiss(self) -> None:
        """All commands have ended."""
        if self._executor is not None:
            self._executor.dismiss()
