"""Recorded replies of both OpenAI protocols: `python -m tests.support.openai_fixtures`.

A case is a `stream.sse` as a server sends it. From it follow `message.json`, the neutral message,
and `request.json`, the body that carries this message back with an answer to each of its calls; or
`error.json`, where the stream holds no whole reply. Whoever regenerates them reads the difference.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentcli.providers.dialect import Dialect, Model
from agentcli.providers.http.sse import EventStream
from agentcli.providers.normalize import normalize
from agentcli.providers.openai import chat as openai_chat
from agentcli.providers.openai import chat_quirks
from agentcli.providers.openai import responses as openai_responses
from agentcli.types.deltas import Delta
from agentcli.types.errors import ProviderError
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

FIXTURES = Path(__file__).parents[2] / "fixtures/wire"

SYSTEM = "You are a coding agent."
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
        name="apply_patch",
        description="Patch files.",
        schema={
            "type": "object",
            "properties": {"patch": {"type": "string"}},
            "required": ["patch"],
            "additionalProperties": False,
        },
        grammar='start: "*** Begin Patch"',
    ),
)

RESPONSES = Model(
    provider="openai",
    name="gpt-6.1-sol",
    protocol="openai-responses",
    thinking=True,
    patch_tool=True,
)
CHAT = Model(
    provider="ollama",
    name="qwen3-coder",
    protocol="openai-chat",
    strict_tools=False,
    quirks=frozenset({chat_quirks.MAX_TOKENS}),
)
DIALECTS: dict[str, tuple[Dialect, Model]] = {
    "openai-responses": (openai_responses, RESPONSES),
    "openai-chat": (openai_chat, CHAT),
}


def cases(protocol: str) -> list[Path]:
    return sorted(path.parent for path in (FIXTURES / protocol).glob("*/stream.sse"))


def decoded(
    chunks: Iterable[bytes], protocol: str, model: Model | None = None
) -> tuple[AssistantMessage, list[Delta]]:
    """The message of a stream that comes in these chunks, and what was shown meanwhile."""
    dialect, default = DIALECTS[protocol]
    stream, decoder = EventStream(), dialect.open_exchange(model or default, None).decoder
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
        ToolResult(
            call_id=call.id, name=call.name, status="ok", content=(Text(text=f"result {number}"),)
        )
        for number, call in enumerate(message.tool_calls, start=1)
    )
    return [message, ToolMessage(results=results)] if results else [message]


def request(messages: Iterable[Message], model: Model) -> Request:
    return Request(
        model=model.name,
        system=SYSTEM,
        messages=normalize([*messages], model),
        tools=TOOLS,
        session="20261116-021530-ab12",
        output_limit_tokens=4096,
    )


def made(case: Path) -> dict[str, Any]:
    """What the case's stream leads to, by file name."""
    protocol = case.parent.name
    dialect, model = DIALECTS[protocol]
    try:
        message, _ = decoded([(case / "stream.sse").read_bytes()], protocol)
    except ProviderError as error:
        fields = {"kind": error.kind, "message": str(error), "retry_after_s": error.retry_after_s}
        return {"error.json": fields}
    body = dialect.encode(request([PROMPT, *answered(message)], model), model)
    return {"message.json": asdict(message), "request.json": body}


def write() -> None:
    for protocol in DIALECTS:
        for case in cases(protocol):
            for name, value in made(case).items():
                text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
                (case / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
