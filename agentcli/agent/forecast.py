"""What a request will cost, said before it is sent, when that is much."""

from agentcli.types.messages import Usage
from agentcli.types.wire import Price

LARGE_USD = 0.25
LARGE_TOKENS = 100_000
"""Where nobody knows the price: so many that are not in a cache."""


def forecast_cost(*, tokens: int, cached_tokens: int, why_cold: str, price: Price) -> str | None:
    """A sentence for a person; None: it is nothing to speak of.

    `cached_tokens`: what the provider counted of the request before, and may have kept.
    `why_cold`: why it has to be read anew all the same."""
    cached = 0 if why_cold else min(cached_tokens, tokens)
    cost_usd = price(Usage(input_tokens=tokens - cached, cache_read_tokens=cached))
    if (tokens - cached < LARGE_TOKENS) if cost_usd is None else cost_usd < LARGE_USD:
        return None
    cost = "its price is not known" if cost_usd is None else f"about ${cost_usd:.2f}"
    where = f"none known to be cached ({why_cold})" if why_cold else "most of it cached"
    return f"the next request has about {tokens:,} tokens of prompt, {where}: {cost}"
