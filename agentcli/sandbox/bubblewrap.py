"""Layer 1, bubblewrap: a file system view, namespaces and a system call filter per command.

Most of what bubblewrap does is to mount. So it mounts once for all commands of a session with the
same grants, and each command is started in those mounts. Root enters them by a thread; an ordinary
user needs `nsenter`, since only a process without other threads can enter a user namespace.
"""

import json
import os
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from select import select
from subprocess import DEVNULL, PIPE, STDOUT, Popen, call
from threading import Lock, Thread

from agentcli.sandbox import kernel, landlock_rules, seccomp
from agentcli.sandbox.kernel import Launcher
from agentcli.sandbox.limits import CommandLimits
from agentcli.sandbox.mounts import MountState, MountStates, MountView
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
        network: "Entrance | None",
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
        self._mounting = Lazy(partial(launch, name="bubblewrap launcher without kept mounts"))
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
        for launcher in (self._launcher.made, self._inside.made, self._mounting.made):
            if launcher is not None:
                launcher.close()
        self._namespaces.close()
        self._mount_states.close()
        if self._network:
            self._network.close()
            self._network = None

    @contextmanager
    def _open_entrance(
        self, grants: Grants, mounted: MountState, *, keeps_mounts: bool
    ) -> "Iterator[Entrance]":
        if keeps_mounts:
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
        # Bubblewrap gives a terminal a name only where it makes the devices itself.
        keeps_mounts = self.keeps_mounts and not os.isatty(stdio[1])
        options = [
            *(mounts.options_kept if keeps_mounts else mounts.options),
            *(word for name in loaders for word in ("--setenv", name, variables.pop(name))),
            *("--chdir", str(cwd)),
            *("--json-status-fd", str(status)),
        ]
        try:
            opened = self._open_entrance(grants, mounted, keeps_mounts=keeps_mounts)
            with ExitStack() as handles, opened as entrance:
                filter_file = _create_memory_file(seccomp.build_program(_FILTER), handles)
                options_file = _create_memory_file(
                    _join([*options, "--seccomp", str(filter_file)]), handles
                )
                # Bubblewrap keeps its own streams open, whatever the command does with them.
                stdout = None if stdio[2] == STDOUT else stdio[1]
                command = entrance.wrap_command(argv, stdout=stdout)
                words = [str(self._program), "--args", str(options_file), "--", *command]
                start = partial(
                    process.start,
                    [*entrance.words, *words],
                    cwd=Path("/"),
                    env=variables,
                    stdin=stdio[0],
                    stdout=stdio[1] if stdout is None else stdio[2],
                    stderr=stdio[2],
                    pass_fds=(
                        *(status, filter_file, options_file),
                        *entrance.descriptors,
                        *(() if stdout is None else (stdout,)),
                    ),
                )
                launcher = self._inside if entrance.network is not None else self._launcher
                if self.keeps_mounts and not keeps_mounts:
                    launcher = self._mounting  # the other threads may be in kept mounts for good
                started = launcher.get().start(partial(_start_inside, entrance, start))
        except BaseException:
            os.close(status)
            raise
        self._commands[started] = _Command(grants, mounted, status, tuple(words))
        return started


def _start_inside(entrance: "Entrance", start: Callable[[], "Popen[bytes]"]) -> "Popen[bytes]":
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


# Namespaces that are kept by their handles: a private network, and mounts that are made once.


_NSENTER = "/usr/bin/nsenter"
_SHELL = ("/bin/bash", "-p", "-c")
_HOLDER = ("--", "/bin/cat")
_ECHO = b"\n"
_STATUS_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    owner: int | None = None
    """The user namespace that owns the others. None if root owns them, which is us."""
    network: int | None = None
    mounts: int | None = None

    def enter(self) -> None:
        """Move the calling thread inside, if it can. It cannot come back."""
        if self.owner is None:
            if self.network is not None:
                kernel.enter_network(self.network)
            if self.mounts is not None:
                kernel.enter_view(self.mounts)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The file descriptors that `words` needs."""
        if self.owner is None:
            return ()
        return tuple(one for one in self._namespaces.values() if one is not None)

    @property
    def words(self) -> tuple[str, ...]:
        """The prefix of a program that is to be inside; empty if `enter` moved the thread there."""
        if self.owner is None:
            return ()
        namespaces = self._namespaces.items()
        entered = [f"--{kind}=/proc/self/fd/{one}" for kind, one in namespaces if one is not None]
        return (_NSENTER, *entered, "--preserve-credentials", "--")

    @property
    def _namespaces(self) -> dict[str, int | None]:
        return {"user": self.owner, "net": self.network, "mount": self.mounts}

    def wrap_command(self, argv: Sequence[str], *, stdout: int | None = None) -> list[str]:
        """Return the command, with a shell before it that closes the descriptors and becomes it.

        With `stdout`, a descriptor, only the command holds it: its end is known when it closes."""
        steps = [f"exec {one}<&-" for one in self.descriptors]
        if stdout is not None:
            steps.append(f"exec 1>&{stdout} {stdout}>&-")
        if not steps:
            return list(argv)
        # Privileged mode: it must run nothing that the environment names.
        return [*_SHELL, " && ".join((*steps, 'exec "$@"')), "bash", *argv]

    def close(self) -> None:
        for handle in self._namespaces.values():
            if handle is not None:
                os.close(handle)


def open_namespaces(
    bubblewrap: Sequence[str], *names: str, pass_fds: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return handles to namespaces that bubblewrap creates. Raise OSError with its reason.

    It starts a program that only shows that everything is set up, and ends then, or with us. If it
    were killed with us while half set up, one part of it would wait for the other for ever. So it
    writes its status to memory: a pipe would break with us, and kill it. It gets no variable of
    ours, since nothing that outlives us may hold a secret.
    """
    status = os.memfd_create("agentcli-status")
    words = [*bubblewrap, "--json-status-fd", str(status), *_HOLDER]
    try:
        holder = Popen(
            words,
            env={},
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            pass_fds=(status, *pass_fds),
            bufsize=0,
            start_new_session=True,
        )
        try:
            return _take_handle(holder, status, names=names)
        finally:
            Thread(target=holder.wait, daemon=True, name="end of a holder").start()
    finally:
        os.close(status)


def _take_handle(holder: "Popen[bytes]", status: int, *, names: Sequence[str]) -> tuple[int, ...]:
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        with suppress(BrokenPipeError):  # stderr says why
            holder.stdin.write(_ECHO)
        if holder.stdout.read(1) != _ECHO:
            holder.stdin.close()  # it ends, if it has not yet
            raise OSError(holder.stderr.read().decode(errors="replace").strip())
        pid = read_status(status)["child-pid"]
        return _open_all([f"/proc/{pid}/ns/{name}" for name in names])
    finally:
        for stream in (holder.stdin, holder.stdout, holder.stderr):
            stream.close()


def read_status(memory: int) -> dict[str, int]:
    """Return the numbers that bubblewrap has written to a memory file so far, by their names."""
    reported: dict[str, int] = {}
    for line in os.pread(memory, _STATUS_BYTES, 0).splitlines():
        with suppress(ValueError):  # a line that is not whole
            values = json.loads(line).items()
            reported |= {key: value for key, value in values if type(value) is int}
    return reported


def _open_all(paths: Sequence[str]) -> tuple[int, ...]:
    handles: list[int] = []
    try:
        for path in paths:
            handles.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        for handle in handles:
            os.close(handle)
        raise
    return tuple(handles)


# One private network for the commands of a session: one command can reach another's servers.


_ROOT_THERE = ("--unshare-user", "--uid", "0", "--gid", "0")
_NETWORK_HOLDER = (*_ROOT_THERE, "--unshare-net", "--ro-bind", "/", "/")


def make_private_network(bubblewrap: Path) -> Entrance | None:
    """Return a private network, or None if there cannot be one: then each command needs its own."""
    if os.geteuid() == 0:
        network = kernel.make_private_network()
        return None if network is None else Entrance(network=network)
    try:
        network, owner = open_namespaces([str(bubblewrap), *_NETWORK_HOLDER], "net", "user")
    except OSError:
        return None
    made = Entrance(owner=owner, network=network)
    if not _can_be_entered(made):
        made.close()
        return None
    return made


def _can_be_entered(network: Entrance) -> bool:
    words = [*network.words, *network.wrap_command(["/bin/true"])]
    try:
        return call(words, env={}, pass_fds=network.descriptors, stderr=DEVNULL) == 0
    except OSError:
        return False


# Mount namespaces created once, in which many commands are started.


_MOST_KEPT = 4
_CUT_OFF = ("/usr/bin/unshare", "--mount", "--propagation", "private")
"""Prefix that stops propagation: later mounts would appear inside, writable and with devices."""


class MountNamespaceCache:
    """A cache of mount namespaces by grants. It may be used from any thread."""

    def __init__(self, view: MountView, *, program: Path, network: Entrance | None) -> None:
        self._view = view
        self._program = program
        self._network = network or Entrance()
        self._made: OrderedDict[Grants, tuple[MountState, int]] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def open_entrance(self, grants: Grants, mounted: MountState) -> Iterator[Entrance]:
        """Yield an entrance to a namespace that fits `mounted`. Raise OSError if that fails."""
        with self._lock:
            network = None if grants.network else self._network.network
            mounts = self._find_namespace(grants, mounted)
            yield replace(self._network, network=network, mounts=mounts)

    def mount_ahead(self, grants: Grants, mounted: MountState) -> None:
        """Make the namespace, in a thread. The command that needs it waits, or meets the error."""

        def make() -> None:
            with suppress(OSError), self.open_entrance(grants, mounted):
                pass

        Thread(target=make, daemon=True, name="mounts ahead").start()

    def close(self) -> None:
        with self._lock:
            while self._made:
                self._drop_oldest()

    def _find_namespace(self, grants: Grants, mounted: MountState) -> int:
        state, handle = self._made.pop(grants, (None, -1))
        if state != mounted:
            if handle >= 0:
                os.close(handle)
            (handle,) = self._build(self._view.find_mounts(grants).namespace_options)
        self._made[grants] = mounted, handle
        if len(self._made) > _MOST_KEPT:
            self._drop_oldest()
        return handle

    def _drop_oldest(self) -> None:
        _, (_, handle) = self._made.popitem(last=False)
        os.close(handle)

    def _build(self, options: Sequence[str]) -> tuple[int, ...]:
        way = replace(self._network, network=None)
        words = [*way.words, *_CUT_OFF, str(self._program), *options]
        return open_namespaces(words, "mnt", pass_fds=way.descriptors)
