import asyncio

import pytest

from agentcli.agent.usage_recorder import RecordingProvider
from agentcli.types.deltas import AttemptBrokenOff, RetryDelta, TextDelta
from agentcli.types.errors import Ending, ProviderError, ProviderErrorKind
from agentcli.types.events import Event, Fact, ModelFailed, ModelReplied, TokensSpent
from agentcli.types.messages import AssistantMessage, Text, Usage, UserMessage
from agentcli.types.provider import OnDelta, Request
from tests.support.session import Bench, Reply, bench, reply

LOST = Usage(input_tokens=70, output_tokens=3, is_estimate=True)
SPENT = TokensSpent(why="broken_off", usage=LOST, cost_usd=73.0)
RETRY = RetryDelta(reason="cut", status=None, wait_s=0, attempt=2, attempts=3)
GO = UserMessage(content=(Text(text="go"),))


def price(usage: Usage) -> float:
    return float(usage.prompt_tokens + usage.output_tokens)


class FragileWire:
    """Breaks off once, in the middle of a text, and does then what it is told to."""

    def __init__(self, then: Reply | None) -> None:
        """`then` None: it waits to be interrupted, and says what was used until then."""
        self._then = then
        self.waits = asyncio.Event()

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        on_delta(TextDelta(text="half"))
        on_delta(AttemptBrokenOff(usage=LOST))
        on_delta(RETRY)
        if isinstance(self._then, AssistantMessage):
            return self._then
        if self._then is not None:
            on_delta(AttemptBrokenOff(usage=LOST))
            raise self._then
        on_delta(TextDelta(text="other half"))
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            on_delta(AttemptBrokenOff(usage=LOST))
        raise AssertionError("never")

    async def close(self) -> None:
        """There is nothing to let go of."""


def opened(wire: FragileWire) -> Bench:
    return bench([], provider=wire, price=price)


def of_requests(done: Bench) -> list[Fact]:
    return [
        fact
        for fact in done.journal.facts
        if isinstance(fact, TokensSpent | ModelReplied | ModelFailed)
    ]


def test_attempt_that_broke_off_is_recorded_before_the_reply() -> None:
    done = opened(FragileWire(reply("ok", usage=Usage(input_tokens=5))))
    assert done.turn().ending is Ending.DONE
    spent, replied = of_requests(done)
    assert spent == SPENT
    assert isinstance(replied, ModelReplied)
    assert (replied.cost_usd, replied.retries) == (5.0, 1)


def test_attempts_of_a_request_that_failed_are_recorded_before_its_end() -> None:
    done = opened(FragileWire(ProviderError("cut", kind=ProviderErrorKind.CUT)))
    assert done.turn().ending is Ending.PROVIDER_FAILED
    assert of_requests(done) == [SPENT, SPENT, ModelFailed(kind="cut", message="cut")]


def test_what_came_before_an_interrupt_says_what_it_used() -> None:
    async def scenario() -> Bench:
        wire = FragileWire(None)
        done = opened(wire)
        task = asyncio.create_task(done.loop.run_turn(GO))
        await wire.waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done

    spent, replied = of_requests(asyncio.run(scenario()))
    assert spent == SPENT
    assert isinstance(replied, ModelReplied)
    message = replied.message
    assert (message.text, message.usage, replied.cost_usd) == ("other half", LOST, 73.0)


def test_opinion_is_recorded_with_what_broke_off_before_it() -> None:
    told: list[Event] = []
    answer, used = reply("allow", usage=Usage(input_tokens=5)), Usage(input_tokens=5)
    wire = RecordingProvider(FragileWire(answer), emit=told.append, price=price)
    request = Request(model="m", system="", messages=(GO,))
    assert asyncio.run(wire.send(request, lambda delta: None)) == answer
    assert told == [SPENT, TokensSpent(why="evaluation", usage=used, cost_usd=5.0)]
