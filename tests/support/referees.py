"""Every dialect with a strict server to judge what it sends, and the requests recorded for each.

`python -m tests.support.referees` writes them anew: each neutral conversation as each dialect sends
it, a request that asks for an answer of a certain shape, and one with hosted tools. Whoever does
so reads the difference.
The models are not those that the conversations' replies came from: every echo in them is foreign.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.providers.catalog import resolve
from agentcli.providers.connection import encode_text
from agentcli.providers.dialect import Dialect, Model
from agentcli.providers.normalize import normalize
from agentcli.providers.transport import find_dialect
from agentcli.types.messages import Json, Text, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.settings import HOSTED_TOOLS
from tests.support.anthropic_fixtures import TOOLS
from tests.support.conversations import NAMES, conversation
from tests.support.provider import Checker, Recorded
from tests.support.strict_anthropic import StrictAnthropic
from tests.support.strict_chat import StrictChat
from tests.support.strict_gemini import StrictGemini
from tests.support.strict_interactions import StrictInteractions
from tests.support.strict_responses import StrictResponses

FIXTURES = Path(__file__).parents[2] / "fixtures/wire"

ANSWER: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "verdict": {"enum": ["good", "bad"]},
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
        "reasons": {"type": "array", "items": {"type": "string", "minLength": 1}},
    },
    "required": ["verdict", "score", "reasons"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Referee:
    model: Model
    checker: Callable[[], Checker]
    """A new conversation's."""

    @property
    def dialect(self) -> Dialect:
        return find_dialect(self.model.protocol)

    @property
    def folder(self) -> Path:
        return FIXTURES / self.model.protocol

    def body(self, messages: Sequence[Message], **more: Any) -> dict[str, Any]:
        request = Request(
            model=self.model.name,
            system="You are a coding agent.",
            messages=normalize(messages, self.model),
            tools=TOOLS,
            **more,
        )
        return self.dialect.encode(request, self.model)

    def sent(self, body: dict[str, Any]) -> Recorded:
        headers = {**self.dialect.build_headers("key"), "content-type": "application/json"}
        return Recorded(
            method="POST",
            path=self.dialect.open_exchange(self.model, None).path,
            headers={name.lower(): value for name, value in headers.items()},
            body=encode_text(body),
            connection=0,
        )


REFEREES = {
    referee.model.protocol: referee
    for referee in (
        Referee(model=resolve("anthropic/claude-sonnet-5-5"), checker=StrictAnthropic),
        Referee(model=resolve("openai/gpt-6-astra"), checker=lambda: StrictResponses().check),
        Referee(model=resolve("openai-chat/gpt-6-astra"), checker=lambda: StrictChat().check),
        Referee(
            model=resolve("gemini/gemini-4-hydrogen"),
            checker=lambda: StrictGemini("gemini-4-hydrogen").check,
        ),
        Referee(
            model=resolve("gemini-interactions/gemini-4-hydrogen"),
            checker=lambda: StrictInteractions("gemini-4-hydrogen").check,
        ),
    )
}


def made(referee: Referee) -> dict[str, Any]:
    """The dialect's recorded requests, by file name."""
    prompt = UserMessage(content=(Text(text="Judge it."),))
    bodies = {f"conversations/{name}.json": referee.body(conversation(name)) for name in NAMES}
    return {
        **bodies,
        "answer_schema.json": referee.body([prompt], answer_schema=ANSWER),
        "hosted.json": referee.body([prompt], hosted=HOSTED_TOOLS),
    }


def write() -> None:
    for referee in REFEREES.values():
        for name, value in made(referee).items():
            path = referee.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write()
