"""Items of the Responses protocol, and the stream of a response that is made of them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]


def events(items: Sequence[Object], *, response_id: str = "resp_00") -> list[Object]:
    """The stream of a completed response made of these items."""
    made: list[Object] = [{"type": "response.created", "response": {"id": response_id}}]
    for index, item in enumerate(items):
        opened = {**item, "status": "in_progress"}
        for key in ("arguments", "input"):
            if key in item:
                opened[key] = ""
        made.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        made += _deltas(item, index)
        made.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    }
    response = {
        "id": response_id,
        "object": "response",
        "status": "completed",
        "output": list(items),
        "usage": usage,
    }
    made.append({"type": "response.completed", "response": response})
    return [{**event, "sequence_number": number} for number, event in enumerate(made)]


def _deltas(item: Object, index: int) -> list[Object]:
    match item["type"]:
        case "function_call":
            kind, text = "function_call_arguments", item["arguments"]
        case "custom_tool_call":
            kind, text = "custom_tool_call_input", item["input"]
        case "message":
            kind, text = "output_text", "".join(part["text"] for part in item["content"])
        case _:
            return []
    half = len(text) // 2
    return [
        {"type": f"response.{kind}.delta", "output_index": index, "delta": piece}
        for piece in (text[:half], text[half:])
    ]


def said(text: str, *, number: int = 0, phase: str = "final_answer") -> Object:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{number:02}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        "phase": phase,
    }


def thought(number: int = 0, *, sealed: str | None = "gAAAA-sealed") -> Object:
    summary = [{"type": "summary_text", "text": f"Thought {number}."}]
    item = {"id": f"rs_{number:02}", "type": "reasoning", "summary": summary}
    return item if sealed is None else {**item, "encrypted_content": f"{sealed}-{number}"}


def called(name: str, arguments: str, *, number: int = 0) -> Object:
    return {
        "id": f"fc_{number:02}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{number:02}",
        "name": name,
        "arguments": arguments,
    }


def patched(text: str, *, number: int = 0) -> Object:
    return {
        "id": f"ctc_{number:02}",
        "type": "custom_tool_call",
        "call_id": f"call_{number:02}",
        "name": "apply_patch",
        "input": text,
    }
