"""The built-in tools for another program, with the same judge, sandbox, checkpoints and log.

Each incoming call is recorded as a turn of its own, so that undo, audit and triage can read these
sessions, too. There is no user to ask: a call that no rule and no mode allows is denied.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from typing import TypeAlias

from agentcli import __version__
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker
from agentcli.agent.toolset import Offer
from agentcli.log.writer import LogWriter
from agentcli.permissions.masking import EventMasking
from agentcli.providers.scripted import ModelScript, ScriptedProvider
from agentcli.session.builder import build_dispatcher, build_parts, open_session
from agentcli.session.configuration import load_configuration
from agentcli.session.hooks import warn_of_hooks
from agentcli.session.model import ModelInUse, SessionModel
from agentcli.session.sandbox_host import SANDBOX_OFF
from agentcli.session.secrets import build_redactor
from agentcli.session.start import open_new
from agentcli.types.answers import AnswerParts
from agentcli.types.deltas import CallProgress
from agentcli.types.errors import EXIT_OF_ENDING, AgentError, Ending, Exit, ToolError
from agentcli.types.events import (
    CallJudged,
    Emit,
    Event,
    ModelReplied,
    SessionEnded,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, Json, Text, ToolCall, UserMessage
from agentcli.types.settings import Settings
from agentcli.types.spending import NO_SPENDING
from agentcli.types.tools import (
    Effect,
    ErrorKind,
    Output,
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
)

CLIENT = "client/mcp"
SHOWN_CHARS = 200
"""The most characters of a call's arguments in the progress of a task."""
INSTRUCTIONS = (
    "Tools of agentcli for the workspace {workspace}. {commands} A denied call names the "
    "option that would allow it."
)


OnProgress: TypeAlias = Callable[[str], None]


class ToolServer:
    def __init__(self, settings: Settings) -> None:
        """Open a session for the calls. Raise AgentError if that fails."""
        configuration = load_configuration(settings, uses_hooks=True)
        self._settings = settings = configuration.settings
        self._start = open_new(settings.sessions)
        self._log = LogWriter(self._start.paths.log, prev=self._start.last_hash)
        redactor = build_redactor(settings)
        self._on_progress: OnProgress = _ignore_progress
        self._journal = Journal(
            self._start.session,
            record=self._log.append,
            listeners=(self._listen,),
            mask=EventMasking(redactor),
        )
        self._parts = build_parts(
            configuration,
            self._start.paths,
            journal=self._journal,
            model=_build_model(settings, self._journal.append),
            redactor=redactor,
        )
        self._toolset = self._parts.toolset
        self._toolset.add(self._iter_offers())
        self._breaker = Breaker()
        self._dispatcher = build_dispatcher(
            self._parts, self._toolset, journal=self._journal, breaker=self._breaker
        )
        self._one_at_a_time = asyncio.Lock()
        self._numbers = count(1)
        self._record_start()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._toolset.specs

    @property
    def instructions(self) -> str:
        return INSTRUCTIONS.format(
            workspace=self._settings.workspace, commands=self._describe_commands()
        )

    def _describe_commands(self) -> str:
        sandbox = self._parts.gate.host.sandbox
        if sandbox is not None:
            return (
                f"Commands run in a sandbox ({sandbox.name}), without network access unless a "
                "rule grants it."
            )
        if self._settings.sandbox == "off":
            return (
                "Commands run without a sandbox: they can do everything that the user can, to "
                "all files and over the network."
            )
        return "No sandbox works here: a command runs only if a rule allows it, without a sandbox."

    async def call_tool(self, name: str, arguments: Json, on_progress: OnProgress) -> ToolResult:
        call = ToolCall(id=f"call_{next(self._numbers)}", name=name, input=arguments)
        async with self._one_at_a_time:
            self._on_progress = on_progress
            asked = UserMessage(content=(Text(text=f"A client calls {name}."),))
            self._journal.append(TurnStarted(message=asked))
            self._journal.append(ModelReplied(message=_build_reply(call)))
            self._breaker.begin_turn()
            ending = Ending.CANCELLED
            try:
                result = await self._dispatcher.dispatch(call)
                ending = Ending.DONE
            finally:
                self._journal.append(TurnEnded(ending=ending))
        return result

    async def close(self) -> None:
        parts = self._parts
        async with AsyncExitStack() as last_first:  # each of them, even if another fails
            last_first.callback(self._start.lock.release)
            last_first.callback(self._log.close)
            last_first.callback(self._journal.append, SessionEnded(exit_code=Exit.DONE))
            last_first.push_async_callback(parts.model.close)
            last_first.callback(parts.gate.close)
            last_first.callback(parts.checkpoints.close)
            last_first.push_async_callback(parts.builtin_tools.close)
            if parts.hooks is not None:
                last_first.push_async_callback(parts.hooks.run_session_end, Exit.DONE)

    def _iter_offers(self) -> Iterator[Offer]:
        yield from self._parts.checkpoints.wrap_offers(
            self._parts.builtin_tools.iter_offers(lambda: self._journal.facts)
        )
        run: Tool = RunTaskTool(self._run_task)
        yield run.spec, lambda: run

    def _listen(self, event: Event) -> None:
        if isinstance(event, CallProgress):
            self._on_progress(event.text)

    async def _run_task(self, task: str, on_progress: OnProgress) -> Output:
        """Run a task in a session of its own, with the model of the settings."""

        def listen(event: Event) -> None:
            if isinstance(event, CallJudged):
                given = json.dumps(event.call.input, ensure_ascii=False)
                on_progress(f"{event.call.name} {given[:SHOWN_CHARS]}")

        try:
            session = open_session(self._settings, listeners=(listen,))
        except AgentError as error:
            raise _convert_error(error) from error
        code = Exit.INTERRUPTED
        try:
            ended = await session.run_turn(task)
            code = EXIT_OF_ENDING[ended.ending]
        except AgentError as error:
            code = error.exit_code
            raise _convert_error(error) from error
        finally:
            await session.close(code)
        answer = AnswerParts(session.facts).whole
        if ended.ending is Ending.DONE:
            return Output.of(answer)
        return Output.of(
            f"{answer}\n[Not done: {ended.message or ended.ending}]".lstrip(),
            error=ErrorKind.FAILED,
        )

    def _record_start(self) -> None:
        self._journal.append(
            SessionStarted(
                session=self._start.session,
                version=__version__,
                workspace=str(self._settings.workspace),
                model=CLIENT,
                mode=self._settings.mode,
                **self._toolset.build_terms(),
            )
        )
        self._parts.directories.start(())
        if self._settings.sandbox == "off":
            self._journal.append(Warned(code="sandbox.off", message=SANDBOX_OFF))
        for warning in warn_of_hooks(self._parts.configuration, self._toolset.names):
            self._journal.append(warning)


def _build_model(settings: Settings, emit: Emit) -> SessionModel:
    """Build the model of a session that a client speaks in. Calls are evaluated by another one."""
    client = ModelInUse(
        provider=ScriptedProvider(ModelScript(replies=())),
        name=CLIENT,
        price=lambda usage: 0.0,
        images=True,
    )
    evaluator = settings.evaluator or settings.model or ""
    return SessionModel(
        client,
        settings=replace(settings, evaluator=evaluator),
        past=(),
        sum_spent=lambda: NO_SPENDING,
        emit=emit,
    )


class RunTaskTool:
    """A whole task for a model. Each of its calls is judged, in a session of its own."""

    def __init__(self, run: Callable[[str, OnProgress], Awaitable[Output]]) -> None:
        self._run = run

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name="run",
            description="Give agentcli a task in words; its model works on it and answers.",
            schema={
                "type": "object",
                "properties": {"task": {"type": "string"}},
                "required": ["task"],
                "additionalProperties": False,
            },
        )

    def parse(self, raw: Json) -> str:
        task = raw.get("task") if isinstance(raw, dict) else None
        if not isinstance(task, str) or not task.strip():
            raise ToolError("Invalid input: task must be a string.", kind=ErrorKind.INVALID_INPUT)
        return task

    def effect(self, args: str) -> Effect:
        return Effect.READ

    async def preview(self, args: str, context: ToolContext) -> None:
        return None

    async def run(self, args: str, context: ToolContext) -> Output:
        return await self._run(args, context.progress)


def _convert_error(error: AgentError) -> ToolError:
    return ToolError(f"{error} ({error.hint})" if error.hint else str(error))


def _ignore_progress(text: str) -> None:
    """Drop progress while no call is running."""


def _build_reply(call: ToolCall) -> AssistantMessage:
    return AssistantMessage(content=(call,), stop="tool_calls", protocol="mcp", model=CLIENT)
