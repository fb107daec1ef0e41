"""What going on with another model would mean for a conversation: what is lost, whether it fits.

Said to a person before anything is sent. Lengths are estimates where no provider has counted.
"""

from collections.abc import Iterator, Sequence

from agentcli.providers.catalog import cost_usd
from agentcli.providers.dialect import Model
from agentcli.providers.length import iterate_parts, length_tokens
from agentcli.providers.normalize import is_own, show_image
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Image, Opaque, Thinking, Usage
from agentcli.types.provider import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapForecast:
    model: Model
    dropped: tuple[str, ...]
    """What would be lost, a sentence each; empty: nothing."""
    prompt_tokens: int
    """About how long the next prompt is."""
    fits: bool | None
    """Whether the model takes that much; None: nobody knows how much it takes."""
    cost_usd: float | None
    """Of sending that prompt once, with nothing of it in a cache; None: the price is not known."""


def forecast_swap(messages: Sequence[Message], model: Model) -> SwapForecast:
    prompt_tokens = length_tokens(messages)
    window_tokens = model.window_tokens
    return SwapForecast(
        model=model,
        dropped=list_dropped(messages, model),
        prompt_tokens=prompt_tokens,
        fits=None if window_tokens is None else prompt_tokens < window_tokens,
        cost_usd=cost_usd(model, Usage(input_tokens=prompt_tokens)),
    )


def list_dropped(messages: Sequence[Message], model: Model) -> tuple[str, ...]:
    """What of the conversation this model would not get, in sentences for a person."""
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    foreign = [
        block for reply in replies for block in reply.content if not is_own(block.echo, model)
    ]
    thoughts = sum(isinstance(block, Thinking) for block in foreign)
    private = sum(isinstance(block, Opaque) for block in foreign)
    images = sum(not isinstance(show_image(image, model), Image) for image in _images(messages))
    sentences = (
        (thoughts, "thought", f"of another model: {model.name} cannot read them."),
        (private, "block", "only its own provider reads, such as searches it ran."),
        (images, "image", f"{model.name} cannot see: a note stands in their place."),
    )
    return tuple(
        f"{count} {noun if count == 1 else noun + 's'} {rest}"
        for count, noun, rest in sentences
        if count
    )


def _images(messages: Sequence[Message]) -> Iterator[Image]:
    every = (part for message in messages for part in iterate_parts(message))
    return (part for part in every if isinstance(part, Image))
