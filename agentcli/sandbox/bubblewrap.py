"""Layer 1, bubblewrap: a file system view, namespaces and a system call filter per command."""

import json
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from select import select
from subprocess import DEVNULL, STDOUT, Popen

from agentcli.sandbox import kernel, landlock_rules, seccomp
from agentcli.sandbox.launcher import Launcher
from agentcli.sandbox.limits import CommandLimits, count_allowed_tasks
from agentcli.sandbox.mount_check import MountChecks
from agentcli.sandbox.mounts import MountState, MountView
from agentcli.sandbox.namespaces import (
    Entrance,
    MountNamespaceCache,
    MountTable,
    make_private_network,
    wrap_command,
)
from agentcli.sandbox.new_repositories import NewRepositoryScan
from agentcli.sandbox.paths import SandboxPaths
from agentcli.sandbox.placeholders import PlaceholderHolder
from agentcli.sandbox.protect import GuardedPath, find_protection, guard_new_repository
from agentcli.sandbox.restore import GuardedPaths, find_original
from agentcli.sandbox.supervisor import CommandSupervisor, MachineBefore
from agentcli.system.kinds import exists, is_directory
from agentcli.types.verdicts import Grants

_FILTER = seccomp.SyscallFilter(
    families=(seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK),
    sees_others=False,
)
_MOUNTED_GUARDS = 48
"""The limit of mounted guards. More take longer than a command: the others are checked after it."""
_END_S = 2.0
_STATUS_BYTES = 4096
_LOADERS = "LD_"
"""Prefix of variables that load libraries, perhaps a command's own: for its programs only."""


@dataclass(frozen=True, slots=True)
class _Status:
    memory: int
    """Memory file for bubblewrap's status: a pipe would break if we are killed."""
    words: tuple[str, ...]
    """The command line of bubblewrap itself, which identifies its processes."""


class BubblewrapSandbox:
    def __init__(
        self,
        places: SandboxPaths,
        *,
        program: Path,
        version: tuple[int, ...],
        limits: CommandLimits,
        has_rooms: bool = True,
    ) -> None:
        """If `has_rooms` is false, everything is mounted anew for each command."""
        protection = find_protection(places.workspace, (*places.protected, *places.records))
        held = tuple(filter(_can_be_held, protection.guarded))[:_MOUNTED_GUARDS]
        self._network = make_private_network(program)
        self._view = MountView(
            places,
            protection=replace(protection, guarded=held),
            version=version,
            has_private_network=self._network is not None,
        )
        self._mount_table = MountTable()
        self._rooms = MountNamespaceCache(self._view, program=program, network=self._network)
        self.has_rooms = has_rooms
        self._places = places
        self._program = program
        self._limits = limits
        self._holding = PlaceholderHolder(held)
        roots = (places.workspace, *protection.writable)
        keeper = GuardedPaths(
            (*protection.guarded, *_new_ones(places.workspace, held)),
            roots=roots,
            rejected=places.rejected,
        )
        self._grips = MountChecks((*(one.path for one in held), *places.hidden))
        original = find_original(places.workspace)
        newcomers = NewRepositoryScan(places.workspace, original=original, rejected=places.rejected)
        self._attendance = CommandSupervisor(
            original, keeper=keeper, newcomers=newcomers, limits=limits
        )
        self._launcher = Launcher(_block_session_sockets, name="bubblewrap launcher")
        self._inside = Launcher(_block_session_sockets, name="bubblewrap launcher in its network")
        self._status: dict[Popen[bytes], _Status] = {}
        self._waiting: dict[Popen[bytes], tuple[Grants, MountState]] = {}

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
        grants: Grants,
        stdin: int = DEVNULL,
        stderr: int = STDOUT,
        waits: bool = False,
    ) -> "Popen[bytes]":
        self._holding.take()
        before: MachineBefore | None = None
        try:
            grip = self._grips.take()
            mounted = self._state(grants)
            before = None if waits else self._attendance.prepare(grip)
            with self._entrance(grants, mounted) as entrance:
                process, status = self._launch(
                    argv, cwd, env, grants, entrance, stdio=(stdin, stdout, stderr)
                )
        except BaseException:
            self._holding.release()
            if before:
                self._attendance.give_up()
            raise
        self._status[process] = status
        if before:
            self._attendance.begin(process, before)
        else:
            self._waiting[process] = grants, mounted
        return process

    def attend(self, process: "Popen[bytes]") -> bool:
        grants, mounted = self._waiting.pop(process)
        try:
            grip = self._grips.take()
            is_same = self._state(grants) == mounted
        except OSError:
            return False
        if is_same:
            self._attendance.begin(process, self._attendance.prepare(grip))
        return is_same

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        self._waiting.pop(process, None)
        status = self._status.pop(process, None)
        if status is None:
            return ()
        told = (*_end(status, process), *self._attendance.end(process))
        self._holding.release()
        return told

    def close(self) -> None:
        """Release everything. Commands that still run end with the thread that started them."""
        self._attendance.close()
        self._launcher.close()
        self._inside.close()
        self._rooms.close()
        self._mount_table.close()
        if self._network:
            self._network.close()
            self._network = None

    def _state(self, grants: Grants) -> MountState:
        return ((self._mount_table.changes(),), *self._view.state(grants))

    @contextmanager
    def _entrance(self, grants: Grants, mounted: MountState) -> Iterator[Entrance]:
        if self.has_rooms:
            with self._rooms.entrance(grants, mounted) as entrance:
                yield entrance
        else:
            yield (None if grants.network else self._network) or Entrance()

    def _launch(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: dict[str, str],
        grants: Grants,
        entrance: Entrance,
        *,
        stdio: tuple[int, int, int],
    ) -> tuple["Popen[bytes]", "_Status"]:
        status = os.memfd_create("agentcli-status")
        filter_file = _memory_file(seccomp.build_program(_FILTER))
        view = self._view
        variables = {**env, **self._places.variables, "TMPDIR": str(view.temporary)}
        loaders = [name for name in variables if name.startswith(_LOADERS)]
        options = [
            *(view.options_in_room if self.has_rooms else view.options)(grants),
            *(word for name in loaders for word in ("--setenv", name, variables.pop(name))),
            *("--chdir", str(cwd)),
            *("--seccomp", str(filter_file)),
            *("--json-status-fd", str(status)),
        ]
        options_file = _memory_file(b"".join(os.fsencode(word) + b"\0" for word in options))
        command = wrap_command(
            argv, descriptors=entrance.descriptors, most_tasks=count_allowed_tasks(self._limits)
        )
        words = [str(self._program), "--args", str(options_file), "--", *command]
        launcher = self._inside if entrance.network is not None else self._launcher
        own = (filter_file, options_file)
        try:
            process = launcher.start(
                [*entrance.words, *words],
                cwd=Path("/"),
                env=variables,
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                pass_fds=(status, *own, *entrance.descriptors),
                enter=entrance.enter,
            )
        except BaseException:
            os.close(status)
            raise
        finally:
            for handle in own:
                os.close(handle)
        return process, _Status(status, tuple(words))


def _can_be_held(one: GuardedPath) -> bool:
    """Return whether a path can be held. A missing one must be created for it.

    That is possible for a directory that git does not see, or a file of git's own."""
    if one.kind == "entry" or exists(one.path):
        return one.kind != "entry"
    directory = one.path.parent
    is_unseen = one.kind == "directory" or exists(directory / "HEAD")
    return is_unseen and is_directory(directory) and os.access(directory, os.W_OK)


def _new_ones(workspace: Path, held: Iterable[GuardedPath]) -> tuple[GuardedPath, ...]:
    """Return the paths to watch if there is no repository yet: a command may create one."""
    git = workspace / ".git"
    has_repository = any(one.path.is_relative_to(git) for one in held)
    return () if has_repository else guard_new_repository(workspace)


def _block_session_sockets() -> None:
    """Cut off abstract sockets of the user's session, which a shared network would expose."""
    kernel.forbid_new_privileges()
    landlock_rules.restrict_scope()


def _memory_file(content: bytes) -> int:
    handle = os.memfd_create("agentcli")
    os.write(handle, content)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _end(status: _Status, process: "Popen[bytes]") -> tuple[str, ...]:
    """Wait until the whole command is gone. Return a sentence if no command ran at all."""
    told = _read_status(os.pread(status.memory, _STATUS_BYTES, 0))
    os.close(status.memory)
    if "child-pid" in told:
        _end_namespace(told["child-pid"], status.words)
    was_killed = process.returncode is None or process.returncode < 0
    if "exit-code" in told or was_killed:
        return ()
    return ("Nothing was run: there is no such program, or the sandbox could not be set up.",)


def _end_namespace(first: int, words: Sequence[str]) -> None:
    """Kill the first process of a namespace. The kernel then ends the rest, which takes a moment.

    That process dies with its parent, but not if the parent was killed before it could ask for it.
    """
    ours = b"".join(os.fsencode(word) + b"\0" for word in words)
    try:
        handle = os.pidfd_open(first)
    except OSError:
        return
    try:
        # The pid may be another process's by now. A dying process has no command line any more.
        words_now = Path(f"/proc/{first}/cmdline").read_bytes()
        if words_now == ours:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        if words_now in (ours, b""):
            select([handle], [], [], _END_S)
    except OSError:
        return  # it has ended
    finally:
        os.close(handle)


def _read_status(status: bytes) -> dict[str, int]:
    told: dict[str, int] = {}
    for line in status.splitlines():
        with suppress(ValueError):
            told |= {key: value for key, value in json.loads(line).items() if type(value) is int}
    return told
