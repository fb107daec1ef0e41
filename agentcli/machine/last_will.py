"""Ends the commands of a session that was killed and could not do it itself.

A small process outside waits for a word of farewell. If its pipe closes without one, the session is
gone: then everything that carries the session's mark is killed, whoever its parent is by now.
"""

import os
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

_FAREWELL = b"\n"
_SHELL = "/bin/sh"
# What was just being started may not carry the mark yet, so it looks more than once.
_WAIT_AND_KILL = """
read -r farewell && exit
for look in 1 2 3; do
    sleep 0.5
    for process in /proc/[0-9]*; do
        if grep -qsF "$1" "$process/environ"; then kill -KILL "${process#/proc/}"; fi
    done
done
"""


class LastWill:
    def __init__(self, mark: str) -> None:
        """Where processes cannot be told by their marks there is none."""
        self._executor: Popen[bytes] | None = None
        if Path("/proc/self/environ").exists():
            self._executor = Popen(
                [_SHELL, "-c", _WAIT_AND_KILL, "agentcli", mark],
                cwd="/",
                env={"PATH": os.defpath},
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=DEVNULL,
                start_new_session=True,
            )

    def revoke(self) -> None:
        """All commands have ended: nothing is left to do."""
        if self._executor is not None:
            self._executor.communicate(_FAREWELL)
