"""What a request is the first to carry is in it, whole or cut with where to go on, and it fits."""

import asyncio
import re

from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.compaction import Compactor
from agentcli.agent.journal import Journal
from agentcli.system.tokens import RequestSize
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.events import CallFinished, ModelReplied, TurnStarted
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.provider import OnDelta, Request
from agentcli.types.tools import Command, Details, FileView, ToolMessage, ToolResult
from tests.support.examples import examples
from tests.support.session import serve

KEPT = "/out/kept.txt"
LEFT_OUT = "left out to make room, all of it is in"

kinds = st.sampled_from(["read_file", "bash", "grep"])
sizes = st.one_of(st.integers(0, 400), st.integers(0, 6_000))
"""Lines of ten characters."""
replies = st.lists(st.lists(st.tuples(kinds, sizes), min_size=1, max_size=4), max_size=8)


class Summaries:
    """A model that only ever sums up, and takes no more than its window."""

    def __init__(self, window: int) -> None:
        self._window = window

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        if RequestSize().measure(request) > self._window:
            raise ProviderError("too long", kind=ProviderErrorKind.OVERFLOW)
        text = Text(text="What was done.")
        return AssistantMessage(content=(text,), stop="end", protocol="t", model="m")

    async def close(self) -> None:
        """There is nothing to let go of."""


def details(kind: str, lines: int) -> Details | None:
    if kind == "bash":
        return Command(command="x", cwd="/", log_path=KEPT)
    if kind == "read_file":
        return FileView(
            path="a",
            media="text",
            size_bytes=1,
            first_line=1,
            last_line=lines,
            total_lines=lines,
            sha256="1",
            shown=((1, lines),),
        )
    return None


def results(request: Request) -> dict[str, ToolResult]:
    return {
        result.call_id: result
        for message in request.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    }


def assert_carried(carried: ToolResult, whole: ToolResult) -> None:
    assert LEFT_OUT not in carried.text
    if carried.text == whole.text:
        return
    shown = [line for line in carried.text.split("\n") if "[" not in line]
    assert set(shown) <= set(whole.text.split("\n"))
    if isinstance(whole.details, FileView):
        go_on = re.search(r"continue with offset=(\d+)\]$", carried.text)
        assert go_on is not None
        assert int(go_on[1]) == len(shown) + 1
    else:
        assert KEPT in carried.text


@examples(150)
@given(replies, st.sampled_from([8_000, 16_000, 64_000]), st.booleans(), st.booleans())
def test_new_results_are_carried_and_the_request_fits(
    replied: list[list[tuple[str, int]]], window: int, has_same_ids: bool, overflows: bool
) -> None:
    journal = Journal("test", record=lambda entry: None)
    room = Compactor(journal, window=lambda: window, store_result=lambda result: KEPT)
    wire = Summaries(window)
    journal.append(TurnStarted(message=UserMessage(content=(Text(text="Go."),))))
    for step, calls in enumerate(replied):
        asked = [
            ToolCall(id=f"c{at}" if has_same_ids else f"c{step}_{at}", name=kind, input={})
            for at, (kind, _) in enumerate(calls)
        ]
        message = AssistantMessage(content=tuple(asked), stop="tool_calls", protocol="t", model="m")
        journal.append(ModelReplied(message=message))
        new = [
            ToolResult(
                call_id=call.id,
                name=kind,
                status="ok",
                content=(Text(text="\n".join(f"{n}\tx{step:07}" for n in range(1, lines + 1))),),
                details=details(kind, lines),
            )
            for call, (kind, lines) in zip(asked, calls, strict=True)
        ]
        for result in new:
            journal.append(CallFinished(result=result))
        request = Request(model="m", system="s", messages=journal.history.build_messages())
        sent = asyncio.run(room.fit_request(request, by=[serve(wire)]))
        assert RequestSize().measure(sent) <= window
        for result in new:
            assert_carried(results(sent)[result.call_id], result)
        if overflows and asyncio.run(room.recover_from_overflow(sent, by=[serve(wire)])):
            again = Request(model="m", system="s", messages=journal.history.build_messages())
            assert RequestSize().measure(again) <= window
            for result in new:
                assert_carried(results(again)[result.call_id], result)
