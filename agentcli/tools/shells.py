"""Shells that wait, each in its sandbox, for a command that is not known yet.

Making a sandbox takes longer than most commands, and there is time for it while a model thinks.
This decides nothing about a call: a shell must be exactly where the command belongs, with exactly
the grants of the command. Otherwise it is thrown away and another one is started. Hosts are reached
from the moment a command is taken until it is finished, and never by a shell that waits.
"""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from threading import Timer
from typing import Protocol

from agentcli.system import process, process_tree
from agentcli.system.environment import UNATTENDED
from agentcli.tools.command_line import ShellHandle, ShellNote, build_shell_argv
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.sandbox import PROBE_PASSED, CommandChannels, HostLeases, Sandbox

_AHEAD = 2
"""The number of waiting shells; a fast model is back before one is ready, or wants two commands.

After the first command it is one: in many sessions there is no other."""
_LEAVE_S = 2.0
_PROBE_LIMIT_S = 10.0
_FIRST_S = 1.0
"""How long a first shell waits for a call. Others see the placeholders of its sandbox meanwhile."""


class NewTag(Protocol):
    def __call__(self, *, confined: bool) -> str:
        """Return a tag for the processes of a command, which may run in a sandbox."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSetup:
    """The directory of a shell, and what it may reach."""

    cwd: Path
    directory: tuple[int, int]
    """The device and inode of the directory, whatever its name."""
    grants: Grants

    @classmethod
    def from_directory(cls, cwd: Path, grants: Grants) -> "ShellSetup":
        found = cwd.stat()
        return cls(cwd=cwd, directory=(found.st_dev, found.st_ino), grants=grants)


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledShell:
    setup: ShellSetup
    tag: str
    child: "Popen[bytes]"
    output: int
    """The reading end of its output."""
    handle: ShellHandle
    token: str
    """The token of its lease, by which its programs reach hosts; empty if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellEnd:
    note: ShellNote | None
    """The note of the shell itself; None if it sent none. Commands can fake it."""
    remarks: tuple[str, ...]
    """Sentences of the sandbox, and of what the command was refused."""


class ShellPool:
    """A pool for use from one thread; the next shells are made in another."""

    def __init__(
        self,
        *,
        directory: Path,
        sandbox: Sandbox | None,
        new_tag: NewTag,
        environment: Callable[[str, Grants], dict[str, str]],
        leases: HostLeases | None = None,
    ) -> None:
        """`directory` holds commands and their outputs; `environment` returns the one for a tag.

        `leases` let commands reach granted hosts; None if there is no sandbox to reach them from.
        """
        self.directory = Path(os.path.realpath(directory))
        """The directory of the commands' files and outputs."""
        self.sandbox = sandbox
        self.are_confined = sandbox is not None
        self.have_namespaces = sandbox is not None and sandbox.has_process_namespace
        """True if each has a namespace of processes, unless it is outside the sandbox."""
        self._new_tag = new_tag
        self._environment = environment
        self._leases = leases
        self._waiting: deque[Future[PooledShell]] = deque()
        self._taken = 0
        """The number of commands so far."""
        self._due: asyncio.Handle | None = None
        """The scheduled start of more shells."""
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="shells ahead")

    def take(
        self,
        cwd: Path,
        grants: Grants,
        *,
        call_id: str,
        notes_directory: bool,
        credentials: Mapping[str, str] | None = None,
        on_terminal: bool = False,
    ) -> PooledShell:
        """Return a shell for one command, to run at once; raise OSError if none starts.

        The sandbox supervises it from now on, and it may reach the hosts that are granted.
        A shell that does not note its directory is not made ahead: few are requested. With
        `on_terminal` its input and output are a new terminal, and somebody answers its questions.
        """
        self._taken += 1
        shell = self._find_shell(
            ShellSetup.from_directory(cwd, grants),
            credentials or {},
            notes_directory=notes_directory,
            on_terminal=on_terminal,
        )
        if self._leases is not None:
            self._leases.begin(shell.token, call_id=call_id, grants=grants)
        return shell

    def _find_shell(
        self,
        setup: ShellSetup,
        credentials: Mapping[str, str],
        *,
        notes_directory: bool,
        on_terminal: bool,
    ) -> PooledShell:
        while self._waiting and notes_directory:
            started = self._waiting.popleft()
            if shell := self._match(started, setup):
                return shell
            self._dismiss(started)
        return self._start(
            setup,
            credentials,
            notes_directory=notes_directory,
            waits=False,
            on_terminal=on_terminal,
        )

    def prove(self, probe: str, cwd: Path) -> str:
        """Run a line of shell in the first shell, which then waits for the first command.

        Return what the line prints. If it does not pass, the shell is ended."""
        setup = ShellSetup.from_directory(cwd, Grants())
        shell = self._start(setup, {}, notes_directory=True, waits=True, probe=probe)
        passed = PROBE_PASSED.encode()
        said = process.read_answer(shell.output, passed, within_s=_PROBE_LIMIT_S)
        first: Future[PooledShell] = Future()
        first.set_result(shell)
        if said == passed:
            self._waiting.append(first)
        else:
            process_tree.signal_group(shell.child.pid, process_tree.KILL)
            self._dismiss_started(first)
        return said.decode("utf-8", "replace")

    def prepare_first(self, cwd: Path, grants: Grants) -> None:
        """Start the first shells in their sandboxes, while a command is judged.

        The one that proved the sandbox is enough, if it has these grants."""
        is_ready = any(_may_have(grants, started) for started in tuple(self._waiting))
        if self.sandbox is not None and _may_wait(grants) and not is_ready:
            self.stop_spares()
            self._start_spares(cwd, grants)

    def stop_unused(self) -> None:
        """End the waiting shells after a moment, unless commands take them before."""
        for started in tuple(self._waiting):
            timer = Timer(_FIRST_S, self._stop_if_waiting, [started])
            timer.daemon = True
            timer.start()

    def _stop_if_waiting(self, started: "Future[PooledShell]") -> None:
        with suppress(ValueError):  # it is taken
            self._waiting.remove(started)
            self._dismiss(started)

    def prepare(self, cwd: Path, grants: Grants) -> None:
        """Schedule the next shells, while nothing waits for them.

        Not before there is nothing else to do: starting a process holds up all threads, and the
        request to the model comes first.
        """
        if _may_wait(grants):
            self._due = asyncio.get_running_loop().call_soon(self._start_spares, cwd, grants)

    def _start_spares(self, cwd: Path, grants: Grants) -> None:
        while len(self._waiting) < min(max(self._taken, 1), _AHEAD):
            self._waiting.append(self._maker.submit(self._start_ahead, cwd, grants))

    def finish(self, shell: PooledShell) -> ShellEnd:
        """Clean up after a shell that has ended; return what is said of it."""
        note = shell.handle.close()
        refused = self._leases.end(shell.token) if self._leases else ()
        sandbox = self._choose_sandbox(shell.setup)
        undone = sandbox.finish(shell.child) if sandbox else ()
        return ShellEnd(note=note, remarks=(*undone, *refused))

    def stop_spares(self) -> None:
        """End the waiting shells, without waiting for that."""
        if self._due is not None:
            self._due.cancel()
        while self._waiting:
            self._dismiss(self._waiting.popleft())

    def abandon(self, shell: PooledShell) -> None:
        """End a shell that could not be given its command."""
        if self._leases:
            self._leases.end(shell.token)
        shell.handle.close()
        self._maker.submit(self._end, shell)

    def close(self) -> None:
        self.stop_spares()
        self._maker.shutdown()

    def _match(self, started: "Future[PooledShell]", setup: ShellSetup) -> PooledShell | None:
        """Return the shell if it has this setup, is alive, and its sandbox is unchanged."""
        if started.cancel() or started.exception():
            return None
        shell = started.result()
        if shell.setup != setup or shell.child.poll() is not None:
            return None
        return shell if not self.sandbox or self.sandbox.supervise(shell.child) else None

    def _choose_sandbox(self, setup: ShellSetup) -> Sandbox | None:
        return None if setup.grants.outside else self.sandbox

    def _dismiss(self, started: "Future[PooledShell]") -> None:
        if not started.cancel():
            self._maker.submit(self._dismiss_started, started)

    def _dismiss_started(self, started: "Future[PooledShell]") -> None:
        if started.exception():
            return  # a command that needs a shell will report why there is none
        shell = started.result()
        shell.handle.close()
        os.close(shell.output)
        self._end(shell)

    def _end(self, shell: PooledShell) -> None:
        try:
            shell.child.wait(_LEAVE_S)
        except TimeoutExpired:
            process_tree.signal_group(shell.child.pid, process_tree.KILL)
            shell.child.wait()
        self.finish(shell)

    def _start_ahead(self, cwd: Path, grants: Grants) -> PooledShell:
        return self._start(
            ShellSetup.from_directory(cwd, grants), {}, notes_directory=True, waits=True
        )

    def _start(
        self,
        setup: ShellSetup,
        credentials: Mapping[str, str],
        *,
        notes_directory: bool,
        waits: bool,
        on_terminal: bool = False,
        probe: str = "",
    ) -> PooledShell:
        sandbox = self._choose_sandbox(setup)
        tag = self._new_tag(confined=sandbox is not None)
        token, channels = self._open_lease(setup.grants)
        handle = ShellHandle(self.directory / f"{tag}sh")
        with ExitStack() as undo, ExitStack() as given:
            if self._leases is not None:
                undo.callback(self._leases.end, token)
            undo.callback(handle.close)
            given.callback(handle.shell_end.close)
            output, stdout = process.open_terminal() if on_terminal else os.pipe()
            undo.callback(os.close, output)
            given.callback(os.close, stdout)
            argv = build_shell_argv(
                handle.command_file,
                notes_directory=notes_directory,
                has_namespace=sandbox is not None and sandbox.has_process_namespace,
                terminal=_name_terminal(stdout) if on_terminal else "",
                probe=probe,
            )
            variables = self._environment(tag, setup.grants)
            if on_terminal:
                variables = {key: variables[key] for key in variables if key not in UNATTENDED}
            child = process.start_sandboxed(
                sandbox,
                argv,
                cwd=setup.cwd,
                env={**variables, **credentials, **channels.variables},
                stdin=handle.shell_end.fileno(),
                stdout=stdout,
                grants=setup.grants | Grants(readable=channels.readable),
                waits=waits,
            )
            undo.pop_all()
        return PooledShell(
            setup=setup,
            tag=tag,
            child=child,
            output=output,
            handle=handle,
            token=token,
        )

    def _open_lease(self, grants: Grants) -> tuple[str, CommandChannels]:
        if self._leases is None:
            return "", CommandChannels()
        self._leases.prepare(grants)
        token = self._leases.create_token()
        return token, self._leases.open(token, grants)


def _may_have(grants: Grants, started: "Future[PooledShell]") -> bool:
    """Return whether a shell has these grants, as far as it is known by now."""
    if not started.done():
        return True
    return not started.exception() and started.result().setup.grants == grants


def _may_wait(grants: Grants) -> bool:
    """Return whether a shell may wait with these grants: not outside, nor with credentials."""
    return not grants.outside and not grants.credentials


def _name_terminal(terminal: int) -> str:
    """Return a path by which a command opens the terminal that is its output.

    On Linux the path itself may not exist in a sandbox."""
    return "/proc/self/fd/1" if sys.platform == "linux" else os.ttyname(terminal)
