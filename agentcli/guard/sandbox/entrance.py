"""The way into namespaces of which nothing is left but handles.

Bubblewrap makes namespaces but enters none, so whoever starts it has to be inside already. Root's
launcher enters them itself. Nobody else can, because a thread cannot become another user: there
`nsenter` stands before bubblewrap. The handles alone keep the namespaces. What inherits them must
close them before it becomes a command.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import PIPE, Popen

from agentcli.guard.sandbox import kernel

_NSENTER = "/usr/bin/nsenter"
_HOLDER = ("--", "/bin/cat")
_ECHO = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    owner: int | None = None
    """The users to whom the others belong; None: to root, that is to us."""
    network: int | None = None
    mounts: int | None = None

    def enter(self) -> None:
        """The calling thread, if it can; it does not come back."""
        if self.owner is None:
            if self.network is not None:
                kernel.enter_network(self.network)
            if self.mounts is not None:
                kernel.enter_view(self.mounts)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """For `words`."""
        if self.owner is None:
            return ()
        return tuple(one for one in self._namespaces.values() if one is not None)

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before those of a program that is to be inside, started by such a thread."""
        if self.owner is None:
            return ()
        namespaces = self._namespaces.items()
        entered = [f"--{kind}=/proc/self/fd/{one}" for kind, one in namespaces if one is not None]
        return (_NSENTER, *entered, "--preserve-credentials", "--")

    @property
    def _namespaces(self) -> dict[str, int | None]:
        return {"user": self.owner, "net": self.network, "mount": self.mounts}

    def close(self) -> None:
        for handle in self._namespaces.values():
            if handle is not None:
                os.close(handle)


def namespaces_of(
    bubblewrap: Sequence[str], *names: str, pass_fds: Sequence[int] = ()
) -> tuple[int, ...]:
    """Has them made by bubblewrap, with these options; OSError with its reason if it cannot.

    It starts a program that only shows that everything is set up, and ends then, or with us. Were
    it to be killed with us instead, half set up, a part of it would wait for the other for ever.
    So it writes its status to memory: a pipe would break with us, and kill it. It gets no variable
    of ours, since nothing that outlives us may hold a secret.
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
        with holder:
            return _take_handle(holder, status, names)
    finally:
        os.close(status)


def _take_handle(holder: "Popen[bytes]", status: int, names: Sequence[str]) -> tuple[int, ...]:
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        with suppress(BrokenPipeError):  # it will have said why
            holder.stdin.write(_ECHO)
        if holder.stdout.read(1) != _ECHO:
            raise OSError(holder.stderr.read().decode(errors="replace").strip())
        pid = json.loads(os.pread(status, 4096, 0).splitlines()[0])["child-pid"]
        return _open([f"/proc/{pid}/ns/{name}" for name in names])
    finally:
        holder.stdin.close()


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
