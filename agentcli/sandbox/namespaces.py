"""Namespaces that are kept by their handles: a private network, and mounts that are made once.

Most of what bubblewrap does is to mount. So it mounts once for all commands of a session with the
same grants, and each command is started in those mounts. Root enters them by a thread; an ordinary
user needs `nsenter`, since only a process without other threads can enter a user namespace.
"""

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, call
from threading import Lock, Thread

from agentcli.sandbox import kernel
from agentcli.sandbox.mounts import MountState, MountView
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants

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

    def wrap_command(self, argv: Sequence[str]) -> list[str]:
        """Return the command, with a shell before it that closes the descriptors and becomes it."""
        if not self.descriptors:
            return list(argv)
        steps = [f"exec {one}<&-" for one in self.descriptors]
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
        return _open([f"/proc/{pid}/ns/{name}" for name in names])
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


def _open(paths: Sequence[str]) -> tuple[int, ...]:
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
