import asyncio

import pytest

from agentcli.agent.limits import SHORTEST_REPLY_TOKENS, UNKNOWN_OUTPUT_TOKENS, Budget, Share
from agentcli.types.deltas import AttemptBrokenOff
from agentcli.types.errors import EXIT_OF_ENDING, Ending, Exit, ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Text, Usage, UserMessage
from agentcli.types.provider import OnDelta, Price, Request
from tests.support.session import FunctionTool, ListWire, Reply, bench, call, reply

REQUEST = Request(
    model="test/model",
    system="Be brief.",
    messages=(UserMessage(content=(Text(text="word " * 100),)),),
)


def a_dollar_per_thousand(usage: Usage) -> float:
    return (usage.prompt_tokens + usage.output_tokens) / 1000


def unknown(usage: Usage) -> None:
    return None


class BrokenWire(ListWire):
    """Breaks off, and has used something all the same."""

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        on_delta(
            AttemptBrokenOff(usage=Usage(input_tokens=120, output_tokens=300, is_estimate=True))
        )
        raise ProviderError("cut", kind=ProviderErrorKind.CUT)


def ask(
    wire: ListWire,
    budget: Budget,
    *,
    request: Request = REQUEST,
    price: Price = a_dollar_per_thousand,
    limit: int | None = 1000,
) -> AssistantMessage:
    budgeted = budget.wrap_provider(wire, price=price, output_limit=lambda: limit)
    return asyncio.run(budgeted.send(request, lambda delta: None))


def test_without_caps_the_wire_is_left_alone() -> None:
    wire = ListWire([])
    assert Budget().wrap_provider(wire, price=unknown, output_limit=lambda: None) is wire


def test_request_that_could_cross_the_cap_is_not_sent() -> None:
    wire = ListWire([reply("never")])
    with pytest.raises(ProviderError) as caught:
        ask(wire, Budget(cost_usd=1.0))
    assert (caught.value.kind, caught.value.ending) == (
        ProviderErrorKind.COST_CAP,
        Ending.COST_LIMIT,
    )
    assert EXIT_OF_ENDING[caught.value.ending] is Exit.LIMIT
    assert wire.requests == []


def test_output_limit_is_lowered_to_what_is_left() -> None:
    wire = ListWire([reply("ok", usage=Usage(input_tokens=120, output_tokens=1))])
    ask(wire, Budget(cost_usd=3.0), limit=100_000)
    (sent,) = wire.requests
    assert sent.output_limit_tokens is not None
    assert SHORTEST_REPLY_TOKENS <= sent.output_limit_tokens < 3000
    worst = a_dollar_per_thousand(Usage(input_tokens=120, output_tokens=sent.output_limit_tokens))
    assert worst <= 3.0


def test_output_limit_is_left_alone_where_there_is_room() -> None:
    wire = ListWire([reply("ok")])
    ask(wire, Budget(cost_usd=1000.0), limit=1000)
    assert wire.requests == [REQUEST]


def test_model_of_unknown_limits_is_not_trusted_to_be_brief() -> None:
    wire = ListWire([reply("ok")])
    ask(wire, Budget(cost_usd=UNKNOWN_OUTPUT_TOKENS / 1000), limit=None)
    assert wire.requests[0].output_limit_tokens is not None


def test_unknown_price_cannot_be_capped() -> None:
    wire = ListWire([reply("ok")])
    ask(wire, Budget(cost_usd=0.01), price=unknown)
    assert wire.requests == [REQUEST]


def test_every_kind_of_token_counts() -> None:
    usage = Usage(input_tokens=10, cache_read_tokens=20, cache_write_tokens=5, output_tokens=9_000)
    wire, budget = ListWire([reply("1", usage=usage), reply("2")]), Budget(tokens=10_000)
    ask(wire, budget)
    with pytest.raises(ProviderError) as caught:
        ask(wire, budget)
    assert caught.value.kind is ProviderErrorKind.TOKEN_CAP
    assert "9035 are used" in str(caught.value)


def test_attempt_that_broke_off_counts() -> None:
    budget = Budget(cost_usd=100)
    for _ in range(2):
        with pytest.raises(ProviderError, match="cut"):
            ask(BrokenWire([]), budget)
    with pytest.raises(ProviderError, match=r"about \$0.8400 is spent") as caught:
        ask(ListWire([]), budget, limit=100_000, request=_of_words(100_000))
    assert caught.value.kind is ProviderErrorKind.COST_CAP


def _of_words(count: int) -> Request:
    return Request(
        model="m",
        system="",
        messages=(UserMessage(content=(Text(text="word " * count),)),),
    )


def test_dearest_way_to_read_a_prompt_is_assumed() -> None:
    def price(usage: Usage) -> float:
        return usage.input_tokens * 0.001 + usage.cache_write_tokens * 1.0

    with pytest.raises(ProviderError):
        ask(ListWire([reply("never")]), Budget(cost_usd=50.0), price=price)


def test_limit_ends_a_turn_before_the_request_and_nothing_is_recorded_as_failed() -> None:
    usage = Usage(output_tokens=2000)
    replies = [reply(call("echo", f"c{n}", n=n), usage=usage) for n in range(9)]
    echo = FunctionTool("echo", lambda args, context: "ok")
    done = bench(replies, [echo], budget=Budget(cost_usd=5.0), price=a_dollar_per_thousand)
    ended = done.turn()
    assert ended.ending is Ending.COST_LIMIT
    assert len(done.wire.requests) == 2
    assert [entry.fact.type for entry in done.entries].count("model_failed") == 0


class SlowWire(ListWire):
    """Lets others ask before it answers, and knows how many did."""

    def __init__(self, replies: list[Reply]) -> None:
        super().__init__(replies)
        self.on_their_way = 0
        self.most = 0

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        self.on_their_way += 1
        self.most = max(self.most, self.on_their_way)
        for _ in range(10):
            await asyncio.sleep(0)
        self.on_their_way -= 1
        return await super().send(request, on_delta)


@pytest.mark.parametrize(("cap", "together"), [(20_000, 3), (4_000, 1)])
def test_requests_on_their_way_are_held_against_the_cap(cap: int, together: int) -> None:
    wire = SlowWire([reply("ok", usage=Usage(input_tokens=100, output_tokens=10))] * 3)
    budgeted = Budget(tokens=cap).wrap_provider(wire, price=unknown, output_limit=lambda: 3_000)

    async def all_at_once() -> None:
        await asyncio.gather(*(budgeted.send(REQUEST, lambda delta: None) for _ in range(3)))

    asyncio.run(all_at_once())
    assert (len(wire.requests), wire.most) == (3, together)


def test_request_that_waited_in_vain_is_not_sent() -> None:
    wire = SlowWire([reply("ok", usage=Usage(input_tokens=100, output_tokens=3_000))] * 2)
    budgeted = Budget(tokens=4_000).wrap_provider(wire, price=unknown, output_limit=lambda: 3_000)

    async def both() -> list[AssistantMessage | BaseException]:
        asked = (budgeted.send(REQUEST, lambda delta: None) for _ in range(2))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second = asyncio.run(both())
    assert isinstance(first, AssistantMessage)
    assert isinstance(second, ProviderError)
    assert (second.kind, len(wire.requests)) == (ProviderErrorKind.TOKEN_CAP, 1)


def test_share_is_set_aside_before_it_is_spent_and_given_back_after() -> None:
    budget = Budget(cost_usd=10.0)
    shares = [budget.open_share(4.0), budget.open_share(4.0)]
    with pytest.raises(ProviderError, match=r"is more than is left: \$2.0000 of \$10") as caught:
        budget.open_share(2.5)
    assert caught.value.kind is ProviderErrorKind.COST_CAP

    async def send(share: Share | None, replies: int) -> list[AssistantMessage]:
        wire = ListWire([reply("x", usage=Usage(output_tokens=1500)) for _ in range(replies)])
        budgeted = budget.wrap_provider(
            wire, price=a_dollar_per_thousand, output_limit=lambda: 1500, share=share
        )
        return [await budgeted.send(REQUEST, lambda delta: None) for _ in range(replies)]

    asyncio.run(send(shares[0], 1))
    assert shares[0].left_usd == pytest.approx(2.5)
    with pytest.raises(ProviderError, match=r"the limit of \$4 is reached: .*by this agent"):
        asyncio.run(send(shares[0], 2))  # the second of these could cost more than what is left
    budget.close_share(shares[0])
    budget.close_share(shares[1])
    assert budget.open_share(7.0).left_usd == 7.0


def test_request_of_the_session_waits_for_what_an_agent_gives_back() -> None:
    async def wait_for_share() -> AssistantMessage:
        budget = Budget(cost_usd=4.0)
        share = budget.open_share(3.0)
        budgeted = budget.wrap_provider(
            ListWire([reply("sent")]), price=a_dollar_per_thousand, output_limit=lambda: 1500
        )
        sent = asyncio.ensure_future(budgeted.send(REQUEST, lambda delta: None))
        await asyncio.sleep(0)
        assert not sent.done()
        budget.close_share(share)
        return await sent

    assert asyncio.run(wait_for_share()).text == "sent"
