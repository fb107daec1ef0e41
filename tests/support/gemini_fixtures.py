"""The recorded cases of both Gemini protocols.

A case is a `stream.sse` as the service sends it. From it follow `message.json`, the neutral
message, and `request.json`, the body that carries this message back with an answer to each of its
calls; or `error.json`, where the stream holds no whole reply. `python -m
tests.support.gemini_fixtures` writes them anew; whoever does so reads the difference.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentcli.providers.dialect import Dialect, Model
from agentcli.providers.gemini import generate as gemini
from agentcli.providers.gemini import interactions as gemini_interactions
from agentcli.providers.http.sse import EventStream
from agentcli.providers.normalize import normalize
from agentcli.types.deltas import Delta
from agentcli.types.errors import ProviderError
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

FIXTURES = Path(__file__).parents[2] / "fixtures/wire"

DIALECTS: dict[str, Dialect] = {
    "gemini": gemini,
    "gemini-interactions": gemini_interactions,
}

READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    schema={
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
BASH = ToolSpec(
    name="bash",
    description="Run a command.",
    schema={
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
)


def model(protocol: str, name: str = "gemini-4-argon", *, quirks: Iterable[str] = ()) -> Model:
    return Model(
        provider="gemini", name=name, protocol=protocol, thinking=True, quirks=frozenset(quirks)
    )


def cases(protocol: str) -> list[Path]:
    return sorted(path.parent for path in (FIXTURES / protocol).glob("*/stream.sse"))


def decoded(chunks: Iterable[bytes], asked: Model) -> tuple[AssistantMessage, list[Delta]]:
    """The message of a stream that comes in these chunks, and what was shown meanwhile."""
    stream, decoder = EventStream(), DIALECTS[asked.protocol].open_exchange(asked, None).decoder
    shown: list[Delta] = []
    for chunk in chunks:
        for event in stream.feed(chunk):
            shown += decoder.feed(event)
    for event in stream.end():
        shown += decoder.feed(event)
    return decoder.message(), shown


def said(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),))


def answered(message: AssistantMessage) -> list[Message]:
    """The message and a short answer to each of its calls."""
    results = tuple(
        ToolResult(
            call_id=call.id, name=call.name, status="ok", content=(Text(text=f"result {number}"),)
        )
        for number, call in enumerate(message.tool_calls, start=1)
    )
    return [message, ToolMessage(results=results)] if results else [message]


def encoded(asked: Model, *messages: Message, **more: Any) -> dict[str, Any]:
    """The body for a conversation, as the wire makes it."""
    request = Request(
        **{
            "model": asked.name,
            "system": "You are a coding agent.",
            "messages": normalize(messages, asked),
            "tools": (READ_FILE, BASH),
            **more,
        }
    )
    return DIALECTS[asked.protocol].encode(request, asked)


def made(case: Path) -> dict[str, Any]:
    """What the case's stream leads to, by file name."""
    asked = model(case.parent.name)
    try:
        message, _ = decoded([(case / "stream.sse").read_bytes()], asked)
    except ProviderError as error:
        fields = {"kind": error.kind, "message": str(error), "retry_after_s": error.retry_after_s}
        return {"error.json": {**fields, "status": error.status}}
    body = encoded(asked, said("Fix the bug."), *answered(message))
    return {"message.json": asdict(message), "request.json": body}


def write() -> None:
    for protocol in DIALECTS:
        for case in cases(protocol):
            for name, value in made(case).items():
                text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
                (case / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
