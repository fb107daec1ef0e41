import pytest

from agentcli.types.events import CallFinished, Compacted, Event, ModelReplied, TokensSpent, Warned
from agentcli.types.messages import AssistantMessage, Stop, Usage
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending, sum_spending
from agentcli.types.tools import ChildTurn, ToolResult

TOLD = Usage(input_tokens=100, output_tokens=10)
ESTIMATED = Usage(input_tokens=100, output_tokens=10, is_estimate=True)


def replied(usage: Usage, cost_usd: float | None, stop: Stop = "end") -> ModelReplied:
    message = AssistantMessage(content=(), stop=stop, protocol="p", model="m", usage=usage)
    return ModelReplied(message=message, cost_usd=cost_usd)


def delegated(usage: Usage, cost_usd: float | None) -> CallFinished:
    child = ChildTurn(role="", ending="done", calls=1, usage=usage, cost_usd=cost_usd, log_path="")
    result = ToolResult(call_id="c", name="delegate", status="ok", content=(), details=child)
    return CallFinished(result=result)


@pytest.mark.parametrize(
    ("event", "spent"),
    [
        (replied(TOLD, 0.5), Spending(requests=1, usage=TOLD, known_usd=0.5)),
        (replied(TOLD, None), Spending(requests=1, usage=TOLD, unpriced=1)),
        (
            replied(ESTIMATED, 0.5, "cancelled"),
            Spending(requests=1, usage=ESTIMATED, known_usd=0.5),
        ),
        (
            TokensSpent(why="broken_off", usage=ESTIMATED, cost_usd=0.5),
            Spending(broken_off=1, usage=ESTIMATED, known_usd=0.5),
        ),
        (
            TokensSpent(why="evaluation", usage=TOLD, cost_usd=0.5),
            Spending(requests=1, usage=TOLD, known_usd=0.5),
        ),
        (
            Compacted(summary="", tokens_before=1, usage=TOLD, cost_usd=0.5),
            Spending(requests=1, usage=TOLD, known_usd=0.5),
        ),
        (delegated(TOLD, 0.5), Spending(usage=TOLD, known_usd=0.5)),
        (Warned(code="c", message="m"), NO_SPENDING),
    ],
)
def test_every_fact_that_costs_is_counted_once(event: Event, spent: Spending) -> None:
    assert compute_spending(event) == spent


def test_interrupted_reply_of_an_old_log_does_not_make_the_price_unknown() -> None:
    spent = sum_spending([replied(TOLD, 0.5), replied(Usage(), None, "cancelled")])
    assert (spent.cost_usd, spent.is_estimate, spent.cost_text) == (0.5, True, "about $0.5000")


@pytest.mark.parametrize(
    ("spending", "asked", "cost"),
    [
        (NO_SPENDING, "0 requests", "$0.0000"),
        (Spending(requests=1, known_usd=0.25), "1 request", "$0.2500"),
        (
            Spending(requests=2, broken_off=1, usage=ESTIMATED, known_usd=0.25),
            "2 requests, 1 attempt broken off",
            "about $0.2500",
        ),
        (Spending(requests=2, unpriced=2), "2 requests", "price not known"),
        (
            Spending(requests=3, known_usd=0.25, unpriced=1),
            "3 requests",
            "$0.2500 and 1 request without a known price",
        ),
    ],
)
def test_sums_in_words(spending: Spending, asked: str, cost: str) -> None:
    assert (spending.request_summary, spending.cost_text) == (asked, cost)
