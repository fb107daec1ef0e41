"""Types of the official SDKs. Importing an SDK takes a second, so only tests that need it do it."""

from functools import cache
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter

_REQUESTS = {
    "anthropic": ("anthropic.types.message_create_params", "MessageCreateParamsStreaming"),
    "openai-responses": (
        "openai.types.responses.response_create_params",
        "ResponseCreateParamsStreaming",
    ),
    "openai-chat": (
        "openai.types.chat.completion_create_params",
        "CompletionCreateParamsStreaming",
    ),
}


def load_type(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


@cache
def load_request_type(protocol: str) -> TypeAdapter[Any]:
    return TypeAdapter(load_type(*_REQUESTS[protocol]))
