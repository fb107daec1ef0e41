"""Streamed replies of the Anthropic protocol, built block by block."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.support.provider import Reply, sse, stream

Event = dict[str, Any]
Deltas = tuple[Event, list[Event]]
"""A block as it starts, and the deltas that complete it."""


def text(*pieces: str) -> Deltas:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return {"type": "text", "text": ""}, deltas


def thinking(*pieces: str, signature: str | None = "c2lnbmF0dXJl") -> Deltas:
    deltas: list[Event] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    if signature is not None:
        deltas.append({"type": "signature_delta", "signature": signature})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def call(call_id: str, name: str, arguments: Any, *, pieces: int = 2) -> Deltas:
    """Arguments that are a string are sent as they are: they need not be JSON."""
    whole = arguments if isinstance(arguments, str) else json.dumps(arguments)
    size = max(1, -(-len(whole) // pieces))
    parts = ["", *(whole[start : start + size] for start in range(0, len(whole), size))]
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas


def whole(block: Event) -> Deltas:
    """A block that comes at once, as a server's own tools do."""
    return block, []


def events(
    blocks: Iterable[Deltas],
    *,
    stop_reason: str = "end_turn",
    stop_details: Event | None = None,
    usage: Event | None = None,
    final_usage: Event | None = None,
    container: str | None = None,
) -> list[Event]:
    message: Event = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 12, "output_tokens": 1},
    }
    made: list[Event] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        made.append({"type": "content_block_start", "index": index, "content_block": block})
        made += [{"type": "content_block_delta", "index": index, "delta": it} for it in deltas]
        made.append({"type": "content_block_stop", "index": index})
    made.append(
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": stop_reason,
                "stop_sequence": None,
                **({"stop_details": stop_details} if stop_details else {}),
                **({"container": {"id": container}} if container else {}),
            },
            "usage": final_usage or {"output_tokens": 34},
        }
    )
    return [*made, {"type": "message_stop"}]


def says(*pieces: str) -> Reply:
    return stream(sse(events([text(*pieces)])))


def calls(*blocks: Deltas, before: Sequence[Deltas] = ()) -> Reply:
    return stream(sse(events([*before, *blocks], stop_reason="tool_use")))
