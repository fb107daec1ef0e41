"""The wire alone: an exchange with a loopback provider, and writing the next request.

The latter is processor time, so that other work on the machine does not count. `turns.py` measures
whole sessions.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator

from agentcli.providers.catalog import Key, resolve
from agentcli.providers.connection import RequestBody
from agentcli.providers.dialect import Model
from agentcli.providers.normalize import NormalizedHistory
from agentcli.providers.transport import find_dialect, open_provider
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec
from tests.bench.figures import Figure
from tests.support.anthropic_streams import call, calls
from tests.support.provider import Provider

MODELS = ["opus", "sol", "openai-chat/gpt-6.1-sol", "argon", "gemini-interactions/gemini-4-argon"]
STEPS = (10, 300)
OUTPUT = "x = 1  # a line of some file\n" * 60
SYSTEM = "s" * 8000
TOOLS = tuple(
    ToolSpec(
        name=f"tool_{number}",
        description="What it does, told in a few sentences. " * 20,
        schema={
            "type": "object",
            "properties": {f"field_{n}": {"type": "string"} for n in range(5)},
            "required": ["field_0"],
            "additionalProperties": False,
        },
    )
    for number in range(8)
)


def conversation(model: Model, steps: int) -> list[Message]:
    history: list[Message] = [UserMessage(content=(Text(text="Fix the bug."),))]
    for step in range(steps):
        made = ToolCall(id=f"call_{step}", name="tool_1", input={"field_0": f"{step} " * 30})
        history.append(
            AssistantMessage(
                content=(Text(text="I will look. " * 5), made),
                stop="tool_calls",
                protocol=model.protocol,
                model=model.name,
            )
        )
        result = ToolResult(
            call_id=made.id, name=made.name, status="ok", content=(Text(text=OUTPUT),)
        )
        history.append(ToolMessage(results=(result,)))
    return history


def median_ms(run: Callable[[], object], *, times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.process_time()
        run()
        taken.append((time.process_time() - start) * 1000)
    return statistics.median(taken)


def next_request_ms(model: Model, steps: int) -> tuple[float, float]:
    """The first request of a resumed conversation, and each one after it."""
    history = conversation(model, steps + 30)
    normal, writer = NormalizedHistory(model), RequestBody(find_dialect(model.protocol))

    def write(length: int) -> None:
        wired = Request(
            model=model.name,
            system=SYSTEM,
            messages=normal.normalize(history[:length]),
            tools=TOOLS,
        )
        writer.write(wired, model)

    cold = median_ms(lambda: write(2 * steps + 1), times=1)
    lengths = iter(range(2 * steps + 3, 2 * steps + 61, 2))
    return cold, median_ms(lambda: write(next(lengths)), times=25)


def round_trip_ms(steps: int) -> float:
    """From a request being asked for to its short reply being read, over a real socket."""
    reply = calls(call("toolu_x", "tool_1", {"field_0": "x"}))
    arrivals: list[float] = []

    async def session(provider: Provider) -> None:
        model = resolve("opus")
        wire = open_provider(
            model,
            key=Key(value="sk-test-0123456789", source="TEST"),
            base_url=provider.base_url,
            environ={},
        )
        history = conversation(model, steps)
        for _ in range(21):
            request = Request(model="", system=SYSTEM, messages=tuple(history), tools=TOOLS)
            start = time.perf_counter()
            message = await wire.send(request, lambda delta: None)
            arrivals.append((time.perf_counter() - start) * 1000)
            results = tuple(
                ToolResult(call_id=it.id, name=it.name, status="ok", content=(Text(text=OUTPUT),))
                for it in message.tool_calls
            )
            history += [message, ToolMessage(results=results)]
        await wire.close()

    with Provider([reply] * 21) as provider:
        asyncio.run(session(provider))
    return statistics.median(arrivals[1:])


def figures() -> Iterator[Figure]:
    for steps in STEPS:
        yield Figure(what=f"{steps} steps, request and reply", value=round_trip_ms(steps))
    for name in MODELS:
        model = resolve(name)
        (_, early_ms), (cold_ms, late_ms) = (next_request_ms(model, steps) for steps in STEPS)
        yield Figure(what=f"{name}, {STEPS[-1]} steps, first request", value=cold_ms)
        yield Figure(
            what=f"{name}, {STEPS[-1]} steps, next request",
            value=late_ms,
            floor=early_ms,
            floor_is=f"at {STEPS[0]} steps",
        )
