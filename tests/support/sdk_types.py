"""The request types of the official SDKs. Importing an SDK takes a second, so only tests do it."""

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


@cache
def load_request_type(protocol: str) -> TypeAdapter[Any]:
    module, name = _REQUESTS[protocol]
    return TypeAdapter(getattr(import_module(module), name))
