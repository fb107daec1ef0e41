"""bash: one command in a fresh shell, with bounded output and tracked processes."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import ClassVar, TypeAlias

from agentcli.system import process, process_tree
from agentcli.system.files import is_directory
from agentcli.system.grants import flatten_request, parse_request
from agentcli.system.output import (
    LOG_LIMIT_BYTES,
    BoundedOutput,
    BoundedSink,
    FilteredSink,
    LiveOutput,
    LogFiles,
    OutputFilter,
)
from agentcli.system.plain_text import show_controls
from agentcli.system.process import Pipe, ProcessEnd
from agentcli.system.process_table import ProcessTable
from agentcli.tools.arguments import (
    ArgumentFault,
    ArrayCheck,
    BuiltinArguments,
    SwitchCheck,
    TextCheck,
    WholeCheck,
    WrongValue,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.command_line import ShellCommand, ShellNote, find_fault, read_command
from agentcli.tools.contracts import load_spec
from agentcli.tools.kill import BackgroundKiller, find_killer, signal_directly
from agentcli.tools.missing_grants import (
    SCANNED_CHARS,
    explain_failure,
    explain_unsaved_settings,
)
from agentcli.tools.report import (
    CARD_TAIL_LINES,
    describe_pipe,
    explain_not_started,
    report_backgrounded,
    report_command,
    report_interrupted,
)
from agentcli.tools.shells import PooledShell, ShellPool
from agentcli.tools.terminals import KeptCommand, TerminalOutput, Terminals
from agentcli.types.deltas import CommandStarted
from agentcli.types.errors import ToolError
from agentcli.types.events import Emit, OutputStored
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.messages import Json
from agentcli.types.tools import (
    Command,
    Effect,
    ErrorKind,
    Output,
    ToolContext,
    ToolSpec,
    WorkingDirectory,
)

START_WAIT_S = 10.0
"""The longest wait for the first prompt of a command on a terminal."""
TAKEN_DOWN = "[what it left in the background ended with it; to keep it use background=true]"
LASTS_ONCE = "[this lasts for one command: put it before the next one, with &&]"

FindCredentials: TypeAlias = Callable[[Grants], Awaitable[Mapping[str, str]]]


def _check_needs(entries: list[str]) -> None:
    try:
        parse_request(entries)
    except ValueError as error:
        raise WrongValue(ArgumentFault(kind="needs", wanted=str(error), given=entries)) from None


_NEEDS = ArrayCheck(item=TextCheck(), read=flatten_request, accept=_check_needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class BashArgs(BuiltinArguments):
    command: str = field(metadata=declare_argument(TextCheck(is_filled=True), "e.g. pytest -q"))
    timeout: float = field(
        default=120,
        metadata=declare_argument(WholeCheck(least=1, most=600), "Seconds, e.g. 300; default 120"),
    )
    background: bool = field(
        default=False, metadata=declare_argument(SwitchCheck(), "e.g. true for a server")
    )
    terminal: bool = field(
        default=False, metadata=declare_argument(SwitchCheck(), "e.g. true for a debugger")
    )
    needs: list[str] = field(
        default_factory=list,
        metadata=declare_argument(_NEEDS, "Access to ask for, e.g. network:docs.example.org"),
    )

    aliases: ClassVar[dict[str, str]] = {
        "cmd": "command",
        "script": "command",
        "timeout_s": "timeout",
        "timeout_seconds": "timeout",
        "run_in_background": "background",
        "tty": "terminal",
        "pty": "terminal",
        "interactive": "terminal",
    }
    ignored: ClassVar[frozenset[str]] = frozenset({"description", "explanation"})
    advice: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("cwd", "workdir", "working_directory", "directory"), "begin the command with cd DIR &&"
        ),
        **dict.fromkeys(("env", "environment"), "begin the command with NAME=VALUE"),
    }

    @property
    def is_awaited(self) -> bool:
        """True if the call lasts until the command has ended."""
        return not (self.background or self.terminal)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingCommand:
    """One command that is about to run."""

    args: BashArgs
    timeout_s: float
    call_id: str
    cwd: Path
    notes: tuple[str, ...]
    """Notes for the model on how the command was started."""
    command: ShellCommand
    killer: BackgroundKiller | None
    """Ends background commands of the session for it, if it may want that."""
    grants: Grants
    credentials: Mapping[str, str]
    """The variables of the credentials that it is granted."""
    log_path: Path
    log_fd: int


class Bash:
    def __init__(
        self,
        *,
        workspace: Path,
        added: Callable[[], Grants] = lambda: NO_GRANTS,
        shells: ShellPool,
        processes: ProcessTable,
        find_credentials: FindCredentials | None = None,
        terminals: Terminals | None = None,
        declare_input: Callable[[], None] = lambda: None,
        directory: WorkingDirectory | None = None,
        proves_read: Callable[[str], bool] = lambda command: False,
        clean: Callable[[], OutputFilter] | None = None,
        timeout_limit_s: float | None = None,
        output_limit_bytes: int = LOG_LIMIT_BYTES,
        emit: Emit = lambda event: None,
    ) -> None:
        """`find_credentials` returns the variables of granted credentials, or raises OSError.
        `terminals` are those of the session; if None, the tool has its own. `declare_input` is
        called once there is one to send input to. `directory` is where the next command runs, and
        is moved by each; if None, the tool has its own. `proves_read` must be true only for a
        command that cannot change anything. `clean` makes a filter for each output. `emit` is told
        of outputs that end after their results."""
        self._root = Path(os.path.realpath(workspace))
        self._cwd = directory or WorkingDirectory(self._root)
        self._directory = ShellDirectory(self._cwd, root=self._root, added=added)
        self._shells = shells
        self._processes = processes
        self._find_credentials = find_credentials
        self._terminals = terminals or Terminals()
        self._declare_input = declare_input
        self._proves_read = proves_read
        self._clean = clean
        self._timeout_limit_s = timeout_limit_s
        self._output_limit_bytes = output_limit_bytes
        self._emit = emit
        self._logs = LogFiles(shells.directory)
        self._awaited = 0
        """The number of commands that calls wait for. The next shells can wait for their end."""

    @property
    def spec(self) -> ToolSpec:
        return load_spec("bash")

    def parse(self, raw: Json) -> BashArgs:
        args = parse_arguments(BashArgs, raw)
        if not args.command.strip():
            raise ToolError("Invalid input: command is blank.", kind=ErrorKind.INVALID_INPUT)
        if fault := find_fault(args.command, on_terminal=args.terminal):
            raise ToolError(f"Not run: {fault}", kind=ErrorKind.INVALID_INPUT)
        return args

    def effect(self, args: BashArgs) -> Effect:
        proven = args.is_awaited and self._proves_read(args.command)
        return Effect.READ if proven else Effect.EXECUTE

    async def preview(self, args: BashArgs, context: ToolContext) -> Command:
        return Command(command=args.command, cwd=str(self._cwd.path))

    async def run(self, args: BashArgs, context: ToolContext) -> Output:
        command = read_command(args.command, is_awaited=args.is_awaited)
        # Each command has its own processes: its `kill` would reach none of the others.
        is_cut_off = command.names_processes and self._shells.are_confined
        if is_cut_off and signal_directly(args.command, self._processes):
            details = Command(command=args.command, cwd=str(self._cwd.path), exit_code=0)
            return Output.of("[no output]\n[exit code 0]", details=details)
        if args.terminal:
            self._check_terminal(context.grants)
        killer = find_killer(self._processes) if is_cut_off and args.is_awaited else None
        call = await self._prepare(args, context, command=command, killer=killer)
        if args.terminal:
            return await self._keep_on_terminal(call, context.progress)
        if args.background:
            return self._start_in_background(call)
        return await self._run_to_the_end(call, context.progress)

    def _check_terminal(self, grants: Grants) -> None:
        """Raise ToolError if no terminal can be opened."""
        if grants.outside:
            raise ToolError(
                "Not run: a command outside the sandbox cannot be kept on a terminal. Run it "
                "without terminal=true."
            )
        self._terminals.check_number()

    async def _prepare(
        self,
        args: BashArgs,
        context: ToolContext,
        *,
        command: ShellCommand,
        killer: BackgroundKiller | None,
    ) -> _PendingCommand:
        try:
            credentials = await self._open_credentials(context.grants)
            notes = self._directory.return_if_lost()
            log_path, log_fd = self._logs.create()
        except OSError as error:
            raise _build_not_run_error(error) from error
        return _PendingCommand(
            args=args,
            timeout_s=min(args.timeout, self._timeout_limit_s or args.timeout),
            call_id=context.call_id,
            cwd=self._cwd.path,
            notes=notes,
            command=command,
            killer=killer,
            grants=context.grants,
            credentials=credentials,
            log_path=log_path,
            log_fd=log_fd,
        )

    async def _open_credentials(self, grants: Grants) -> Mapping[str, str]:
        """Return the variables of granted credentials. Outside, programs find the user's own."""
        is_open = grants.outside or not self._shells.are_confined
        if is_open or not grants.credentials or self._find_credentials is None:
            return {}
        return await self._find_credentials(grants)

    async def _run_to_the_end(
        self, call: _PendingCommand, progress: Callable[[str], None]
    ) -> Output:
        output = BoundedOutput(call.log_path, call.log_fd, limit_bytes=self._output_limit_bytes)
        live = LiveOutput(output, report=progress, lines=CARD_TAIL_LINES)
        # The end of a namespace is the end of all processes in it.
        may_leave_others = call.grants.outside or not self._shells.have_namespaces
        since_pid = process_tree.read_newest_pid() if may_leave_others else None
        detach = asyncio.Event()
        shell, pipe = self._start(call, live, detach=detach)
        began = time.monotonic()
        self._emit(CommandStarted(call_id=call.call_id, log_path=str(call.log_path)))
        if call.killer:
            shell.handle.answer_requests(call.killer.answer)
        self._awaited += 1
        try:
            ended = await process.run(
                shell.child,
                pipe=pipe,
                tag=shell.tag,
                timeout_s=call.timeout_s,
                since_pid=since_pid,
                may_leave_others=may_leave_others,
                detach=detach,
            )
        except process.Detached:
            ran_s = time.monotonic() - began
            self._watch(shell, pipe)
            self._seal_later(call, output, pipe=pipe)
            return report_backgrounded(
                call.args.command, output=output, cwd=call.cwd, ran_s=ran_s, pid=shell.child.pid
            )
        except asyncio.CancelledError:
            ran_s = time.monotonic() - began
            self._shells.finish(shell)
            self._processes.finish(shell.tag, left_running=(), pipe=pipe)
            self._seal_later(call, output, pipe=pipe)
            # The cancellation carries the output so far, for the record of the call.
            raise asyncio.CancelledError(
                report_interrupted(call.args.command, output=output, cwd=call.cwd, ran_s=ran_s)
            ) from None
        finally:
            self._awaited -= 1
            if call.killer:
                shell.handle.stop_answering()
            live.stop_progress()
        return self._report_end(call, ended, shell=shell, pipe=pipe, output=output)

    def _report_end(
        self,
        call: _PendingCommand,
        ended: ProcessEnd,
        *,
        shell: PooledShell,
        pipe: Pipe,
        output: BoundedOutput,
    ) -> Output:
        """Clean up after a command that has ended, and report it."""
        shell_end = self._shells.finish(shell)
        note = shell_end.note
        open_pipe = None if ended.has_whole_output else pipe
        left_running = self._processes.finish(
            shell.tag, left_running=ended.left_running, pipe=open_pipe
        )
        if open_pipe is not None:
            self._seal_later(call, output, pipe=open_pipe)
        has_left = bool(ended.left_running) or (note is not None and note.has_jobs)
        taken_down = has_left and not (left_running or ended.timed_out)
        notes = (
            *call.notes,
            *map("[{}]".format, shell_end.remarks),
            *([TAKEN_DOWN] if taken_down and self._shells.are_confined else []),
            *self._directory.follow(note, call.cwd),
        )
        if not self._awaited:
            self._shells.prepare(self._cwd.path, call.grants)
        pipe_codes = ""
        if note and note.pipe and ended.returncode == 0:
            pipe_codes = describe_pipe(call.command.pipe, note.pipe)
        if ended.returncode > 0 or pipe_codes:
            notes += self._explain_failure(output, call, exit_code=ended.returncode)
        elif call.command.only_sets_up:
            notes += (LASTS_ONCE,)
        elif self._shells.are_confined and "git" in call.args.command:
            notes += explain_unsaved_settings(_read_ends(output))
        return report_command(
            call.args.command,
            replace(ended, left_running=left_running),
            output=output,
            cwd=call.cwd,
            timeout_s=call.timeout_s,
            notes=notes,
            pipe=pipe_codes,
        )

    def _explain_failure(
        self, output: BoundedOutput, call: _PendingCommand, *, exit_code: int
    ) -> tuple[str, ...]:
        text = _read_ends(output)
        notes = explain_not_started(exit_code, text)
        if notes or not self._shells.are_confined:
            return notes
        return explain_failure(text, grants=call.grants, workspace=self._root)

    def _seal_later(
        self, call: _PendingCommand, output: BoundedOutput | TerminalOutput, *, pipe: Pipe
    ) -> None:
        """Record the hash of an output that has not ended, as soon as it has."""

        def report() -> None:
            path = str(call.log_path)
            self._emit(OutputStored(call_id=call.call_id, log_path=path, sha256=output.sha256))

        pipe.call_after_end(report)

    def _start_in_background(self, call: _PendingCommand) -> Output:
        output = BoundedOutput(call.log_path, call.log_fd, limit_bytes=self._output_limit_bytes)
        shell, pipe = self._start(call, output)
        self._watch(shell, pipe)
        self._seal_later(call, output, pipe=pipe)
        details = Command(
            command=call.args.command,
            cwd=str(call.cwd),
            log_path=str(call.log_path),
            background_pid=shell.child.pid,
        )
        pid = shell.child.pid
        status = f"[background pid {pid}, output in {call.log_path}; kill {pid} stops it]"
        return Output.of("\n".join((*call.notes, status)), details=details)

    async def _keep_on_terminal(
        self, call: _PendingCommand, progress: Callable[[str], None]
    ) -> Output:
        """Start the command on a terminal, and return what it printed until it waits for input."""
        output = TerminalOutput(call.log_path, call.log_fd, limit_bytes=self._output_limit_bytes)
        shell, pipe = self._start(call, output)
        kept = KeptCommand(
            command=call.args.command,
            cwd=call.cwd,
            grants=call.grants,
            call_id=call.call_id,
            shell=shell,
            output=output,
        )
        terminal = self._terminals.add(kept, processes=self._processes)
        self._watch(shell, pipe, then=terminal.finish)
        self._seal_later(call, output, pipe=pipe)
        self._declare_input()
        within_s = min(call.args.timeout, self._timeout_limit_s or START_WAIT_S, START_WAIT_S)
        return await terminal.exchange(b"", within_s=within_s, report=progress, notes=call.notes)

    def _start(
        self, call: _PendingCommand, sink: BoundedSink, *, detach: asyncio.Event | None = None
    ) -> tuple[PooledShell, Pipe]:
        """Run the command in a shell; return the shell and the pipe from its output to the sink.

        `detach` is set when an awaited command is moved to the background."""
        try:
            shell = self._shells.take(
                call.cwd,
                call.grants,
                call_id=call.call_id,
                notes_directory=call.args.is_awaited,
                credentials=call.credentials,
                on_terminal=call.args.terminal,
            )
        except OSError as error:
            sink.close()
            raise _build_not_run_error(error) from error
        pipe = Pipe(FilteredSink(sink, self._clean()) if self._clean else sink, reader=shell.output)
        self._processes.add(
            shell.child,
            tag=shell.tag,
            command=call.args.command,
            call_id=call.call_id,
            log_path=str(call.log_path),
            detach=detach,
        )
        try:
            script = call.command.script
            shell.handle.run_command(call.killer.functions + script if call.killer else script)
        except OSError as error:
            pipe.close()
            self._processes.finish(shell.tag, left_running=(), pipe=pipe)
            self._shells.abandon(shell)
            raise _build_not_run_error(error) from error
        return shell, pipe

    def _watch(
        self, shell: PooledShell, pipe: Pipe, *, then: Callable[[], None] = lambda: None
    ) -> None:
        """Let the process table report when it ends, since no call waits for it."""

        def finish() -> tuple[str, ...]:
            then()
            return self._shells.finish(shell).remarks

        self._processes.watch(shell.child, tag=shell.tag, pipe=pipe, then=finish)


def _read_ends(output: BoundedOutput) -> str:
    """Return the beginning and the end of an output, where programs say what failed."""
    lines = output.read_lines()
    return lines.build_excerpt(limit_bytes=SCANNED_CHARS, head_bytes=SCANNED_CHARS // 4).text


def _build_not_run_error(error: OSError) -> ToolError:
    where = f" ({error.filename})" if error.filename else ""
    return ToolError(f"The command was not run: {error.strerror or error}{where}.")


# The directory in which the next command runs.


class ShellDirectory:
    """The directory in which the next command runs. It follows each command within the roots."""

    def __init__(
        self, directory: WorkingDirectory, *, root: Path, added: Callable[[], Grants]
    ) -> None:
        """`root` is the workspace. `added` returns the directories that belong to it by now."""
        self._directory = directory
        self._root = root
        self._added = added

    def return_if_lost(self) -> tuple[str, ...]:
        """Go back to the root if the directory cannot be entered any more; return a note on it.

        Raise OSError if the root is gone, too."""
        lost, real = self._directory.path, Path(os.path.realpath(self._directory.path))
        root = self._find_root(real)
        if root is not None and _can_be_entered(real, root):
            if real != lost:
                self._directory.move_to(real)
            return ()
        self._root.stat()
        self._directory.move_to(self._root)
        why = "cannot be entered any more"
        if root is None:
            why = "leads out of the workspace now"
        return (f"[{lost} {why}; this ran in {self._root}]",)

    def follow(self, note: ShellNote | None, before: Path) -> tuple[str, ...]:
        """Keep the directory a command ended in, if the next one may start there."""
        if note is None or note.directory == str(before):
            return ()
        after = note.directory
        directory = _find_real(after)
        # A directory that only commands see, as in their /tmp, is outside, though not gone.
        if after and self._find_root(Path(os.path.normpath(after))) is None:
            why = f"{show_controls(after)} is outside the workspace"
        elif directory is None or self._find_root(directory) is None:
            why = "the working directory is gone"
        else:
            self._directory.move_to(directory)
            return () if directory == before else (f"[now in {self._show(directory)}]",)
        self._directory.move_to(self._root)
        return (f"[{why}; the next command starts in the workspace root, {self._root}]",)

    def _find_root(self, directory: Path) -> Path | None:
        """Return the workspace or the added directory that it lies in, if any."""
        if directory.is_relative_to(self._root):
            return self._root
        added = self._added()
        roots = (*added.writable, *added.readable)
        return next((root for root in roots if directory.is_relative_to(root)), None)

    def _show(self, directory: Path) -> str:
        """Return a directory of the workspace in one line, whatever its name is."""
        if directory == self._root:
            return "the workspace root"
        is_inside = directory.is_relative_to(self._root)
        shown = directory.relative_to(self._root) if is_inside else directory
        name = os.fsencode(shown).decode("utf-8", "replace")
        return show_controls(name).replace("\n", "\ufffd") + "/"


def _can_be_entered(directory: Path, root: Path) -> bool:
    """Return whether a command may enter the directory with no more rights than its owner.

    Root itself could enter any directory."""
    below = directory.relative_to(root).parts
    way = [root.joinpath(*below[:count]) for count in range(len(below) + 1)]
    try:
        return os.access(directory, os.X_OK) and all(one.stat().st_mode & 0o111 for one in way)
    except OSError:
        return False


def _find_real(directory: str) -> Path | None:
    """Return the real directory, or None if there is none. A command may report any text."""
    try:
        found = Path(os.path.realpath(directory))
        return found if directory and is_directory(found) else None
    except (OSError, ValueError):
        return None
