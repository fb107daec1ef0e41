"""Layer 1, bubblewrap: a file system view, namespaces and a system call filter per command."""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from select import select
from subprocess import DEVNULL, STDOUT, Popen

from agentcli.sandbox import kernel, landlock_rules, seccomp
from agentcli.sandbox.kernel import Launcher
from agentcli.sandbox.limits import CommandLimits
from agentcli.sandbox.mounts import MountState, MountStates, MountView
from agentcli.sandbox.namespaces import Entrance, MountNamespaceCache, read_status
from agentcli.sandbox.paths import (
    PROXY_PORT,
    SandboxPaths,
    without_hosts,
)
from agentcli.sandbox.placeholders import PlaceholderHolder
from agentcli.sandbox.protect import GrantedProtection, GuardedPath, find_protection
from agentcli.sandbox.restore import GuardedPaths
from agentcli.sandbox.supervisor import CommandSupervisor
from agentcli.system import process
from agentcli.system.files import exists, is_directory
from agentcli.system.lazy import Lazy
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.sandbox import TemporaryFiles

_FILTER = seccomp.SyscallFilter(
    families=(seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK),
    sees_others=False,
)
_MOUNTED_GUARDS = 48
"""The limit of mounted guards. More take longer than a command: the others are checked after it."""
_END_S = 2.0
_LOADERS = "LD_"
"""Prefix of variables that load libraries, perhaps a command's own: for its programs only."""


@dataclass(frozen=True, slots=True)
class _Command:
    grants: Grants
    mounted: MountState
    status: int
    """Memory file for bubblewrap's status: a pipe would break if we are killed."""
    words: tuple[str, ...]
    """The command line of bubblewrap itself, which identifies its processes."""


class BubblewrapSandbox:
    name = "bubblewrap"
    has_process_namespace = True
    reaches_sockets = True

    def __init__(
        self,
        paths: SandboxPaths,
        *,
        program: Path,
        version: tuple[int, ...],
        limits: CommandLimits,
        network: Entrance | None,
        keeps_mounts: bool = True,
    ) -> None:
        """`network` is a private one for all commands, which the sandbox closes; None if each
        command needs its own. If `keeps_mounts` is false, everything is mounted anew for each
        command."""
        protection = find_protection(
            paths.workspace, (*paths.protected, *paths.records), denied=paths.unwritable
        )
        # Those that rules deny come last, and they all are mounted.
        limit = _MOUNTED_GUARDS + len(paths.unwritable)
        held = tuple(filter(_can_be_held, protection.guarded))[:limit]
        self._network = network
        granted = GrantedProtection(paths.find_denied)
        self._view = MountView(
            paths,
            granted=granted,
            protection=replace(protection, guarded=held),
            version=version,
            has_private_network=self._network is not None,
        )
        self._mount_states = MountStates(self._view)
        self._namespaces = MountNamespaceCache(self._view, program=program, network=self._network)
        self.keeps_mounts = keeps_mounts
        self._paths = paths
        self._program = program
        self._placeholders = PlaceholderHolder(held)
        keeper = GuardedPaths(
            (*protection.guarded, *protection.new_repository),
            roots=(paths.workspace, *protection.writable),
            rejected=paths.rejected,
        )
        self._supervisor = CommandSupervisor(paths, keeper=keeper, granted=granted, limits=limits)
        launch = partial(Launcher, _block_session_sockets)
        self._launcher = Lazy(partial(launch, name="bubblewrap launcher"))
        self._inside = Lazy(partial(launch, name="bubblewrap launcher in its network"))
        self._commands: dict[Popen[bytes], _Command] = {}

    @property
    def temporary(self) -> TemporaryFiles:
        paths = self._paths
        return TemporaryFiles(root=paths.shared, at=paths.temporary, names=self._view.temporaries)

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
        grants = without_hosts(grants)
        stdio = (stdin, stdout, stderr)
        self._placeholders.take()
        try:
            mounted = self._mount_states.read(grants)
            launch = partial(
                self._launch, argv, cwd, env=env, grants=grants, mounted=mounted, stdio=stdio
            )
            return self._supervisor.start(
                launch, grants=grants, mount_check=mounted.check, waits=waits
            )
        except BaseException:
            self._placeholders.release()
            raise

    @contextmanager
    def mount_ahead(self) -> Iterator[None]:
        """Mount in a thread what a command without grants sees, which is to start in the block."""
        self._placeholders.take()
        try:
            self._namespaces.mount_ahead(Grants(), self._mount_states.read(Grants()))
            yield
        finally:
            self._placeholders.release()

    def supervise(self, process: "Popen[bytes]") -> bool:
        command = self._commands[process]
        try:
            is_same = self._mount_states.read(command.grants) == command.mounted
        except OSError:
            return False
        if is_same:
            self._supervisor.supervise(
                process, grants=command.grants, mount_check=command.mounted.check
            )
        return is_same

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        command = self._commands.pop(process, None)
        if command is None:
            return ()
        notes = (*_end(command, process), *self._supervisor.end(process))
        self._placeholders.release()
        return notes

    def listen(self) -> socket.socket | None:
        if self._network is None or self._network.network is None:
            return None
        return kernel.listen_in_network(
            self._network.network, PROXY_PORT, owner=self._network.owner
        )

    def close(self) -> None:
        """Release everything. Commands that still run end with the thread that started them."""
        self._supervisor.close()
        for launcher in (self._launcher.made, self._inside.made):
            if launcher is not None:
                launcher.close()
        self._namespaces.close()
        self._mount_states.close()
        if self._network:
            self._network.close()
            self._network = None

    @contextmanager
    def _open_entrance(self, grants: Grants, mounted: MountState) -> Iterator[Entrance]:
        if self.keeps_mounts:
            with self._namespaces.open_entrance(grants, mounted) as entrance:
                yield entrance
        else:
            yield (None if grants.network else self._network) or Entrance()

    def _launch(
        self,
        argv: Sequence[str],
        cwd: Path,
        *,
        env: dict[str, str],
        grants: Grants,
        mounted: MountState,
        stdio: tuple[int, int, int],
    ) -> "Popen[bytes]":
        status = os.memfd_create("agentcli-status")
        variables = self._paths.complete_environment(env, self._view.temporary)
        loaders = [name for name in variables if name.startswith(_LOADERS)]
        mounts = self._view.find_mounts(grants)
        options = [
            *(mounts.options_kept if self.keeps_mounts else mounts.options),
            *(word for name in loaders for word in ("--setenv", name, variables.pop(name))),
            *("--chdir", str(cwd)),
            *("--json-status-fd", str(status)),
        ]
        try:
            with ExitStack() as handles, self._open_entrance(grants, mounted) as entrance:
                filter_file = _create_memory_file(seccomp.build_program(_FILTER), handles)
                options_file = _create_memory_file(
                    _join([*options, "--seccomp", str(filter_file)]), handles
                )
                command = entrance.wrap_command(argv)
                words = [str(self._program), "--args", str(options_file), "--", *command]
                start = partial(
                    process.start,
                    [*entrance.words, *words],
                    cwd=Path("/"),
                    env=variables,
                    stdin=stdio[0],
                    stdout=stdio[1],
                    stderr=stdio[2],
                    pass_fds=(status, filter_file, options_file, *entrance.descriptors),
                )
                launcher = self._inside if entrance.network is not None else self._launcher
                started = launcher.get().start(partial(_start_inside, entrance, start))
        except BaseException:
            os.close(status)
            raise
        self._commands[started] = _Command(grants, mounted, status, tuple(words))
        return started


def _start_inside(entrance: Entrance, start: Callable[[], "Popen[bytes]"]) -> "Popen[bytes]":
    entrance.enter()
    return start()


def _can_be_held(one: GuardedPath) -> bool:
    """Return whether a path can be held. A missing one must be created for it.

    That is possible for a directory that git does not see, or a file of git's own."""
    if one.kind == "entry" or exists(one.path):
        return one.kind != "entry"
    directory = one.path.parent
    is_unseen = one.kind == "directory" or exists(directory / "HEAD")
    return is_unseen and is_directory(directory) and os.access(directory, os.W_OK)


def _block_session_sockets() -> None:
    """Cut off abstract sockets of the user's session, which a shared network would expose."""
    kernel.forbid_new_privileges()
    landlock_rules.restrict_scope()


def _create_memory_file(content: bytes, handles: ExitStack) -> int:
    handle = os.memfd_create("agentcli")
    handles.callback(os.close, handle)
    os.write(handle, content)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _join(words: Sequence[str]) -> bytes:
    """Return the words as in /proc/PID/cmdline."""
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _end(command: _Command, process: "Popen[bytes]") -> tuple[str, ...]:
    """Wait until the whole command is gone. Return a sentence if no command ran at all."""
    reported = read_status(command.status)
    os.close(command.status)
    if "child-pid" in reported:
        _end_namespace(reported["child-pid"], command.words)
    was_killed = process.returncode is None or process.returncode < 0
    if "exit-code" in reported or was_killed:
        return ()
    return ("Nothing was run: there is no such program, or the sandbox could not be set up.",)


def _end_namespace(first: int, words: Sequence[str]) -> None:
    """Kill the first process of a namespace. The kernel then ends the rest, which takes a moment.

    That process dies with its parent, but not if the parent was killed before it could ask for it.
    """
    ours = _join(words)
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
