import pytest

from agentcli.agent.prompt_cache import (
    CHEAP_TOKENS,
    LARGE_USD,
    build_prompt_usage,
    forecast_cost,
)
from agentcli.providers.catalog import compute_cost_usd, list_model_names, resolve
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


@pytest.mark.parametrize("name", list_model_names())
def test_no_model_makes_a_short_prompt_cost_much(name: str) -> None:
    cost_usd = compute_cost_usd(resolve(name), build_prompt_usage(CHEAP_TOKENS, is_long=True))
    assert cost_usd is None or cost_usd < LARGE_USD
