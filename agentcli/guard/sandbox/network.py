"""One private network for the commands of a session: what one of them serves, the next can reach.

It has nothing but its own loopback. Root makes one and enters it in the thread that starts
bubblewrap. Anybody else needs a process for that: bubblewrap makes networks but cannot enter one
that is there, so the first is made by a process that does nothing else, and entered by `nsenter`
before bubblewrap begins. The handles alone keep it, and no command gets them.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, call

from agentcli.guard.sandbox import kernel

_NSENTER = Path("/usr/bin/nsenter")
_BASH = Path("/bin/bash")
_HOLDER = ("--unshare-user", "--unshare-net", "--die-with-parent", "--ro-bind", "/", "/")
_ECHO = b"\n"


@dataclass(frozen=True, slots=True)
class PrivateNetwork:
    network: int
    owner: int | None = None
    """To whom it belongs; None: to root, that is to us."""

    def enter(self) -> None:
        """The calling thread, if it can."""
        if self.owner is None:
            kernel.enter_network(self.network)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """For `words`."""
        return () if self.owner is None else (self.network, self.owner)

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before those of a program that is to be in it, started by such a thread."""
        if self.owner is None:
            return ()
        entered = (f"--net=/proc/self/fd/{self.network}", f"--user=/proc/self/fd/{self.owner}")
        # Privileged: it shall run nothing that the environment names.
        leaving = f'exec {self.network}<&- {self.owner}<&-; exec "$@"'
        left = (str(_BASH), "-p", "-c", leaving, "bash")
        return (str(_NSENTER), *entered, "--preserve-credentials", "--", *left)

    def close(self) -> None:
        os.close(self.network)
        if self.owner is not None:
            os.close(self.owner)


def make_private_network(bubblewrap: Path) -> PrivateNetwork | None:
    """None: there cannot be one here, so that each command needs its own."""
    if os.geteuid() == 0:
        network = kernel.make_private_network()
        return None if network is None else PrivateNetwork(network)
    if not (_NSENTER.exists() and _BASH.exists()):
        return None
    made = _made_by(bubblewrap)
    if made and not _can_enter(made):
        made.close()
        return None
    return made


def _made_by(bubblewrap: Path) -> PrivateNetwork | None:
    status, status_writer = os.pipe()
    options = (*_HOLDER, "--json-status-fd", str(status_writer), "--", "/bin/cat")
    try:
        with Popen(
            [str(bubblewrap), *options],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            pass_fds=(status_writer,),
            bufsize=0,
        ) as holder:
            os.close(status_writer)
            return _taken(holder, status)
    finally:
        os.close(status)


def _can_enter(network: PrivateNetwork) -> bool:
    return call([*network.words, "/bin/true"], pass_fds=network.descriptors, stderr=DEVNULL) == 0


def _taken(holder: "Popen[bytes]", status: int) -> PrivateNetwork | None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        holder.stdin.write(_ECHO)  # comes back once everything is set up
        if holder.stdout.read(1) != _ECHO:
            return None
        pid = json.loads(os.read(status, 4096).splitlines()[0])["child-pid"]
        return PrivateNetwork(_opened(f"/proc/{pid}/ns/net"), _opened(f"/proc/{pid}/ns/user"))
    except (OSError, ValueError, LookupError):
        return None
    finally:
        holder.stdin.close()


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
