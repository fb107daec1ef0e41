"""The recorded cases of Anthropic: `python -m tests.support.anthropic_fixtures` writes them.

A case is a `stream.sse` as a server sends it. From it follow `message.json`, the neutral message,
and `request.json`, the body that carries this message back with an answer to each of its calls; or
`error.json`, where the stream holds no whole reply. Whoever regenerates them reads the difference.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentcli.providers.anthropic import messages as anthropic
from agentcli.providers.catalog import resolve
from agentcli.providers.http.sse import EventStream
from agentcli.providers.normalize import normalize
from agentcli.types.deltas import Delta
from agentcli.types.errors import ProviderError
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

FOLDER = Path(__file__).parents[2] / "fixtures/wire/anthropic"
MODEL = resolve("anthropic/claude-opus-5-5")
PROMPT = UserMessage(content=(Text(text="Fix the bug."),))
TOOLS = (
    ToolSpec(
        name="read_file",
        description="Read a file.",
        schema={
            "type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    ),
    ToolSpec(
        name="bash",
        description="Run a command.",
        schema={
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout_s": {"type": "integer", "minimum": 1},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    ),
)


def cases() -> list[Path]:
    return sorted(path.parent for path in FOLDER.glob("*/stream.sse"))


def decoded(chunks: Iterable[bytes]) -> tuple[AssistantMessage, list[Delta]]:
    """The message of a stream that comes in these chunks, and what was shown meanwhile."""
    stream, decoder = EventStream(), anthropic.open_exchange(MODEL, None).decoder
    shown: list[Delta] = []
    for chunk in chunks:
        for event in stream.feed(chunk):
            shown += decoder.feed(event)
    for event in stream.end():
        shown += decoder.feed(event)
    return decoder.message(), shown


def answered(message: AssistantMessage) -> list[Message]:
    """The message and a short answer to each of its calls."""
    results = tuple(
        ToolResult(call_id=call.id, name=call.name, status="ok", content=(Text(text="ok"),))
        for call in message.tool_calls
    )
    return [message, ToolMessage(results=results)] if results else [message]


def request(messages: Sequence[Message]) -> Request:
    return Request(
        model=MODEL.name,
        system="You are a coding agent.",
        messages=normalize(messages, MODEL),
        tools=TOOLS,
    )


def body(messages: Sequence[Message]) -> dict[str, Any]:
    return anthropic.encode(request(messages), MODEL)


def made(case: Path) -> dict[str, Any]:
    """What the case's stream leads to, by file name."""
    try:
        message, _ = decoded([(case / "stream.sse").read_bytes()])
    except ProviderError as error:
        return {"error.json": {"kind": error.kind, "message": str(error)}}
    return {"message.json": asdict(message), "request.json": body([PROMPT, *answered(message)])}


def write() -> None:
    for case in cases():
        for name, value in made(case).items():
            text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
            (case / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
