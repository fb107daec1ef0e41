"""A forecast of a switch to another model: what the conversation loses, and whether it fits.

Shown to the user before anything is sent. Lengths are estimates if no provider has counted.
"""

from collections.abc import Iterator, Sequence

from agentcli.providers.catalog import compute_cost_usd
from agentcli.providers.dialect import Model
from agentcli.providers.length import count_history_tokens, iterate_parts
from agentcli.providers.normalize import is_own, show_image
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Image, Opaque, Thinking, Usage
from agentcli.types.provider import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapForecast:
    model: Model
    dropped: tuple[str, ...]
    """The losses, one sentence each; empty if there are none."""
    prompt_tokens: int
    """The approximate length of the next prompt."""
    fits: bool | None
    """True if the prompt fits the model's window; None if the window is unknown."""
    cost_usd: float | None
    """The cost of sending that prompt once, uncached; None if the price is unknown."""


def forecast_swap(messages: Sequence[Message], model: Model) -> SwapForecast:
    prompt_tokens = count_history_tokens(messages)
    window_tokens = model.window_tokens
    return SwapForecast(
        model=model,
        dropped=list_dropped(messages, model),
        prompt_tokens=prompt_tokens,
        fits=None if window_tokens is None else prompt_tokens < window_tokens,
        cost_usd=compute_cost_usd(model, Usage(input_tokens=prompt_tokens)),
    )


def list_dropped(messages: Sequence[Message], model: Model) -> tuple[str, ...]:
    """Return what this model would not get of the conversation, in sentences for the user."""
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    foreign = [
        block for reply in replies for block in reply.content if not is_own(block.echo, model)
    ]
    thoughts = sum(isinstance(block, Thinking) for block in foreign)
    private = sum(isinstance(block, Opaque) for block in foreign)
    images = sum(
        not isinstance(show_image(image, model), Image) for image in _iter_images(messages)
    )
    sentences = (
        (thoughts, "thinking block", f"of another model, which {model.name} cannot read."),
        (private, "block", "that only another provider can read, such as its searches."),
        (images, "image", f"that {model.name} cannot see; a note replaces each."),
    )
    return tuple(
        f"{count} {noun if count == 1 else noun + 's'} {rest}"
        for count, noun, rest in sentences
        if count
    )


def _iter_images(messages: Sequence[Message]) -> Iterator[Image]:
    every = (part for message in messages for part in iterate_parts(message))
    return (part for part in every if isinstance(part, Image))
