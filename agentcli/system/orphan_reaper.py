"""Cleanup for a process of ours that was killed and could not do it itself.

One small process outside collects lines of shell. If we end as usual, it gets an empty line as a
farewell, and ends. If its pipe closes without one, we were killed, and it runs the lines.
"""

import atexit
import os
import shlex
import sys
from pathlib import Path
from subprocess import PIPE
from threading import Lock

from agentcli.system import own_process, process_tree

_FAREWELL = b"\n"
_SHELL = "/bin/sh"
_COLLECT = """
set -f
while IFS= read -r line; do [ "$line" ] || exit; set -- "$@" "$line"; done
for line do /bin/sh -c "$line" & done
"""
# A process that was just being started may not carry the tag yet, so it looks more than once.
# One search finds the few that do: two for each process of the machine would take seconds.
_KILL_TAGGED = (
    "for look in 1 2 3; do sleep 0.5; "
    "grep -lsF {tag} /proc/[0-9]*/environ | while IFS=/ read -r _ _ process _; do "
    'if grep -qsF {tag} "/proc/$process/environ" && grep -qs {status} "/proc/$process/status"; '
    'then kill -KILL "$process"; fi; done; done'
)


class _Reaper:
    def __init__(self) -> None:
        self._process = own_process.start(
            [_SHELL, "-c", _COLLECT, "agentcli"],
            beside=None,
            cwd=Path("/"),
            env={"PATH": os.defpath},
            stdin=PIPE,
            start_new_session=True,
        )
        atexit.register(self._dismiss)

    def add(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _dismiss(self) -> None:
        self._process.communicate(_FAREWELL)


_started: list[_Reaper] = []
"""The one of this process, once it is needed."""
_starting = Lock()
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_started.clear)


def run_if_killed(line: str) -> None:
    """Have a line of shell run if we are killed. Raise OSError if there is nobody to run it."""
    with _starting:
        if not _started:
            _started.append(_Reaper())
        try:
            _started[0].add(line)
        except OSError:
            del _started[0]  # somebody has ended it: the next line gets another one
            raise


def kill_tagged_if_killed(tag: str) -> None:
    """If we are killed, kill everything that carries the tag, whatever its parent is by then.

    Do nothing where processes cannot be found by their tags."""
    if Path("/proc/self/environ").exists():
        status = process_tree.CONFINED_STATUS if process_tree.is_confined(tag) else ""
        run_if_killed(_KILL_TAGGED.format(tag=shlex.quote(tag), status=shlex.quote(status)))
