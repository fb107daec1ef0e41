import pytest

from agentcli.agent.prompt_cache import forecast_cost
from agentcli.types.messages import Usage
from agentcli.types.provider import Price


def price(usage: Usage) -> float:
    return (usage.cache_write_tokens * 4 + usage.cache_read_tokens * 0.2) / 1_000_000


def unknown(usage: Usage) -> None:
    return None


@pytest.mark.parametrize(
    ("tokens", "why_cold", "of", "said"),
    [
        (1_000, "it is the first request", price, None),
        (60_000, "it is the first request", price, None),
        (
            90_000,
            "the model changed",
            price,
            "the next request has about 90,000 prompt tokens, "
            "not cached (the model changed): about $0.36",
        ),
        (510_000, "", price, None),
        (
            600_000,
            "",
            price,
            "the next request has about 600,000 prompt tokens, most of it cached: about $0.50",
        ),
        (
            120_000,
            "7 minutes have passed",
            unknown,
            "the next request has about 120,000 prompt tokens, "
            "not cached (7 minutes have passed): price unknown",
        ),
        (510_000, "", unknown, None),
    ],
)
def test_request_that_costs_much_is_told_before_it_is_sent(
    tokens: int, why_cold: str, of: Price, said: str | None
) -> None:
    told = forecast_cost(tokens=tokens, cached_tokens=500_000, why_cold=why_cold, price=of)
    assert told == said
