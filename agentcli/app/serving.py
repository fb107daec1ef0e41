"""The built-in tools for another program: the same judge, sandbox, checkpoints and record.

A call that comes in is recorded as a turn of its own, so that whatever reads sessions reads these,
too: undo, audit, triage. Nobody can be asked: what no rule and no mode allows is denied.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count
from typing import TypeAlias

from agentcli import __version__
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker
from agentcli.agent.toolset import Load, Toolset
from agentcli.app.boundary import SANDBOX_OFF, Boundary
from agentcli.app.checkpoints import Checkpoints
from agentcli.app.engine import open_dispatcher
from agentcli.app.hooks import open_hooks
from agentcli.app.model import ModelInUse
from agentcli.app.opening import open_session
from agentcli.app.project import open_project, with_project
from agentcli.app.resume import take_new
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.settings import Settings
from agentcli.types.answers import AnswerParts
from agentcli.types.deltas import CallProgress
from agentcli.types.errors import EXIT_OF_ENDING, AgentError, Exit, ToolError
from agentcli.types.events import (
    CallJudged,
    Ending,
    Event,
    ModelReplied,
    SessionEnded,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, Json, Text, ToolCall, UserMessage
from agentcli.types.tools import (
    Effect,
    ErrorKind,
    Output,
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from agentcli.wire.scripted import Script, ScriptedWire

CLIENT = "client/mcp"
SHOWN_CHARS = 200
"""Of a call's arguments, for whoever waits for a task."""
INSTRUCTIONS = (
    "Tools of agentcli for the workspace {workspace}. {commands} What is not allowed is denied "
    "with the option that would allow it."
)


Show: TypeAlias = Callable[[str], None]


class Serving:
    def __init__(self, settings: Settings) -> None:
        """Raises AgentError."""
        project = open_project(settings.workspace, trust_project=settings.trust_project)
        self._settings = with_project(settings, project)
        self._taken = take_new(settings.sessions)
        place = self._taken.place
        self._log = Log(place.log, prev=self._taken.last_hash)
        self._boundary = Boundary(self._settings, place, asker=None, project=project)
        self._show: Show = _to_nobody
        self._journal = Journal(
            self._taken.session,
            record=self._log.append,
            listeners=(self._listen,),
            mask=self._boundary.secrecy.new_mask(),
        )
        nobody = ModelInUse(
            wire=ScriptedWire(Script(replies=())),
            name=CLIENT,
            price=lambda usage: 0.0,
            images=True,
        )
        self._workshop = Workshop(self._settings, place, boundary=self._boundary, model=nobody)
        self._checkpoints = Checkpoints(
            place, workspace=settings.workspace, tell=self._journal.tell
        )
        self._toolset = Toolset(self._offers())
        self._boundary.source = lambda name: self._toolset.resolve(name).spec.source
        self._hooks = open_hooks(
            self._settings,
            place,
            project=project,
            tell=self._journal.tell,
            clean=self._boundary.secrecy.clean,
            toolset=self._toolset,
            mode=lambda: self._boundary.mode,
            is_resumed=False,
        )
        self._boundary.hooks = self._hooks.engine
        self._breaker = Breaker()
        self._dispatcher = open_dispatcher(
            self._toolset,
            settings=settings,
            boundary=self._boundary,
            journal=self._journal,
            breaker=self._breaker,
            after=self._hooks.after(),
        )
        self._one_at_a_time = asyncio.Lock()
        self._numbers = count(1)
        self._begin()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._toolset.specs

    @property
    def instructions(self) -> str:
        return INSTRUCTIONS.format(
            workspace=self._settings.workspace, commands=self._about_commands()
        )

    def _about_commands(self) -> str:
        sandbox = self._boundary.sandbox
        if sandbox is not None:
            return (
                f"Commands run in a sandbox ({sandbox.name}), without the network unless a rule "
                "gives it to them."
            )
        if self._settings.sandbox == "off":
            return (
                "Commands run without a sandbox: they can do everything that the person can, to "
                "all files and over the network."
            )
        return "No sandbox works here: a command runs only where a rule allows it, and without one."

    async def call(self, name: str, arguments: Json, show: Show) -> ToolResult:
        call = ToolCall(id=f"call_{next(self._numbers)}", name=name, input=arguments)
        async with self._one_at_a_time:
            self._show = show
            asked = UserMessage(content=(Text(text=f"A client calls {name}."),))
            self._journal.tell(TurnStarted(message=asked))
            self._journal.tell(ModelReplied(message=_reply(call)))
            self._breaker.begin_turn()
            ending = Ending.CANCELLED
            try:
                result = await self._dispatcher.dispatch(call)
                ending = Ending.DONE
            finally:
                self._journal.tell(TurnEnded(ending=ending))
        return result

    async def close(self) -> None:
        async with AsyncExitStack() as last_first:  # each of them, whatever becomes of the others
            last_first.callback(self._taken.lock.release)
            last_first.callback(self._log.close)
            last_first.callback(self._journal.tell, SessionEnded(exit_code=Exit.DONE))
            last_first.callback(self._boundary.close)
            last_first.callback(self._checkpoints.close)
            last_first.push_async_callback(self._workshop.close)
            last_first.push_async_callback(self._hooks.at_the_end, Exit.DONE)

    def _offers(self) -> Iterator[tuple[ToolSpec, Load]]:
        yield from self._checkpoints.around(self._workshop.offers(lambda: self._journal.facts))
        run: Tool = RunTask(self._run)
        yield run.spec, lambda: run

    def _listen(self, event: Event) -> None:
        if isinstance(event, CallProgress):
            self._show(event.text)

    async def _run(self, task: str, show: Show) -> Output:
        """In a session of its own, with the model of the settings."""

        def listen(event: Event) -> None:
            if isinstance(event, CallJudged):
                given = json.dumps(event.call.input, ensure_ascii=False)
                show(f"{event.call.name} {given[:SHOWN_CHARS]}")

        try:
            session = open_session(self._settings, listeners=(listen,))
        except AgentError as error:
            raise _refused(error) from error
        code = Exit.INTERRUPTED
        try:
            ended = await session.turn(task)
            code = EXIT_OF_ENDING[ended.ending]
        except AgentError as error:
            code = error.exit_code
            raise _refused(error) from error
        finally:
            await session.close(code)
        answer = AnswerParts(session.facts).whole
        if ended.ending is Ending.DONE:
            return Output.of(answer)
        return Output.of(
            f"{answer}\n[Not done: {ended.message or ended.ending}]".lstrip(),
            error=ErrorKind.FAILED,
        )

    def _begin(self) -> None:
        self._journal.tell(
            SessionStarted(
                session=self._taken.session,
                version=__version__,
                workspace=str(self._settings.workspace),
                model=CLIENT,
                mode=self._settings.mode,
                tools=self._toolset.names,
                tools_sha256=self._toolset.sha256(),
            )
        )
        if self._settings.sandbox == "off":
            self._journal.tell(Warned(code="sandbox.off", message=SANDBOX_OFF))
        for warning in self._hooks.warnings:
            self._journal.tell(warning)


class RunTask:
    """A whole task for a model. What it does is judged call by call, in a session of its own."""

    def __init__(self, run: Callable[[str, Show], Awaitable[Output]]) -> None:
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
            raise ToolError("Invalid input: task must be a text.", kind=ErrorKind.INVALID_INPUT)
        return task

    def effect(self, args: str) -> Effect:
        return Effect.READ

    async def preview(self, args: str, context: ToolContext) -> None:
        return None

    async def run(self, args: str, context: ToolContext) -> Output:
        return await self._run(args, context.progress)


def _refused(error: AgentError) -> ToolError:
    return ToolError(f"{error} ({error.hint})" if error.hint else str(error))


def _to_nobody(text: str) -> None:
    """No call is running."""


def _reply(call: ToolCall) -> AssistantMessage:
    return AssistantMessage(content=(call,), stop="tool_calls", protocol="mcp", model=CLIENT)
