import base64
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from agentcli.providers.http.sse import DONE, EventStream
from agentcli.types.messages import AssistantMessage, Thinking
from tests.support.gemini_fixtures import FIXTURES, cases, decoded, model


def load(name: str) -> Any:
    """Import a part of the SDK, which takes a second, or skip the test."""
    return pytest.importorskip(
        f"google.genai.{name}", reason="the google-genai SDK, which referees, is not installed"
    )


REPLIES = {
    protocol: [case for case in cases(protocol) if (case / "message.json").exists()]
    for protocol in ("gemini", "gemini-interactions")
}


def named(case: Path) -> str:
    return case.name


def events(case: Path) -> list[dict[str, Any]]:
    stream = EventStream()
    found = [*stream.feed((case / "stream.sse").read_bytes()), *stream.end()]
    return [event for event in found if event.get("type") != DONE]


def message(case: Path) -> AssistantMessage:
    return decoded([(case / "stream.sse").read_bytes()], model(case.parent.name))[0]


def recorded(protocol: str) -> list[Path]:
    """Every request that is recorded, whatever it is of."""
    folder = FIXTURES / protocol
    more = [folder / name for name in ("answer_schema.json", "hosted.json")]
    others = [*sorted(folder.glob("conversations/*.json")), *more]
    return [*(case / "request.json" for case in REPLIES[protocol]), *others]


@pytest.mark.parametrize(
    "path", recorded("gemini"), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_sdk_accepts_the_request(path: Path) -> None:
    body = json.loads(path.read_text("utf-8"))
    config = {
        "systemInstruction": body.pop("systemInstruction"),
        "tools": body.pop("tools"),
        "toolConfig": body.pop("toolConfig"),
        "continuationToken": body.pop("continuationToken", None),
        **body.pop("generationConfig"),
    }
    load("types").GenerateContentConfig.model_validate(config)
    for turn in body.pop("contents"):
        load("types").Content.model_validate(turn)
    assert body == {}


@pytest.mark.parametrize("case", REPLIES["gemini"], ids=named)
def test_sdk_reads_the_same_stream_alike(case: Path) -> None:
    if case.name in ("lone_surrogates", "malformed_arguments", "unknown_finish"):
        pytest.skip("the SDK does not take what this stream holds")
    chunks = [load("types").GenerateContentResponse.model_validate(event) for event in events(case)]
    candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
    parts = [
        part for it in candidates if it.content and it.content.parts for part in it.content.parts
    ]
    ours = message(case)
    texts = [part for part in parts if part.text]
    assert "".join(part.text for part in texts if not part.thought) == ours.text
    thoughts = [block.text for block in ours.content if isinstance(block, Thinking)]
    assert "".join(part.text for part in texts if part.thought) == "".join(thoughts)
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.name, call.args or {}) for call in calls] == [
        (call.name, call.input) for call in ours.tool_calls
    ]
    signed = [
        block.echo.data["thoughtSignature"]
        for block in ours.content
        if block.echo and isinstance(block.echo.data, dict)
        if "thoughtSignature" in block.echo.data
    ]
    assert [part.thought_signature for part in parts if part.thought_signature] == [
        base64.b64decode(str(signature)) for signature in signed
    ]


@pytest.mark.parametrize(
    "path", recorded("gemini-interactions"), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_sdk_accepts_the_request_of_an_interaction(path: Path) -> None:
    body = json.loads(path.read_text("utf-8"))
    taken = load("_gaos.types.interactions").CreateModelInteraction.model_validate(body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert json.loads(taken.model_dump_json(exclude_none=True)) == body
    assert not any(getattr(step, "is_unknown", False) for step in taken.input)


@pytest.mark.parametrize("case", REPLIES["gemini-interactions"], ids=named)
def test_sdk_reads_the_same_events_alike(case: Path) -> None:
    known = [
        load("_gaos.types.interactions")
        .InteractionSSEStreamEvent.model_validate({"data": event})
        .data
        for event in events(case)
    ]
    deltas = [event.delta for event in known if event.event_type == "step.delta"]
    starts = [event.step for event in known if event.event_type == "step.start"]
    opened = [
        item.text
        for step in starts
        if step.type == "model_output" and step.content
        for item in step.content
    ]
    pieces = [delta.text for delta in deltas if delta.type == "text"]
    if case.name != "lone_surrogates":
        assert "".join([*opened, *pieces]) == message(case).text
    calls = [(step.id, step.name) for step in starts if step.type == "function_call"]
    complete = [(call.id, call.name) for call in message(case).tool_calls]
    assert complete == calls[: len(complete)]
