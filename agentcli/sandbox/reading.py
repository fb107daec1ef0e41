"""A program that may read given paths and change nothing: a search that cannot be led outside.

The program is ours and means no harm. But it works by paths, and a command may swap the target of
a path during the search. The kernel's refusal leaves no gap in time.
"""

import errno
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import Popen

from agentcli.sandbox import kernel, landlock_rules, seatbelt
from agentcli.sandbox.paths import ETC, SYSTEM
from agentcli.system import process

_PROGRAMS = (*(path for path in SYSTEM if path != ETC), ETC / "ld.so.cache")
"""The files that programs consist of. The rest of /etc may hold what only we may read."""

_NULL = Path(os.devnull)  # the empty stdin, opened by the launcher


def start_reading(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: dict[str, str],
    stdout: int,
    stderr: int,
    readable: Sequence[Path],
) -> "Popen[bytes]":
    """Start a program. Raise OSError if it cannot be confined. `argv[0]` is an absolute path."""
    program = Path(argv[0])
    start = partial(process.start, cwd=cwd, env=env, stdout=stdout, stderr=stderr)
    if sys.platform == "darwin":
        real = [Path(os.path.realpath(path)) for path in (program, *readable)]
        return start([*seatbelt.build_reading_prefix(real), *argv])
    if sys.platform != "linux" or not landlock_rules.read_version():
        raise OSError(errno.ENOTSUP, "no process can be kept from reading here")
    ruleset = landlock_rules.make_ruleset(
        [
            *((path, landlock_rules.RUN) for path in (*_PROGRAMS, program)),
            *((path, landlock_rules.READ) for path in readable),
            (_NULL, landlock_rules.DEVICE),
        ],
        tcp=False,
    )
    try:
        launcher = kernel.Launcher(partial(_keep_only, ruleset), name="search launcher")
        try:
            return launcher.start(partial(start, argv))
        finally:
            launcher.close()
    finally:
        os.close(ruleset)


def _keep_only(ruleset: int) -> None:
    kernel.forbid_new_privileges()
    landlock_rules.restrict_thread(ruleset)
