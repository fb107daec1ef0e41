"""A loop on scripted replies and real parts, with everything it said and was asked in reach."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from agentcli.agent.completion import CompletionChecks
from agentcli.agent.dispatch import Clean, Dispatcher, ResultHook
from agentcli.agent.journal import Journal
from agentcli.agent.limits import CALLS_PER_MINUTE, Breaker, Budget, Pace, TurnLimits
from agentcli.agent.loop import Loop, OnDeny
from agentcli.agent.model_client import ModelClient
from agentcli.agent.toolset import Toolset
from agentcli.session.model import ModelInUse
from agentcli.types.errors import ToolError
from agentcli.types.events import Entry, Event, TurnEnded
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Json,
    Stop,
    Text,
    ToolCall,
    Usage,
    UserMessage,
)
from agentcli.types.provider import ModelProvider, OnDelta, Request
from agentcli.types.tools import (
    Details,
    Effect,
    ErrorKind,
    Output,
    PreparedCall,
    Tool,
    ToolContext,
    ToolSpec,
)
from agentcli.types.verdicts import Judge, Preview, Verdict

Reply = AssistantMessage | Exception


def reply(*blocks: Block | str, stop: Stop | None = None, usage: Usage | None = None) -> Reply:
    content = tuple(Text(text=block) if isinstance(block, str) else block for block in blocks)
    calls = any(isinstance(block, ToolCall) for block in content)
    return AssistantMessage(
        content=content,
        stop=stop or ("tool_calls" if calls else "end"),
        protocol="test",
        model="test/model",
        usage=usage or Usage(),
    )


def call(name: str, call_id: str = "c1", **arguments: Json) -> ToolCall:
    return ToolCall(id=call_id, name=name, input=dict(arguments))


class ListWire:
    """Answers from a list and keeps what it was asked."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self.requests: list[Request] = []

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        self.requests.append(request)
        answer = self._replies.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """There is nothing to let go of."""


def serve(
    provider: ModelProvider, price: Callable[[Usage], float | None] = lambda usage: None
) -> ModelInUse:
    return ModelInUse(provider=provider, name="test/model", price=price, images=True)


@dataclass
class FunctionTool:
    """A tool made of one function; its arguments are any mapping that has `required`."""

    name: str
    act: Callable[[dict[str, Any], ToolContext], Any]
    kind: Effect = Effect.READ
    required: tuple[str, ...] = ()
    ran: list[dict[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description=f"Does {self.name}.", schema={"type": "object"})

    def parse(self, raw: Json) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise ToolError("Invalid input: not an object.", kind=ErrorKind.INVALID_INPUT)
        for name in self.required:
            if name not in raw:
                raise ToolError(f"Invalid input: {name} is missing.", kind=ErrorKind.INVALID_INPUT)
        return dict(raw)

    def effect(self, args: Any) -> Effect:
        return self.kind

    async def preview(self, args: Any, context: ToolContext) -> Details | None:
        return None

    async def run(self, args: Any, context: ToolContext) -> Output:
        self.ran.append(args)
        made = self.act(args, context)
        if asyncio.iscoroutine(made):
            made = await made
        return made if isinstance(made, Output) else Output.of(str(made))


async def allow(call: PreparedCall, /, *, preview: Preview) -> Verdict:
    return Verdict(decision="allow", by="mode", reason="tests allow everything")


@dataclass
class Bench:
    """Everything a test wants to look at after a turn."""

    wire: ListWire
    asking: ModelClient
    loop: Loop
    journal: Journal
    entries: list[Entry]
    events: list[Event]

    def turn(self, prompt: str = "go") -> TurnEnded:
        return asyncio.run(self.loop.run_turn(UserMessage(content=(Text(text=prompt),))))


def bench(
    replies: Sequence[Reply],
    tools: Sequence[Tool] = (),
    *,
    judge: Judge = allow,
    limits: TurnLimits | None = None,
    calls_per_minute: int = CALLS_PER_MINUTE,
    after: Sequence[ResultHook] = (),
    parallel: bool = True,
    price: Callable[[Usage], float | None] = lambda usage: None,
    clean: Clean = str,
    budget: Budget | None = None,
    finish: Callable[[Journal], CompletionChecks] | None = None,
    on_deny: OnDeny = "continue",
    wraps_up: bool = False,
    listeners: Sequence[Callable[[Event], None]] = (),
    provider: ModelProvider | None = None,
) -> Bench:
    entries: list[Entry] = []
    events: list[Event] = []
    wire, breaker, limits = ListWire(replies), Breaker(), limits or TurnLimits()
    journal = Journal("test", record=entries.append, listeners=[events.append, *listeners])
    toolset = Toolset((tool.spec, partial(_itself, tool)) for tool in tools)
    dispatcher = Dispatcher(
        toolset=toolset,
        judge=judge,
        emit=journal.append,
        workspace=Path(),
        breaker=breaker,
        pace=Pace(calls_per_minute),
        result_hooks=after,
        clean=clean,
    )
    template = Request(model="test/model", system="", messages=(), tools=toolset.specs)
    asked: ModelProvider = provider or wire
    if budget:
        asked = budget.wrap_provider(asked, price=price, output_limit=lambda: None)
    model = serve(asked, price)
    asking = ModelClient(model=lambda: model, template=template, journal=journal)
    loop = Loop(
        model_client=asking,
        journal=journal,
        dispatcher=dispatcher,
        breaker=breaker,
        limits=limits,
        parallel=parallel,
        completion_checks=finish(journal) if finish else None,
        on_deny=on_deny,
        wraps_up=wraps_up,
    )
    return Bench(
        wire=wire, asking=asking, loop=loop, journal=journal, entries=entries, events=events
    )


def _itself(tool: Tool) -> Tool:
    return tool
