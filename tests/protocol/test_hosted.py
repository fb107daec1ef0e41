"""Tools that a provider runs itself, in every dialect that has them, before strict servers."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.reader import read_log
from agentcli.providers.anthropic.provider_tools import find_hosted_calls
from agentcli.session.builder import open_session
from agentcli.types.deltas import RetryDelta
from agentcli.types.errors import Ending
from agentcli.types.events import CallFinished, Event, ModelReplied, TurnEnded, Warned
from agentcli.types.messages import HostedCall, Json, WebSource
from agentcli.types.settings import Settings
from tests.support import anthropic_streams as blocks
from tests.support import responses_streams
from tests.support.provider import Recorded, Reply, sse, stream
from tests.support.voices import (
    Anthropic,
    Chat,
    Choir,
    Gemini,
    Interactions,
    Object,
    Responses,
    Voice,
    choir,
)

QUERY = "python 3.15 release date"
URL = "https://www.python.org/downloads/"
SOURCES = (WebSource(url=URL, title="Downloads"),)
CODE = "print(1)"
READ: Object = {"path": "a.py"}
TEXT = "It is out."


class HostedAnthropic(Anthropic):
    def searches(self) -> Reply:
        def hosted(call_id: str, name: str, given: Object) -> blocks.Deltas:
            whole = json.dumps(given)
            pieces = [{"type": "input_json_delta", "partial_json": it} for it in ("", whole)]
            return {"type": "server_tool_use", "id": call_id, "name": name, "input": {}}, pieces

        found = {
            "type": "web_search_result",
            "url": URL,
            "title": "Downloads",
            "encrypted_content": "EqgfCioIARgB",
            "page_age": None,
        }
        ran = {"type": "bash_code_execution_result", "return_code": 0, "stdout": "1", "content": []}
        cited = {
            "type": "web_search_result_location",
            "url": URL,
            "title": "Downloads",
            "cited_text": "3.15",
            "encrypted_index": "Eo8B",
        }
        said, deltas = blocks.text("It is ", "out.")
        return stream(
            sse(
                blocks.events(
                    [
                        hosted("srvtoolu_1", "web_search", {"query": QUERY}),
                        blocks.whole(
                            {
                                "type": "web_search_tool_result",
                                "tool_use_id": "srvtoolu_1",
                                "content": [found],
                            }
                        ),
                        hosted("srvtoolu_2", "bash_code_execution", {"command": CODE}),
                        blocks.whole(
                            {
                                "type": "bash_code_execution_tool_result",
                                "tool_use_id": "srvtoolu_2",
                                "content": ran,
                            }
                        ),
                        (said, [*deltas, {"type": "citations_delta", "citation": cited}]),
                        blocks.call("toolu_1", "read_file", READ),
                    ],
                    stop_reason="tool_use",
                    final_usage={
                        "output_tokens": 34,
                        "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
                    },
                )
            )
        )


class HostedResponses(Responses):
    def searches(self) -> Reply:
        said = responses_streams.said(TEXT, number=4)
        said["content"][0]["annotations"] = [
            {
                "type": "url_citation",
                "url": URL,
                "title": "Downloads",
                "start_index": 0,
                "end_index": 2,
            }
        ]
        action = {"type": "search", "query": QUERY, "sources": [{"type": "url", "url": URL}]}
        return self.server.reply(
            responses_streams.thought(1, sealed="sealed"),
            {"id": "ws_2", "type": "web_search_call", "status": "completed", "action": action},
            {
                "id": "ci_3",
                "type": "code_interpreter_call",
                "status": "completed",
                "code": CODE,
                "container_id": "cntr_1",
                "outputs": None,
            },
            said,
            responses_streams.called("read_file", json.dumps(READ), number=5),
        )


class HostedGemini(Gemini):
    def searches(self) -> Reply:
        search = {"toolType": "GOOGLE_SEARCH_WEB", "id": "t1"}
        signed = {"thoughtSignature": self.vouched(1)}
        parts: list[Object] = [
            {"toolCall": {**search, "args": {"queries": [QUERY]}}, **signed},
            {"toolResponse": {**search, "response": {"search_suggestions": "<b>x</b>"}}},
            {"executableCode": {"language": "PYTHON", "code": CODE}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"text": TEXT},
            {"functionCall": {"id": "f1", "name": "read_file", "args": READ}, **signed},
        ]
        grounding = {
            "webSearchQueries": [QUERY],
            "groundingChunks": [{"web": {"uri": URL, "title": "Downloads"}}],
        }
        candidate = {
            "content": {"role": "model", "parts": parts},
            "finishReason": "STOP",
            "groundingMetadata": grounding,
        }
        return self._server.reply({"candidates": [candidate]})


class HostedInteractions(Interactions):
    def searches(self) -> Reply:
        note = {"type": "url_citation", "url": URL, "title": "Downloads"}
        return self._server.reply(
            {"type": "thought", "signature": self.vouched(1)},
            {"type": "google_search_call", "id": "g1", "arguments": {"queries": [QUERY]}},
            {"type": "google_search_result", "call_id": "g1", "result": [{"url": URL}]},
            {"type": "code_execution_call", "id": "g2", "arguments": {"code": CODE}},
            {"type": "code_execution_result", "call_id": "g2", "result": "1"},
            {
                "type": "model_output",
                "content": [{"type": "text", "text": TEXT, "annotations": [note]}],
            },
            {"type": "function_call", "id": "i1", "name": "read_file", "arguments": READ},
            status="requires_action",
            usage={"grounding_tool_count": [{"type": "google_search", "count": 1}]},
        )


@dataclass(frozen=True)
class Case:
    voice: Callable[[], Any]
    tools: list[Object]
    """The declarations of both tools."""
    kept: str
    """A part of the reply that only this provider gets back."""
    cost_usd: float


CASES = {
    "anthropic": Case(
        HostedAnthropic,
        [
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "code_execution_20250825", "name": "code_execution"},
        ],
        "EqgfCioIARgB",
        0.01,
    ),
    "responses": Case(
        HostedResponses,
        [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}],
        "ci_3",
        0.01,
    ),
    "gemini": Case(
        HostedGemini, [{"googleSearch": {}}, {"codeExecution": {}}], "OUTCOME_OK", 0.014
    ),
    "interactions": Case(
        HostedInteractions,
        [{"type": "google_search"}, {"type": "code_execution"}],
        "google_search_result",
        0.014,
    ),
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("what = 1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    return Settings(
        workspace=folder,
        mode="auto",
        sessions=tmp_path / "sessions",
        hosted=("web_search", "code_execution"),
        deny=("bash",),
    )


async def converse(
    settings: Settings, voices: list[Voice], events: list[Event]
) -> tuple[list[TurnEnded], Path]:
    session = open_session(replace(settings, model=voices[0].model), listeners=(events.append,))
    ended = []
    for number, voice in enumerate(voices):
        if number:
            await session.model_switch.use(voice.model)
        ended.append(await session.run_turn(f"Turn {number}."))
    await session.close(0)
    return ended, session.paths.log


def converse_with(
    settings: Settings,
    voices: list[Voice],
    script: list[Reply],
    monkeypatch: pytest.MonkeyPatch,
    *,
    complaints: Sequence[str] = (),
) -> tuple[Choir, list[Event], Path]:
    events: list[Event] = []
    with choir(list(dict.fromkeys(voices)), script) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        ended, log = asyncio.run(converse(settings, voices, events))
    assert providers.server.complaints == [*complaints]
    assert {turn.ending for turn in ended} == {Ending.DONE}, ended
    return providers, events, log


@pytest.mark.parametrize("name", CASES)
def test_hosted_calls_are_declared_carried_counted_and_recorded(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    voice = case.voice()
    script = [voice.searches(), voice.says(8, "Done.", [])]
    providers, events, log = converse_with(settings, [voice], script, monkeypatch)
    first, second = providers.requests(voice)
    assert first["tools"][-2:] == case.tools
    assert case.kept in json.dumps(second)
    for facts in (events, [entry.fact for entry in read_log(log).entries]):
        reply = next(fact for fact in facts if isinstance(fact, ModelReplied))
        assert [(call.tool, call.subject, call.error) for call in reply.message.hosted] == [
            ("web_search", QUERY, ""),
            ("code_execution", CODE, ""),
        ]
        assert reply.message.sources == SOURCES
        assert reply.message.text == TEXT
        assert reply.message.usage.searches == 1
        assert reply.cost_usd is not None
        assert reply.cost_usd >= case.cost_usd


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("later", [Anthropic, Responses, Chat, Gemini, Interactions])
def test_other_model_takes_a_conversation_with_hosted_calls(
    name: str,
    later: Callable[[], Voice],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = CASES[name].voice()
    other = first if first.path == later().path else later()
    script = [first.searches(), first.says(8, "Done.", []), other.says(9, "Yes.", [])]
    providers, events, _ = converse_with(settings, [first, other], script, monkeypatch)
    last = json.dumps(providers.server.bodies[-1])
    assert TEXT in last
    assert (CASES[name].kept in last) == (other is first)
    warned = [event.message for event in events if isinstance(event, Warned)]
    lacks = "openai-chat/deepseek-v4 has no hosted web_search and code_execution"
    assert (lacks in warned) == isinstance(other, Chat)


def test_what_a_search_brings_is_foreign(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = settings.workspace.parent / "rules.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\nrule = "read"\nwhen = "untrusted"\n')
    voice = HostedAnthropic()
    script = [voice.searches(), voice.says(8, "Done.", [])]
    narrowed = replace(settings, policy=rules)
    _, events, _ = converse_with(narrowed, [voice], script, monkeypatch)
    (finished,) = (event for event in events if isinstance(event, CallFinished))
    assert finished.result.error == "denied"


def test_failed_call_names_its_error() -> None:
    error: Json = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    calls = find_hosted_calls(
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": error},
        ]
    )
    assert calls == (
        HostedCall(tool="web_search", subject="q", results=1, error="max_uses_exceeded"),
    )


REJECTIONS = {
    "anthropic": "tools.7: web_search_20250305 is not enabled for this organization",
    "responses": "Tool 'web_search' is not supported with this model.",
    "gemini": "Tool use with google_search is unsupported",
    "interactions": "google_search: disabled",
}


@pytest.mark.parametrize("name", CASES)
def test_provider_that_rejects_a_tool_is_asked_again_without_it(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, rejection = CASES[name], REJECTIONS[name]
    voice = case.voice()
    searching, executing = case.tools
    accept = voice.check

    def check(request: Recorded) -> str | None:
        return rejection if searching in request.json["tools"] else accept(request)

    script = [voice.says(8, "Go.", [("read_file", READ)]), voice.says(9, "Done.", [])]
    voice.check = check
    providers, events, _ = converse_with(
        settings, [voice], script, monkeypatch, complaints=[rejection]
    )
    bodies = providers.requests(voice)
    assert [searching in body["tools"] for body in bodies] == [True, False, False]
    assert all(executing in body["tools"] for body in bodies)
    (retried,) = [event for event in events if isinstance(event, RetryDelta)]
    assert retried.reason.endswith("Going on without web_search")
