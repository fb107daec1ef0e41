"""Estimates of the length of a prompt that its provider has not counted (yet)."""

import json
from collections.abc import Iterator, Sequence

from agentcli.system.tokens import estimate
from agentcli.types.messages import (
    AssistantMessage,
    Document,
    Image,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolSpec

IMAGE_TOKENS = 1500
"""The approximate size of a screenshot."""


def count_request_tokens(request: Request) -> int:
    """Return the size of all that is sent.

    A count by the provider already includes the system prompt and the tools.
    """
    counted, new = _split(request.messages)
    around = (
        0 if counted else estimate(request.system) + sum(map(_count_spec_tokens, request.tools))
    )
    return counted + around + sum(map(_estimate, new))


def count_history_tokens(messages: Sequence[Message]) -> int:
    """Return the last count by a provider plus an estimate of what follows.

    All is estimated if no provider has counted.
    """
    counted, new = _split(messages)
    return counted + sum(map(_estimate, new))


def _split(messages: Sequence[Message]) -> tuple[int, Sequence[Message]]:
    """Return the tokens that a provider has counted, and the messages after them."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and message.usage.prompt_tokens:
            counted = message.usage.prompt_tokens + message.usage.output_tokens
            return counted, messages[index + 1 :]
    return 0, messages


def _count_spec_tokens(spec: ToolSpec) -> int:
    return estimate(spec.name + spec.description + json.dumps(spec.schema))


def _estimate(message: Message) -> int:
    return sum(
        IMAGE_TOKENS if isinstance(part, Image) else estimate(part)
        for part in iterate_parts(message)
    )


def iterate_parts(message: Message) -> Iterator[str | Image]:
    """Yield the parts of a message that count: its texts and its images."""
    match message:
        case AssistantMessage():
            for block in message.content:
                match block:
                    case ToolCall():
                        yield block.name + json.dumps(block.input)
                    case Text() | Thinking():
                        yield block.text
        case UserMessage():
            yield from map(_convert_part, message.content)
        case ToolMessage():
            for result in message.results:
                yield from map(_convert_part, result.content)


def _convert_part(part: Text | Image | Document) -> str | Image:
    return part if isinstance(part, Image) else part.text
