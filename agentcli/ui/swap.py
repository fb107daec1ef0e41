"""What going on with another model would mean, in lines for a person."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentcli.app.swap import check_session_swap
from agentcli.settings import Settings

if TYPE_CHECKING:
    from agentcli.wire.swap import SwapForecast


def show_swap(session: str, settings: Settings) -> None:
    for line in render_swap(check_session_swap(session, settings)):
        sys.stdout.write(f"{line}\n")


def render_swap(found: "SwapForecast") -> Iterator[str]:
    name = f"{found.model.provider}/{found.model.name}"
    if found.dropped:
        yield f"{name} would not get:"
        yield from (f"  - {sentence}" for sentence in found.dropped)
    else:
        yield f"{name} would get all of it."
    yield f"{_format_size(found)} {_format_cost(found)}"


def _format_size(found: "SwapForecast") -> str:
    tokens = f"The next prompt has about {found.prompt_tokens:,} tokens"
    match found.fits:
        case None:
            return f"{tokens}; how many the model takes is not known."
        case True:
            return f"{tokens} and fits the {found.model.window_tokens:,} it takes."
        case False:
            window = f"{found.model.window_tokens:,}"
            return f"{tokens} and does not fit the {window} it takes: shorten it first, /compact."


def _format_cost(found: "SwapForecast") -> str:
    if found.cost_usd is None:
        return "Its price is not known."
    return f"Sent once, with nothing in the cache, it costs about ${found.cost_usd:.4f}."
