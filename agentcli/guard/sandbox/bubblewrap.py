"""Layer 1: by bubblewrap a file system view, namespaces and a system call filter per command."""

import json
import os
import platform
import re
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from select import select
from subprocess import DEVNULL, STDOUT, Popen

from agentcli.guard.sandbox import kernel, landlock, seccomp
from agentcli.guard.sandbox.attendance import Attendance
from agentcli.guard.sandbox.holding import Holding
from agentcli.guard.sandbox.kinds import is_directory
from agentcli.guard.sandbox.launcher import Launcher
from agentcli.guard.sandbox.limits import Limits, allowed_tasks
from agentcli.guard.sandbox.mounts import View
from agentcli.guard.sandbox.newcomers import Newcomers
from agentcli.guard.sandbox.places import Places
from agentcli.guard.sandbox.protect import Guarded, of_new_repository, protections
from agentcli.guard.sandbox.restore import Keeper
from agentcli.types.verdicts import Confinement

_FILTER = seccomp.Filter(
    families=(seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK),
    sees_others=False,
)
_MOUNTED_GUARDS = 48
"""More mounts than these take longer than a command: the others are looked at after it."""
_END_S = 2.0
_COUNTER = Path("/usr/bin/prlimit")


class Bubblewrap:
    def __init__(
        self, places: Places, *, program: Path, version: tuple[int, ...], limits: Limits
    ) -> None:
        protection = protections(places.workspace, (*places.protected, *places.records))
        mountable = [
            one
            for one in protection.guarded
            if one.kind != "entry" and is_directory(one.path.parent)
        ]
        held = tuple(mountable[:_MOUNTED_GUARDS])
        self._view = View(places, protection=replace(protection, guarded=held), version=version)
        self._places = places
        self._program = program
        self._limits = limits
        self._holding = Holding(held)
        others = [one for one in protection.guarded if one not in held]
        roots = (places.workspace, *protection.writable)
        keeper = Keeper(
            (*others, *_new_ones(places.workspace, held)), roots=roots, rejected=places.rejected
        )
        newcomers = Newcomers(places.workspace, rejected=places.rejected)
        self._attendance = Attendance(keeper, newcomers, limits)
        self._launcher = Launcher(_leave_the_session_alone, name="bubblewrap launcher")
        self._status: dict[Popen[bytes], int] = {}
        """Where bubblewrap tells what became of a command."""

    @property
    def name(self) -> str:
        return "bubblewrap"

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        confinement: Confinement,
        stdin: int = DEVNULL,
        stderr: int = STDOUT,
    ) -> "Popen[bytes]":
        self._holding.take()
        try:
            before = self._attendance.prepare()
            process, status = self._started(
                argv, cwd, env, confinement, stdio=(stdin, stdout, stderr)
            )
        except BaseException:
            self._holding.release()
            raise
        self._status[process] = status
        self._attendance.begin(process, before)
        return process

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        status = self._status.pop(process, None)
        if status is None:
            return ()
        told = (*_end(status, process), *self._attendance.end(process))
        self._holding.release()
        return told

    def close(self) -> None:
        """Commands that still run end with the thread that started them."""
        self._attendance.close()
        self._launcher.close()

    def _counted(self, argv: Sequence[str]) -> list[str]:
        """Has the kernel count processes, where it counts those of a user namespace alone.

        It does not count root's. The watch comes first: this holds when it is kept from running.
        """
        if os.geteuid() == 0 or not _COUNTER.exists() or not _counts_by_namespace():
            return list(argv)
        most = allowed_tasks(self._limits)
        return [str(_COUNTER), f"--nproc={most}:{most}", "--", *argv]

    def _started(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: dict[str, str],
        confinement: Confinement,
        *,
        stdio: tuple[int, int, int],
    ) -> tuple["Popen[bytes]", int]:
        status, status_writer = os.pipe()
        os.set_blocking(status, False)
        filter_file = _memory_file(seccomp.program(_FILTER))
        options = [
            *self._view.options(confinement),
            *("--chdir", str(cwd)),
            *("--seccomp", str(filter_file)),
            *("--json-status-fd", str(status_writer)),
        ]
        options_file = _memory_file(b"".join(os.fsencode(word) + b"\0" for word in options))
        passed = (status_writer, filter_file, options_file)
        try:
            process = self._launcher.start(
                [str(self._program), "--args", str(options_file), "--", *self._counted(argv)],
                cwd=Path("/"),
                env={**env, **self._places.variables, "TMPDIR": str(self._view.temporary)},
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                pass_fds=passed,
            )
        except BaseException:
            os.close(status)
            raise
        finally:
            for handle in passed:
                os.close(handle)
        return process, status


@cache
def _counts_by_namespace() -> bool:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (5, 14)


def _new_ones(workspace: Path, held: Iterable[Guarded]) -> tuple[Guarded, ...]:
    """Where there is no repository, a command may make one, and is watched then."""
    git = workspace / ".git"
    has_repository = any(one.path.is_relative_to(git) for one in held)
    return () if has_repository else of_new_repository(workspace)


def _leave_the_session_alone() -> None:
    """With a shared network, abstract sockets of the person's session are in reach otherwise."""
    kernel.forbid_new_privileges()
    landlock.restrict_scope()


def _memory_file(content: bytes) -> int:
    handle = os.memfd_create("agentcli")
    os.write(handle, content)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _end(status: int, process: "Popen[bytes]") -> tuple[str, ...]:
    """Waits until everything of the command is gone; tells whether there was a command at all."""
    with os.fdopen(status, "rb") as file:
        told = _told(file.read() or b"")
    if "child-pid" in told:
        _end_namespace(told["child-pid"], process)
    was_killed = process.returncode is None or process.returncode < 0
    if "exit-code" in told or was_killed:
        return ()
    return ("Nothing was run: there is no such program, or the sandbox could not be set up.",)


def _end_namespace(first: int, process: "Popen[bytes]") -> None:
    """With its first process the kernel ends all of a namespace, which takes a moment.

    That process dies with its parent, but not if the parent was killed before it could ask for it.
    """
    words = process.args if isinstance(process.args, list) else []
    ours = b"".join(os.fsencode(word) + b"\0" for word in words)
    try:
        handle = os.pidfd_open(first)
    except OSError:
        return
    try:
        # The number may be another's by now; who is dying has no command line any more.
        words_now = Path(f"/proc/{first}/cmdline").read_bytes()
        if words_now == ours:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        if words_now in (ours, b""):
            select([handle], [], [], _END_S)
    except OSError:
        return  # it has ended
    finally:
        os.close(handle)


def _told(status: bytes) -> dict[str, int]:
    told: dict[str, int] = {}
    for line in status.splitlines():
        with suppress(ValueError):
            told |= {key: value for key, value in json.loads(line).items() if type(value) is int}
    return told
