"""bash: one command in a fresh shell, with its output bounded and its processes accounted for."""

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import ClassVar

from pydantic import Field

from agentcli.machine import process
from agentcli.machine.bound import Bounded
from agentcli.machine.environment import child_environment
from agentcli.machine.filtered import Filter, Filtered
from agentcli.machine.ledger import Ledger
from agentcli.machine.live import Live
from agentcli.machine.plain import visible
from agentcli.machine.process import Pipe, Sink
from agentcli.machine.shell import Script, prepare
from agentcli.tools.contracts import contract
from agentcli.tools.kill import parse_kill
from agentcli.tools.report import CARD_TAIL_LINES, report, report_interrupted
from agentcli.tools.schema import Arguments, parse
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Command, Effect, Output, ToolContext, ToolSpec
from agentcli.types.verdicts import Confinement, Sandbox

TAKEN_DOWN = "[what it left in the background ended with it; to keep it use background=true]"


class Args(Arguments):
    command: str = Field(description="e.g. pytest -q")
    timeout: int = Field(
        default=120, ge=1, le=600, description="Seconds, e.g. 300; 120 if not given, most 600"
    )
    background: bool = Field(default=False, description="e.g. true for a server")

    aliases: ClassVar[dict[str, str]] = {
        "cmd": "command",
        "timeout_s": "timeout",
        "timeout_seconds": "timeout",
        "run_in_background": "background",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One command about to run."""

    args: Args
    call_id: str
    cwd: Path
    notes: tuple[str, ...]
    """What the model must know of how it was started."""
    mark: str
    script: Script
    log_path: Path
    log_fd: int


class Bash:
    def __init__(
        self,
        *,
        workspace: Path,
        out_dir: Path,
        sandbox: Sandbox | None,
        confinement: Callable[[str], Confinement],
        environ: Mapping[str, str],
        ledger: Ledger,
        passed: Collection[str] = (),
        proves_read: Callable[[str], bool] = lambda command: False,
        clean: Callable[[], Filter] | None = None,
        timeout_limit_s: float | None = None,
    ) -> None:
        """`confinement` is what a call was given beyond the workspace. `passed` are variables
        that a command gets whatever their names say. `proves_read` must be true only of one that
        cannot change anything. `clean` makes a filter for each output."""
        self._root = workspace.resolve()
        self._cwd = self._root
        self._out_dir = out_dir.resolve()
        self._sandbox = sandbox
        self._confinement = confinement
        self._environ = environ
        self._ledger = ledger
        self._passed = passed
        self._proves_read = proves_read
        self._clean = clean
        self._timeout_limit_s = timeout_limit_s
        self._logs = 0

    @property
    def spec(self) -> ToolSpec:
        return contract("bash")

    @property
    def cwd(self) -> Path:
        """Where the next command will run."""
        return self._cwd

    def parse(self, raw: Json) -> Args:
        return parse(Args, raw)

    def effect(self, args: Args) -> Effect:
        proven = not args.background and self._proves_read(args.command)
        return Effect.READ if proven else Effect.EXECUTE

    async def preview(self, args: Args, context: ToolContext) -> Command:
        return Command(command=args.command, cwd=str(self._cwd))

    async def run(self, args: Args, context: ToolContext) -> Output:
        if self._sandbox and self._told_by_us(args.command):
            details = Command(command=args.command, cwd=str(self._cwd), exit_code=0)
            return Output.of("[no output]\n[exit code 0]", details=details)
        call = self._prepared(args, context.call_id)
        if args.background:
            return self._start_in_background(call)
        return await self._run_to_the_end(call, context.progress)

    def _told_by_us(self, command: str) -> bool:
        """A sandboxed `kill` reaches no process outside: those of this session we signal for it."""
        wanted = parse_kill(command)
        return wanted is not None and self._ledger.tell(wanted.pids, wanted.signal)

    def _prepared(self, args: Args, call_id: str) -> _Call:
        notes = self._return_from_lost_directory()
        mark = self._ledger.new_mark()
        try:
            script = prepare(
                args.command,
                directory=self._out_dir,
                name=mark,
                notes_directory=not args.background,
            )
            log_path, log_fd = self._new_log()
        except OSError as error:
            raise ToolError(f"The command was not run: {_reason(error)}.") from error
        return _Call(
            args=args,
            call_id=call_id,
            cwd=self._cwd,
            notes=notes,
            mark=mark,
            script=script,
            log_path=log_path,
            log_fd=log_fd,
        )

    async def _run_to_the_end(self, call: _Call, progress: Callable[[str], None]) -> Output:
        timeout_s = min(call.args.timeout, self._timeout_limit_s or call.args.timeout)
        kept = Bounded(call.log_path, call.log_fd)
        live = Live(kept, tell=progress, lines=CARD_TAIL_LINES)
        pipe = Pipe(self._cleaned(live))
        with ExitStack() as undo:
            undo.callback(call.script.remove)
            undo.callback(pipe.close)
            child = self._launch(call, pipe.writer)
            undo.pop_all()
        left_running: tuple[int, ...] = ()
        began = time.monotonic()
        try:
            ended = await process.run(child, pipe=pipe, mark=call.mark, timeout_s=timeout_s)
            left_running = ended.left_running
        except asyncio.CancelledError:
            ran_s = time.monotonic() - began
            # What it had printed goes with the cancellation, for the record of the call.
            raise asyncio.CancelledError(
                report_interrupted(call.args.command, kept=kept, cwd=call.cwd, ran_s=ran_s)
            ) from None
        finally:
            live.stop_telling()
            after, left_jobs = call.script.directory_after(), call.script.left_jobs()
            remarks = self._finished(call, child)
            left_running = self._ledger.leave(call.mark, left_running=left_running, pipe=pipe)
        taken_down = self._sandbox and left_jobs and not (left_running or ended.timed_out)
        return report(
            call.args.command,
            replace(ended, left_running=left_running),
            kept=kept,
            cwd=call.cwd,
            timeout_s=timeout_s,
            notes=(
                *call.notes,
                *map("[{}]".format, remarks),
                *([TAKEN_DOWN] if taken_down else []),
                *self._move_to(after, call.cwd),
            ),
        )

    def _start_in_background(self, call: _Call) -> Output:
        pipe = Pipe(self._cleaned(Bounded(call.log_path, call.log_fd)))
        with ExitStack() as undo:
            undo.callback(call.script.remove)
            undo.callback(pipe.close)
            child = self._launch(call, pipe.writer)
            undo.pop_all()
        pipe.close_writer()
        self._ledger.watch(
            child, mark=call.mark, pipe=pipe, then=lambda: self._finished(call, child)
        )
        details = Command(
            command=call.args.command,
            cwd=str(call.cwd),
            log_path=str(call.log_path),
            background_pid=child.pid,
        )
        status = f"[background pid {child.pid}, output in {call.log_path}]"
        return Output.of("\n".join((*call.notes, status)), details=details)

    def _cleaned(self, sink: Sink) -> Sink:
        return Filtered(sink, self._clean()) if self._clean else sink

    def _launch(self, call: _Call, stdout: int) -> "Popen[bytes]":
        env = child_environment(self._environ, mark=call.mark, passed=self._passed)
        try:
            child = self._started(call, env, stdout)
        except OSError as error:
            raise ToolError(f"The command was not run: {_reason(error)}.") from error
        self._ledger.enter(
            child,
            mark=call.mark,
            command=call.args.command,
            call_id=call.call_id,
            log_path=str(call.log_path),
        )
        return child

    def _started(self, call: _Call, env: dict[str, str], stdout: int) -> "Popen[bytes]":
        given = self._confinement(call.call_id)
        return process.start_in(
            self._sandbox,
            call.script.argv,
            cwd=call.cwd,
            env=env,
            stdout=stdout,
            confinement=replace(given, writable=(*given.writable, call.script.note_file.parent)),
        )

    def _finished(self, call: _Call, child: "Popen[bytes]") -> tuple[str, ...]:
        """Clears up after a process that has ended; what the sandbox has to say of it."""
        call.script.remove()
        return self._sandbox.finish(child) if self._sandbox else ()

    def _new_log(self) -> tuple[Path, int]:
        """The next free number, also where an earlier run of the session used some."""
        while True:
            self._logs += 1
            path = self._out_dir / f"{self._logs}.log"
            try:
                return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue

    def _return_from_lost_directory(self) -> tuple[str, ...]:
        lost, real = self._cwd, Path(os.path.realpath(self._cwd))
        if real.is_relative_to(self._root) and real.is_dir() and os.access(real, os.X_OK):
            self._cwd = real
            return ()
        self._cwd = self._root
        why = "cannot be entered any more"
        if not real.is_relative_to(self._root):
            why = "leads out of the workspace now"
        return (f"[{lost} {why}; this ran in {self._root}]",)

    def _move_to(self, after: str | None, before: Path) -> tuple[str, ...]:
        """Keeps the directory a command ended in, if the next one may start there."""
        if after is None or after == str(before):
            return ()
        directory = Path(after or "/").resolve()
        if not after or not directory.is_dir():
            why = "the working directory is gone"
        elif not directory.is_relative_to(self._root):
            why = f"{visible(after)} is outside the workspace"
        else:
            self._cwd = directory
            return ()
        self._cwd = self._root
        return (f"[{why}; the next command starts in the workspace root, {self._root}]",)


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"
