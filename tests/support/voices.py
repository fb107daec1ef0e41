"""The five protocols on one loopback server: each reply said in its own, each request checked.

A voice says the same things in every protocol, thoughts with their signatures among them, so that a
test of a whole session can be written once.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tests.support import anthropic_streams, responses_streams, strict_chat
from tests.support.provider import Provider, Recorded, Reply, sse, stream
from tests.support.strict_anthropic import StrictAnthropic
from tests.support.strict_chat import StrictChat
from tests.support.strict_gemini import StrictGemini
from tests.support.strict_interactions import StrictInteractions
from tests.support.strict_responses import StrictResponses

Called: TypeAlias = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""
Object: TypeAlias = dict[str, Any]


class Voice(Protocol):
    model: str
    """As the settings name it."""
    path: str
    """Where its requests go."""
    history: str
    """The key of a request's conversation."""

    def says(self, number: int, text: str, calls: Sequence[Called]) -> Reply:
        """A thought, a text, and calls. `number`: different in each reply of a test."""
        ...

    def check(self, request: Recorded) -> str | None: ...

    def vouched(self, number: int) -> str:
        """What that reply wants back, so that its thought counts; empty: nothing."""
        ...


class Anthropic:
    model = "anthropic/claude-opus-5-5"
    path = "/v1/messages"
    history = "messages"

    def __init__(self) -> None:
        self.check = StrictAnthropic()

    def says(self, number: int, text: str, calls: Sequence[Called]) -> Reply:
        self.check.thinking[self.vouched(number)] = f"Thought {number}."
        blocks = [
            anthropic_streams.thinking(f"Thought {number}.", signature=self.vouched(number)),
            anthropic_streams.text(text),
            *(
                anthropic_streams.call(f"toolu_{number}_{place}", name, dict(arguments))
                for place, (name, arguments) in enumerate(calls)
            ),
        ]
        stop = "tool_use" if calls else "end_turn"
        return stream(sse(anthropic_streams.events(blocks, stop_reason=stop)))

    def vouched(self, number: int) -> str:
        return f"sig-anthropic-{number}"


class Responses:
    model = "openai/gpt-6.1-sol"
    path = "/v1/responses"
    history = "input"

    def __init__(self) -> None:
        self.server = StrictResponses()
        self.check = self.server.check

    def says(self, number: int, text: str, calls: Sequence[Called]) -> Reply:
        first = number * 10
        return self.server.reply(
            responses_streams.thought(first, sealed="sealed"),
            responses_streams.said(text, number=first + 1),
            *(
                responses_streams.called(name, json.dumps(arguments), number=first + 2 + place)
                for place, (name, arguments) in enumerate(calls)
            ),
        )

    def vouched(self, number: int) -> str:
        return f"sealed-{number * 10}"


class Chat:
    model = "openai-chat/deepseek-v4"
    path = "/v1/chat/completions"
    history = "messages"

    def __init__(self) -> None:
        self._server = StrictChat()
        self.check = self._server.check

    def says(self, number: int, text: str, calls: Sequence[Called]) -> Reply:
        made = [
            (f"call_{number}_{place}", name, json.dumps(arguments))
            for place, (name, arguments) in enumerate(calls)
        ]
        thought = {"reasoning_content": self.vouched(number)}
        message = strict_chat.called(*made, text=text) if made else strict_chat.said(text)
        return self._server.reply({**message, **thought})

    def vouched(self, number: int) -> str:
        """Wanted back with each reply."""
        return f"Thought {number}."


class Gemini:
    model = "gemini/gemini-4-argon"
    path = "/v1beta/models/gemini-4-argon:streamGenerateContent?alt=sse"
    history = "contents"

    def __init__(self) -> None:
        self._server = StrictGemini("gemini-4-argon")
        self.check = self._server.check

    def says(self, number: int, text: str, calls: Sequence[Called]) -> Reply:
        signed = {"thoughtSignature": self.vouched(number)}
        made: list[Object] = [
            {
                "functionCall": {
                    "id": f"f{number}_{place}",
                    "name": name,
                    "args": dict(arguments),
                },
                **(signed if place == 0 else {}),
            }
            for place, (name, arguments) in enumerate(calls)
        ]
        parts = [
            {"text": f"Thought {number}.", "thought": True},
            {"text": text, **({} if made else signed)},
            *made,
        ]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        return self._server.reply({"candidates": [candidate]})

    def vouched(self, number: int) -> str:
        return f"c2lnbmVk{number:04}"


class Interactions:
    model = "gemini-interactions/gemini-4-argon"
    path = "/v1beta/interactions"
    history = "input"

    def __init__(self) -> None:
        self._server = StrictInteractions("gemini-4-argon")
        self.check = self._server.check

    def says(self, number: int, text: str, calls: Sequence[Called]) -> Reply:
        thought = {"type": "text", "text": f"Thought {number}."}
        return self._server.reply(
            {"type": "thought", "signature": self.vouched(number), "summary": [thought]},
            {"type": "model_output", "content": [{"type": "text", "text": text}]},
            *(
                {
                    "type": "function_call",
                    "id": f"i{number}_{place}",
                    "name": name,
                    "arguments": dict(arguments),
                }
                for place, (name, arguments) in enumerate(calls)
            ),
            status="requires_action" if calls else "completed",
        )

    def vouched(self, number: int) -> str:
        return f"c2lnSW50{number:04}"


VOICES: tuple[type[Voice], ...] = (Anthropic, Responses, Chat, Gemini, Interactions)


@dataclass(frozen=True)
class Choir(AbstractContextManager["Choir"]):
    """One server for all of them: whoever is asked answers with the next reply of the script."""

    server: Provider
    voices: Sequence[Voice]

    def __enter__(self) -> "Choir":
        self.server.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.server.__exit__(*error)

    @property
    def environ(self) -> dict[str, str]:
        url, key = self.server.base_url, "sk-test-0123456789"
        names = ("ANTHROPIC", "OPENAI", "GEMINI")
        return {f"{name}_BASE_URL": url for name in names} | {f"{n}_API_KEY": key for n in names}

    def requests(self, voice: Voice) -> list[Object]:
        """Those that were made of it, in order."""
        return [it.json for it in self.server.requests if it.path == voice.path]


def choir(voices: Sequence[Voice], script: Sequence[Reply]) -> Choir:
    by_path = {voice.path: voice for voice in voices}

    def check(request: Recorded) -> str | None:
        voice = by_path.get(request.path)
        return voice.check(request) if voice else f"nobody is asked at {request.path}"

    return Choir(Provider(script, check=check, complain=_complaint), voices)


def _complaint(message: str) -> Any:
    """As far as they are alike."""
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
