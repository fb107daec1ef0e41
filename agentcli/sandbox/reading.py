"""A program that may read what it is given, and change nothing: a search that cannot be led out.

Such a program is ours and means no harm, but it goes by paths, and what a path leads to may be
swapped by a command while it walks. The kernel's refusal leaves no moment in between.
"""

import errno
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import Popen

from agentcli.sandbox import kernel, landlock_rules, seatbelt
from agentcli.sandbox.launcher import Launcher
from agentcli.system import process

_PROGRAMS = tuple(
    map(
        Path,
        (
            *("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache"),
            *("/nix/store", "/gnu/store"),
        ),
    )
)
"""What programs are made of. All the rest of /etc may hold what only we may read."""

_NULL = Path(os.devnull)  # what stands for an empty stdin, opened by the launcher


def start_reading(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: dict[str, str],
    stdout: int,
    stderr: int,
    readable: Sequence[Path],
) -> "Popen[bytes]":
    """Raises OSError where it cannot be confined. The first of `argv` is an absolute path."""
    program = Path(argv[0])
    if sys.platform == "darwin":
        real = [Path(os.path.realpath(path)) for path in (program, *readable)]
        argv = [*seatbelt.only_reading(real), *argv]
        return process.start(argv, cwd=cwd, env=env, stdout=stdout, stderr=stderr)
    if sys.platform != "linux" or not landlock_rules.version():
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
        launcher = Launcher(partial(_keep_only, ruleset), name="search launcher")
        try:
            return launcher.start(argv, cwd=cwd, env=env, stdout=stdout, stderr=stderr)
        finally:
            launcher.close()
    finally:
        os.close(ruleset)


def _keep_only(ruleset: int) -> None:
    kernel.forbid_new_privileges()
    landlock_rules.restrict_thread(ruleset)
