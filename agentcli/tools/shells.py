"""Shells that wait, each in its sandbox, for a command that nobody knows yet.

To make a sandbox takes longer than most commands do, and while a model thinks there is time for it.
Nothing of a call is decided by that: a shell that is not exactly where the command belongs, and
confined as the command must be, is thrown away, and another one is started.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen, TimeoutExpired

from agentcli.machine import process, tree
from agentcli.machine.shell import Leash, Script, prepare
from agentcli.types.verdicts import Confinement, Sandbox

_AHEAD = 2
"""A model that answers at once is back before one shell is ready; and some ask for two commands."""
_LEAVE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Where a shell stands, and what it may reach."""

    cwd: Path
    directory: tuple[int, int]
    """Which one it is, whatever its name."""
    confinement: Confinement

    @classmethod
    def at(cls, cwd: Path, confinement: Confinement) -> "Post":
        found = cwd.stat()
        return cls(cwd=cwd, directory=(found.st_dev, found.st_ino), confinement=confinement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    post: Post
    mark: str
    script: Script
    child: "Popen[bytes]"
    output: int
    """The reading end of what it will print."""
    leash: Leash

    def let_go(self, command: bytes) -> None:
        """OSError: it could not be."""
        self.script.write(command)
        self.leash.let_go()


class Shells:
    """May be used from one thread; the next shells are made in another."""

    def __init__(
        self,
        *,
        directory: Path,
        sandbox: Sandbox | None,
        new_mark: Callable[[], str],
        environment: Callable[[str], dict[str, str]],
    ) -> None:
        """`directory` is for the files of commands; `environment` has that of a mark."""
        self._directory = directory.resolve()
        self._sandbox = sandbox
        self._new_mark = new_mark
        self._environment = environment
        self._waiting: deque[Future[Shell]] = deque()
        self._due: asyncio.Handle | None = None
        """More are to be made."""
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="shells ahead")

    @property
    def are_confined(self) -> bool:
        return self._sandbox is not None

    def take(self, post: Post, *, notes_directory: bool) -> Shell:
        """One to let go at once, looked after by the sandbox from now on; OSError if none starts.

        A shell that does not note its directory is not made ahead: few are asked for.
        """
        while self._waiting and notes_directory:
            started = self._waiting.popleft()
            if shell := self._fit(started, post):
                return shell
            self._dismiss(started)
        return self._start(post, notes_directory=notes_directory, waits=False)

    def prepare(self, cwd: Path, confinement: Confinement) -> None:
        """Has the next ones made, while nobody waits for them.

        Not before there is nothing else to do: to start a process holds up all threads, and what
        comes first is to ask the model.
        """
        self._due = asyncio.get_running_loop().call_soon(self._have_made, cwd, confinement)

    def _have_made(self, cwd: Path, confinement: Confinement) -> None:
        while len(self._waiting) < _AHEAD:
            self._waiting.append(self._maker.submit(self._start_ahead, cwd, confinement))

    def finish(self, shell: Shell) -> tuple[str, ...]:
        """Clears up after one that has ended; what the sandbox has to say of it."""
        shell.script.remove()
        shell.leash.close()
        return self._sandbox.finish(shell.child) if self._sandbox else ()

    def rest(self) -> None:
        """Has those that wait sent away, without waiting for it."""
        if self._due is not None:
            self._due.cancel()
        while self._waiting:
            self._dismiss(self._waiting.popleft())

    def abandon(self, shell: Shell) -> None:
        """One that could not be let go."""
        shell.leash.close()
        self._maker.submit(self._see_off, shell)

    def close(self) -> None:
        self.rest()
        self._maker.shutdown()

    def _fit(self, started: "Future[Shell]", post: Post) -> Shell | None:
        """The shell, if it was started there, lives, and its sandbox is still what it was."""
        if started.cancel() or started.exception():
            return None
        shell = started.result()
        if shell.post != post or shell.child.poll() is not None:
            return None
        return shell if not self._sandbox or self._sandbox.attend(shell.child) else None

    def _dismiss(self, started: "Future[Shell]") -> None:
        if not started.cancel():
            self._maker.submit(self._sent_away, started)

    def _sent_away(self, started: "Future[Shell]") -> None:
        if started.exception():
            return  # a command that needs a shell will say why there is none
        shell = started.result()
        shell.leash.close()
        os.close(shell.output)
        self._see_off(shell)

    def _see_off(self, shell: Shell) -> None:
        try:
            shell.child.wait(_LEAVE_S)
        except TimeoutExpired:
            tree.tell_group(shell.child.pid, tree.KILL)
            shell.child.wait()
        self.finish(shell)

    def _start_ahead(self, cwd: Path, confinement: Confinement) -> Shell:
        return self._start(Post.at(cwd, confinement), notes_directory=True, waits=True)

    def _start(self, post: Post, *, notes_directory: bool, waits: bool) -> Shell:
        mark = self._new_mark()
        script = prepare(directory=self._directory, name=mark, notes_directory=notes_directory)
        leash = Leash()
        with ExitStack() as undo, ExitStack() as given:
            undo.callback(leash.close)
            given.callback(leash.shell_end.close)
            output, stdout = os.pipe()
            undo.callback(os.close, output)
            given.callback(os.close, stdout)
            child = process.start_in(
                self._sandbox,
                script.argv,
                cwd=post.cwd,
                env=self._environment(mark),
                stdin=leash.shell_end.fileno(),
                stdout=stdout,
                confinement=post.confinement,
                waits=waits,
            )
            undo.pop_all()
        return Shell(post=post, mark=mark, script=script, child=child, output=output, leash=leash)
