"""run_program: a sandboxed program by the model, whose calls are judged like any other."""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from subprocess import Popen
from typing import Any, ClassVar, TypeVar

from agentcli.system import process, process_tree
from agentcli.system.environment import build_child_environment
from agentcli.system.output import BoundedOutput, FilteredSink, LiveOutput, LogFiles, OutputFilter
from agentcli.system.process import Pipe, ProcessEnd
from agentcli.system.process_table import ProcessTable
from agentcli.system.strict_json import parse_json
from agentcli.tools.arguments import (
    BuiltinArguments,
    TextCheck,
    WholeCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.tools.report import CARD_TAIL_LINES, report_command, report_interrupted
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, ToolCall
from agentcli.types.sandbox import Sandbox
from agentcli.types.tools import Command, Dispatch, Effect, ErrorKind, Output, ToolContext, ToolSpec
from agentcli.types.words import pluralize

# The session's end of a program: receives its calls one by one, and answers each.


CALL_LIMIT_BYTES = 16 * 1024 * 1024
CALLS_MAX = 1000

T = TypeVar("T")


class ProgramTimeout(Exception):
    """The program's time is used up."""


class InvalidProgramCall(Exception):
    """The program sent something that is not a call, so no more answers are possible."""


class ProgramChannel:
    def __init__(self, *, dispatch: Dispatch, call_id: str, own_time_s: float) -> None:
        """`call_id` is the call that runs the program, and the caller of all its calls."""
        self._dispatch = dispatch
        self._call_id = call_id
        self._left_s = own_time_s
        self._calls, self.child_stderr = os.pipe()
        self.child_stdin, self._answers = os.pipe()
        self._transports: list[asyncio.BaseTransport] = []
        self._tools: Mapping[str, Sequence[str]] = {}
        self.made = 0
        self.origins: dict[str, None] = {}
        """The origins of text given to the program that is not from the workspace."""

    def close_child_ends(self) -> None:
        os.close(self.child_stderr)
        os.close(self.child_stdin)

    def abandon(self) -> None:
        """Close everything when no child was started, and nothing was opened."""
        self.close_child_ends()
        os.close(self._calls)
        os.close(self._answers)

    async def serve(self, program: str, tools: Mapping[str, Sequence[str]]) -> None:
        """Serve until cancelled.

        Raise ProgramTimeout or InvalidProgramCall if the program must end."""
        self._tools = tools
        reader, writer = await self._open()
        try:
            order: Json = {"program": program, "tools": {it: list(tools[it]) for it in tools}}
            await self._send(writer, order)
            while line := await self._run_in_own_time(_read_line(reader)):
                name, given = _parse_call(line)
                await self._send(writer, await self._answer(name, given))
            await self._run_in_own_time(asyncio.Event().wait())  # no more calls, but it still runs
        except ConnectionError:
            await self._run_in_own_time(asyncio.Event().wait())  # it has ended, or closed the pipe
        finally:
            for transport in self._transports:
                transport.close()

    async def _answer(self, name: str, given: Json) -> Json:
        if name not in self._tools:
            known = ", ".join(self._tools)
            return {"error": ErrorKind.UNKNOWN_TOOL, "text": f"No {name} here, but {known}."}
        if self.made == CALLS_MAX:
            limit = f"A program may make {CALLS_MAX} calls. Run another one."
            return {"error": ErrorKind.LIMITED, "text": limit}
        self.made += 1
        call_id = f"{self._call_id}.{self.made}"
        result = await self._dispatch(
            ToolCall(id=call_id, name=name, input=given, caller=self._call_id)
        )
        if result.origin:
            self.origins[result.origin] = None
        return {"error": result.error, "text": result.text}

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=CALL_LIMIT_BYTES)
        incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._calls, "rb")
        )
        outgoing, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            os.fdopen(self._answers, "wb"),
        )
        self._transports = [incoming, outgoing]
        return reader, asyncio.StreamWriter(outgoing, protocol, None, loop)

    async def _send(self, writer: asyncio.StreamWriter, message: Json) -> None:
        writer.write(json.dumps(message).encode() + b"\n")
        await self._run_in_own_time(writer.drain())

    async def _run_in_own_time(self, work: Awaitable[T]) -> T:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                return await work
        except TimeoutError:
            raise ProgramTimeout from None
        finally:
            self._left_s -= time.monotonic() - began


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError as error:
        raise InvalidProgramCall(f"a call may have {CALL_LIMIT_BYTES} bytes") from error


def _parse_call(line: bytes) -> tuple[str, Json]:
    try:
        match parse_json(line):
            case {"name": str(name), "input": dict(given)}:
                return name, given
    except (ValueError, RecursionError):
        pass
    raise InvalidProgramCall("something was sent that is no call")


LONGEST_S = 24 * 3600.0
"""The limit with all the time of its calls and of the questions about them."""

_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgramArgs(BuiltinArguments):
    program: str = field(
        metadata=declare_argument(
            TextCheck(is_filled=True),
            "e.g. print(sum('TODO' in read_file(p) for p in find_files('*.py').split()))",
        )
    )
    timeout: int = field(
        default=120,
        metadata=declare_argument(
            WholeCheck(least=1, most=600), "Seconds of its own, e.g. 300; 120 if not given"
        ),
    )

    aliases: ClassVar[dict[str, str]] = {"code": "program", "script": "program"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramHost:
    """The environment that a program runs in."""

    workspace: Path
    out_dir: Path
    sandbox: Sandbox | None
    """None if the user has turned it off."""
    environ: Mapping[str, str]
    processes: ProcessTable
    clean: Callable[[], OutputFilter]


class RunProgram:
    def __init__(
        self,
        host: ProgramHost,
        *,
        functions: Callable[[], Mapping[str, ToolSpec]],
    ) -> None:
        """`functions` returns the tools that a program may call, by name."""
        self._host = host
        self._logs = LogFiles(host.out_dir, prefix="program-")
        self._functions = functions

    @property
    def spec(self) -> ToolSpec:
        return load_spec("run_program")

    def parse(self, raw: Json) -> RunProgramArgs:
        return parse_arguments(RunProgramArgs, raw)

    def effect(self, args: RunProgramArgs) -> Effect:
        return Effect.EXECUTE

    async def preview(self, args: RunProgramArgs, context: ToolContext) -> Command:
        return Command(command=args.program, cwd=str(self._host.workspace))

    async def run(self, args: RunProgramArgs, context: ToolContext) -> Output:
        assert context.dispatch is not None, "a program calls tools"
        printed = BoundedOutput(*self._logs.create())
        live = LiveOutput(printed, report=context.progress, lines=CARD_TAIL_LINES)
        pipe = Pipe(FilteredSink(live, self._host.clean()))
        tag = self._host.processes.create_tag(confined=self._host.sandbox is not None)
        channel = ProgramChannel(
            dispatch=context.dispatch, call_id=context.call_id, own_time_s=args.timeout
        )
        with ExitStack() as undo:
            undo.callback(pipe.close)
            undo.callback(channel.abandon)
            child = self._start(args, context, tag=tag, pipe=pipe, channel=channel, output=printed)
            undo.pop_all()
        channel.close_child_ends()
        began = time.monotonic()
        remarks: tuple[str, ...] = ()
        left: tuple[int, ...] = ()
        try:
            ended, note = await self._follow(args, child, channel, pipe=pipe, tag=tag)
            left = ended.left_running
        except asyncio.CancelledError:
            ran_s = time.monotonic() - began
            raise asyncio.CancelledError(
                report_interrupted(
                    args.program, output=printed, cwd=self._host.workspace, ran_s=ran_s
                )
            ) from None
        finally:
            live.stop_progress()
            if self._host.sandbox:
                remarks = self._host.sandbox.finish(child)
            left = self._host.processes.finish(tag, left_running=left, pipe=pipe)
        output = report_command(
            args.program,
            replace(ended, left_running=left),
            output=printed,
            cwd=self._host.workspace,
            timeout_s=args.timeout,
            notes=tuple(f"[{it}]" for it in (*remarks, *note, pluralize(channel.made, "call"))),
            remedy="raise timeout or do less",
        )
        return replace(output, origin=", ".join(channel.origins))

    async def _follow(
        self,
        args: RunProgramArgs,
        child: "Popen[bytes]",
        channel: ProgramChannel,
        *,
        pipe: Pipe,
        tag: str,
    ) -> tuple[ProcessEnd, tuple[str, ...]]:
        """Return how it ended, and remarks about that. If cancelled, end both sides."""
        tools = {name: _list_parameters(spec) for name, spec in self._functions().items()}
        serving = asyncio.ensure_future(channel.serve(args.program, tools))
        running = asyncio.ensure_future(process.run(child, pipe=pipe, tag=tag, timeout_s=LONGEST_S))
        try:
            await asyncio.wait([serving, running], return_when=asyncio.FIRST_COMPLETED)
            stopped = serving.exception() if serving.done() else None
            if isinstance(stopped, ProgramTimeout | InvalidProgramCall):
                process_tree.signal_group(child.pid, process_tree.KILL)
            elif stopped is not None:
                raise stopped
            ended = await running
        finally:
            await process.run_to_completion(_cancel_tasks(serving, running))
        is_late = isinstance(stopped, ProgramTimeout)
        note = (str(stopped),) if isinstance(stopped, InvalidProgramCall) else ()
        return replace(ended, timed_out=is_late), note

    def _start(
        self,
        args: RunProgramArgs,
        context: ToolContext,
        *,
        tag: str,
        pipe: Pipe,
        channel: ProgramChannel,
        output: BoundedOutput,
    ) -> "Popen[bytes]":
        host = self._host
        python = shutil.which("python3", path=host.environ.get("PATH")) or sys.executable
        argv = [python, "-I", "-u", "-c", _CHILD.read_text(encoding="utf-8")]
        env = build_child_environment(host.environ, tag=tag)
        try:
            child = process.start_sandboxed(
                host.sandbox,
                argv,
                cwd=host.workspace,
                env=env,
                stdin=channel.child_stdin,
                stdout=pipe.writer,
                stderr=channel.child_stderr,
                grants=context.grants,
            )
        except OSError as error:
            raise ToolError(f"The program was not run: {error.strerror or error}.") from error
        host.processes.add(
            child,
            tag=tag,
            command="run_program",
            call_id=context.call_id,
            log_path=str(output.log_path),
        )
        return child


async def _cancel_tasks(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _list_parameters(spec: ToolSpec) -> tuple[str, ...]:
    properties = spec.schema.get("properties") if isinstance(spec.schema, dict) else None
    return tuple(properties) if isinstance(properties, dict) else ()
