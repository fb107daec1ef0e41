"""What a model says in each dialect, as the bytes of a stream: a call at every step, or the end."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from tests.support import anthropic_streams as anthropic
from tests.support.provider import sse
from tests.support.responses_streams import events as responses_events
from tests.support.strict_chat import by_the_book, called, said
from tests.support.strict_interactions import events_of

Call: TypeAlias = tuple[str, dict[str, Any]]
"""A tool and its arguments."""
Stream: TypeAlias = Callable[[int, Call | None], bytes]
"""The reply at a step that makes this call, or that ends the turn."""

THOUGHT = "The next part of the file should show how it goes on from here. " * 3
SEALED = "c2VhbGVk" * 60


def of_anthropic(step: int, call: Call | None) -> bytes:
    if call is None:
        return anthropic.says("Done.").body
    return anthropic.calls(
        anthropic.call(f"toolu_{step}", *call),
        before=[anthropic.thinking(THOUGHT, signature=SEALED), anthropic.text("I read on.")],
    ).body


def of_responses(step: int, call: Call | None) -> bytes:
    if call is None:
        part = {"type": "output_text", "text": "Done.", "annotations": []}
        told = {"type": "message", "role": "assistant", "status": "completed", "id": "msg_end"}
        items: list[Any] = [{**told, "content": [part]}]
    else:
        name, arguments = call
        thought = {"type": "reasoning", "id": f"rs_{step}", "summary": []}
        made = {"type": "function_call", "id": f"fc_{step}", "call_id": f"call_{step}"}
        given = json.dumps(arguments)
        items = [
            {**thought, "encrypted_content": SEALED},
            {**made, "name": name, "arguments": given, "status": "completed"},
        ]
    return sse(responses_events(items, response_id=f"resp_{step}"))


def of_chat(step: int, call: Call | None) -> bytes:
    message = said("Done.")
    if call is not None:
        name, arguments = call
        made = (f"call_{step}", name, json.dumps(arguments))
        message = called(made, text="I read on.", reasoning_content=THOUGHT)
    return sse(by_the_book(message), named=False, done=True)


def of_gemini(step: int, call: Call | None) -> bytes:
    parts: list[Any] = [{"text": "Done."}]
    if call is not None:
        name, arguments = call
        made = {"id": f"f{step}", "name": name, "args": arguments}
        parts = [
            {"text": THOUGHT, "thought": True},
            {"text": "I read on."},
            {"functionCall": made, "thoughtSignature": SEALED},
        ]
    content = {"role": "model", "parts": parts}
    return sse([{"candidates": [{"content": content, "finishReason": "STOP"}]}], named=False)


def of_interactions(step: int, call: Call | None) -> bytes:
    steps: list[Any] = [{"type": "model_output", "content": [{"type": "text", "text": "Done."}]}]
    if call is not None:
        name, arguments = call
        made = {"type": "function_call", "id": f"f{step}", "name": name}
        summary = [{"type": "text", "text": THOUGHT}]
        steps = [
            {"type": "thought", "signature": SEALED, "summary": summary},
            {**made, "arguments": arguments},
        ]
    return sse(events_of(*steps), named=False, done=True)


DIALECTS: dict[str, Stream] = {
    "anthropic/claude-opus-5-5": of_anthropic,
    "openai/gpt-6.1-sol": of_responses,
    "openai-chat/gpt-6.1-sol": of_chat,
    "gemini/gemini-4-argon": of_gemini,
    "gemini-interactions/gemini-4-argon": of_interactions,
}
