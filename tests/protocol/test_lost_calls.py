"""Replies that lose something on their way, in whole sessions over HTTP: the model is told.

A call that was cut off, a call that cannot be understood, a reply of nothing: none of them is a
denial, and none of them is a success.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentcli.session.builder import open_session
from agentcli.types.errors import Ending
from agentcli.types.events import CallFinished, CallJudged, Fact, TurnEnded
from agentcli.types.settings import Settings
from agentcli.types.tools import ErrorKind
from tests.support.provider import Provider, Reply, sse, stream
from tests.support.responses_streams import patched
from tests.support.strict_chat import chunk
from tests.support.voices import (
    VOICES,
    Anthropic,
    Chat,
    Choir,
    Gemini,
    Interactions,
    Responses,
    Voice,
)

HALF = '{"path": "n.txt", "content": "ha'

Events = Sequence[dict[str, Any]]


def anthropic_events(*blocks: dict[str, Any], stop: str) -> Events:
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        *blocks,
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]


def interaction_events(*steps: dict[str, Any], status: str) -> Events:
    created = {"id": "v1_0", "status": "in_progress"}
    return [
        {"event_type": "interaction.created", "interaction": created},
        *steps,
        {"event_type": "interaction.completed", "interaction": {"id": "v1_0", "status": status}},
    ]


CUT_IN_CALL: dict[type[Voice], Events] = {
    Anthropic: anthropic_events(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c", "name": "write_file", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": HALF},
        },
        stop="max_tokens",
    ),
    Responses: [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "function_call", "call_id": "c", "name": "write_file"},
        },
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": HALF},
        {
            "type": "response.incomplete",
            "response": {
                "id": "resp_0",
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
            },
        },
    ],
    Chat: [
        chunk(
            {
                "tool_calls": [
                    {"index": 0, "id": "c", "function": {"name": "write_file", "arguments": HALF}}
                ]
            }
        ),
        chunk({}, "length"),
    ],
    Interactions: interaction_events(
        {
            "event_type": "step.start",
            "index": 0,
            "step": {"type": "function_call", "id": "c", "name": "write_file", "arguments": {}},
        },
        {
            "event_type": "step.delta",
            "index": 0,
            "delta": {"type": "arguments_delta", "arguments": HALF},
        },
        status="incomplete",
    ),
}

NOTHING: dict[type[Voice], Events] = {
    Anthropic: anthropic_events(stop="end_turn"),
    Responses: [{"type": "response.completed", "response": {"id": "resp_0", "output": []}}],
    Chat: [chunk({"role": "assistant", "content": ""}), chunk({}, "stop")],
    Gemini: [{"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}]}],
    Interactions: interaction_events(status="completed"),
}


def replied(kind: type[Voice], events: Events) -> Reply:
    return stream(sse(events, named=kind in (Anthropic, Responses), done=kind is Chat))


def turn(
    voice: Voice, script: Sequence[Reply], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[TurnEnded, Sequence[Fact], list[Any]]:
    """One turn in which nobody can be asked: how it ended, its facts, and what was sent."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings(
        workspace=work, model=voice.model, mode="auto-edit", sessions=tmp_path / "sessions"
    )

    async def talked() -> tuple[TurnEnded, Sequence[Fact]]:
        session = open_session(settings, listeners=())
        ended = await session.run_turn("Go.")
        await session.close(0)
        return ended, session.facts

    check = voice.check if isinstance(voice, Anthropic) else None
    with Choir(Provider(script, check=check), [voice]) as choir:
        for name, value in choir.environ.items():
            monkeypatch.setenv(name, value)
        ended, facts = asyncio.run(talked())
        assert choir.server.complaints == []
        return ended, facts, choir.server.bodies


@pytest.mark.parametrize("kind", CUT_IN_CALL)
def test_model_is_told_which_call_was_cut_off(
    kind: type[Voice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = kind()
    script = [replied(kind, CUT_IN_CALL[kind]), voice.says(0, "Done.", [])]
    ended, facts, sent = turn(voice, script, tmp_path, monkeypatch)
    assert ended.ending is Ending.DONE
    assert "in the middle of a call of write_file. That call was not run." in str(sent[1])
    assert not any(isinstance(fact, CallFinished) for fact in facts)
    assert not (tmp_path / "work" / "n.txt").exists()


@pytest.mark.parametrize("stop", ["max_tokens", "end_turn"])
def test_thought_that_led_to_nothing_goes_back_with_an_end(
    stop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = Anthropic()
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    started = {"type": "content_block_start", "index": 0, "content_block": thought}
    half = [{**it, "index": 1} for it in CUT_IN_CALL[Anthropic] if "index" in it]
    events = anthropic_events(started, *(half if stop == "max_tokens" else ()), stop=stop)
    script = [replied(Anthropic, events), voice.says(0, "Done.", [])]
    ended, _, sent = turn(voice, script, tmp_path, monkeypatch)
    assert ended == TurnEnded(ending=Ending.DONE)
    assert sent[1]["messages"][-2]["content"] == [
        thought,
        {"type": "text", "text": "(nothing more)"},
    ]


@pytest.mark.parametrize("kind", VOICES)
def test_reply_of_nothing_is_asked_for_once_more(
    kind: type[Voice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = kind()
    script = [replied(kind, NOTHING[kind]), voice.says(0, "Done.", [])]
    ended, _, sent = turn(voice, script, tmp_path, monkeypatch)
    assert ended.ending is Ending.DONE
    assert "Your reply was empty." in str(sent[1][voice.history][-1])


@pytest.mark.parametrize("kind", VOICES)
def test_two_replies_of_nothing_are_no_success(
    kind: type[Voice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [replied(kind, NOTHING[kind])] * 2
    ended, _, sent = turn(kind(), script, tmp_path, monkeypatch)
    assert (ended.ending, len(sent)) == (Ending.PROVIDER_FAILED, 2)


@pytest.mark.parametrize(
    "text", ["", "*** Begin Patch", "Change a.txt.", "--- a/a.txt\n+++ b/a.txt\n-one\n+two\n"]
)
def test_text_that_is_no_patch_is_told_to_the_model_and_never_judged(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"
    voice = Responses()
    script = [
        voice.server.reply(patched(text, number=1)),
        voice.server.reply(patched(right, number=2)),
        voice.says(3, "Done.", []),
    ]
    ended, facts, _ = turn(voice, script, tmp_path, monkeypatch)
    assert ended == TurnEnded(ending=Ending.DONE)
    errors = [fact.result.error for fact in facts if isinstance(fact, CallFinished)]
    assert errors == [ErrorKind.INVALID_INPUT, None]
    assert len([fact for fact in facts if isinstance(fact, CallJudged)]) == 1
    assert (tmp_path / "work" / "a.txt").read_text() == "two\n"


def test_call_of_the_older_kind_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [{"name": "read_file", "arguments": ""}, {"arguments": '{"path": "a.txt"}'}]
    older = [*(chunk({"function_call": piece}) for piece in pieces), chunk({}, "function_call")]
    voice = Chat()
    script = [replied(Chat, older), voice.says(0, "Done.", [])]
    ended, facts, sent = turn(voice, script, tmp_path, monkeypatch)
    assert ended == TurnEnded(ending=Ending.DONE)
    assert [fact.result.status for fact in facts if isinstance(fact, CallFinished)] == ["ok"]
    assert [message["role"] for message in sent[1]["messages"][-2:]] == ["assistant", "tool"]
