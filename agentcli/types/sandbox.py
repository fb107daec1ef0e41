"""The interface of a sandbox: what starts commands in it, and the hosts that they reach."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants

if TYPE_CHECKING:
    from socket import socket
    from subprocess import Popen


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryFiles:
    """The temporary files of commands, which are theirs alone."""

    root: Path
    """A directory that commands may fill, and that none of them can replace."""
    at: Path
    """The directory of the files: `root`, or one in it."""
    names: tuple[Path, ...]
    """The paths by which commands know it."""


class Sandbox(Protocol):
    """Starts processes in a sandbox. Must not start them unconfined if it cannot confine them."""

    @property
    def name(self) -> str: ...

    @property
    def temporary(self) -> TemporaryFiles: ...

    @property
    def has_process_namespace(self) -> bool:
        """True if each command has a namespace of processes, in which it sees only its own."""
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        grants: Grants,
        stdin: int = ...,
        stderr: int = ...,
        waits: bool = ...,
    ) -> "Popen[bytes]":
        """Run argv in a session of its own, with these handles for its streams.

        By default stdin is empty and stderr is joined to `stdout`. Takes a few milliseconds,
        the first time more. May be called from any thread.

        If `waits` is True, the process does nothing until it gets its command. Its caller must
        call `supervise` just before that.
        """
        ...

    def supervise(self, process: "Popen[bytes]") -> bool:
        """Supervise a process that waited, from now on, like any process that was started.

        Return False if what it was confined to has changed, so that it may not get a command.
        """
        ...

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        """Clean up after a process. Call once for each, after it was waited for, from any thread.

        Undo what the command was not allowed to change. Return sentences about it for the model and
        the user, and the reason if the sandbox stopped the command.
        """
        ...

    @property
    def reaches_sockets(self) -> bool:
        """True if commands can connect to a unix socket in a directory that they may read."""
        ...

    def listen(self) -> "socket | None":
        """Return a socket that listens where commands can connect, but for the whole network.

        None if hosts cannot be granted one by one here. Called once, before the first command
        that needs it; the caller closes it.
        """
        ...

    def close(self) -> None:
        """End the sandbox with the session: nothing can be started any more."""
        ...


RunProbe: TypeAlias = Callable[[Sandbox, str, Path], str]
"""Runs a line of shell in a sandbox, in a directory, and returns what it prints.

That is an empty line if the sandbox holds, as far as the line can tell."""


PROBE_PASSED = "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandChannels:
    """The ways by which one command reaches what it is granted outside."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """By these its programs find the proxy, the credentials of git, and the ssh agent."""
    readable: tuple[Path, ...] = ()
    """A directory with a socket of ours, for this command alone."""


class HostLeases(Protocol):
    """The hosts that commands reach: each command by its own token, and only while it runs.

    Everything is called in the thread of the event loop, unless stated otherwise.
    """

    def prepare(self, grants: Grants = NO_GRANTS) -> None:
        """Listen for commands, and for one with these grants.

        Takes a few milliseconds the first time, then nothing. May be called from any thread; in
        another than that of the event loop, nobody is answered before the first command begins."""
        ...

    def create_token(self) -> str:
        """May be called from any thread."""
        ...

    def open(self, token: str, grants: Grants) -> CommandChannels:
        """Return the ways of the command with this token. They lead nowhere before it begins.

        May be called from any thread, unless credentials are granted."""
        ...

    def begin(self, token: str, *, call_id: str, grants: Grants) -> None:
        """Let the command with this token reach what its grants say, from now on."""
        ...

    def end(self, token: str) -> tuple[str, ...]:
        """Cut the command's connections. Return sentences for the model on what was refused.

        Also for a command that never began."""
        ...

    def close(self) -> None:
        """Cut all connections, with the session."""
        ...
