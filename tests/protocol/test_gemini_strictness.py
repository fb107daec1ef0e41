import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.types.provider import Message
from tests.support.examples import examples
from tests.support.gemini_fixtures import DIALECTS, answered, decoded, encoded, model, said
from tests.support.provider import Recorded
from tests.support.strict_gemini import StrictGemini
from tests.support.strict_interactions import StrictInteractions

GEMINI = model("gemini")
INTERACTIONS = model("gemini-interactions")

Object = dict[str, Any]
Change = Callable[[Object], object]


def posted(protocol: str, body: Object) -> Recorded:
    headers = DIALECTS[protocol].build_headers("test-key")
    return Recorded(
        method="POST",
        path=DIALECTS[protocol].open_exchange(model(protocol), None).path,
        headers={"content-type": "application/json"} | {k.lower(): v for k, v in headers.items()},
        body=json.dumps(body).encode(),
        connection=0,
    )


def called(call_id: str, signature: str = "") -> Object:
    part: Object = {"functionCall": {"id": call_id, "name": "bash", "args": {}}}
    return part | ({"thoughtSignature": signature} if signature else {})


def gemini_exchange() -> tuple[StrictGemini, Object]:
    """A server that has been asked once, and the body of the next request."""
    server = StrictGemini("gemini-4-argon")
    parts = [{"text": "Hm.", "thought": True}, called("a", "QQ=="), called("b")]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    reply = server.reply({"candidates": [candidate]})
    assert server.check(posted("gemini", encoded(GEMINI, said("Go.")))) is None
    message, _ = decoded([reply.body], GEMINI)
    return server, encoded(GEMINI, said("Go."), *answered(message))


def interactions_exchange() -> tuple[StrictInteractions, Object]:
    server = StrictInteractions("gemini-4-argon")
    call: Object = {"type": "function_call", "name": "bash", "arguments": {}}
    reply = server.reply(
        {"type": "thought", "signature": "QQ=="},
        {**call, "id": "a", "signature": "Qg=="},
        {**call, "id": "b"},
        status="requires_action",
    )
    first = encoded(INTERACTIONS, said("Go."))
    assert server.check(posted("gemini-interactions", first)) is None
    message, _ = decoded([reply.body], INTERACTIONS)
    return server, encoded(INTERACTIONS, said("Go."), *answered(message))


def parts(body: Object, turn: int) -> list[Object]:
    found: list[Object] = body["contents"][turn]["parts"]
    return found


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda b: parts(b, 1)[1].pop("thoughtSignature"), "missing a thought_signature"),
        (lambda b: parts(b, 1)[1].update(thoughtSignature="Qg=="), "Corrupted thought signature"),
        (lambda b: parts(b, 1)[0].update(thoughtSignature="QQ=="), "not what it said"),
        (lambda b: parts(b, 1).pop(0), "not what it said"),
        (lambda b: parts(b, 1)[0].update(text="Oh."), "not what it said"),
        (lambda b: parts(b, 2).pop(), "number of function response parts"),
        (lambda b: parts(b, 2).append(parts(b, 2)[0]), "number of function response parts"),
        (lambda b: parts(b, 2).reverse(), "does not match the function call"),
        (lambda b: parts(b, 2)[0]["functionResponse"].pop("id"), "does not match"),
        (lambda b: parts(b, 2)[0]["functionResponse"].update(name="sh"), "does not match"),
        (lambda b: parts(b, 2)[0]["functionResponse"].update(name=""), "Name cannot be empty"),
        (lambda b: parts(b, 2)[0]["functionResponse"].update(response="ok"), "Invalid value"),
        (lambda b: parts(b, 2).insert(0, {"text": "x"}), "before any other part"),
        (lambda b: parts(b, 1)[1]["functionCall"].update(args=None), "Invalid value"),
        (lambda b: b["contents"].pop(), "start and end with a user turn"),
        (lambda b: b["contents"].pop(0), "start and end with a user turn"),
        (lambda b: b["contents"].pop(1), "alternate between user and model"),
        (lambda b: b["contents"][2].update(role="tool"), "valid role"),
        (lambda b: b["contents"][0].update(parts=[]), "must not be empty"),
        (lambda b: b.update(contents=[]), "contents is not specified"),
        (lambda b: parts(b, 0)[0].update(text="Stop."), "beginning was changed"),
        (lambda b: parts(b, 0)[0].update(extra=1), 'Unknown name "extra"'),
        (lambda b: parts(b, 0).append({"thought": True}), "required oneof field 'data'"),
        (lambda b: b.update(model="x"), 'Unknown name "model"'),
        (lambda b: b["generationConfig"].update(temperature=1), 'Unknown name "temperature"'),
        (lambda b: b["systemInstruction"]["parts"][0].update(text="Be rude."), "were changed"),
        (lambda b: b["tools"][0]["functionDeclarations"].pop(), "were changed"),
        (lambda b: b.pop("tools"), "without function_declarations"),
        (lambda b: b.update(continuationToken="MQ=="), "Invalid continuation token"),
    ],
)
def test_strict_server_refuses(change: Change, complaint: str) -> None:
    server, body = gemini_exchange()
    body = json.loads(json.dumps(body))
    change(body)
    told = server.check(posted("gemini", body))
    assert told is not None
    assert complaint in told


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda b: b["input"][1].pop("signature"), "'signature' is required"),
        (lambda b: b["input"][1].update(signature="Qw=="), "Corrupted thought signature"),
        (lambda b: b["input"][2].update(signature="Qw=="), "Corrupted thought signature"),
        (lambda b: b["input"].pop(1), "missing a thought signature"),
        (lambda b: b["input"][2].pop("signature"), "not what it said"),
        (lambda b: b["input"][2].update(arguments={"a": 1}), "not what it said"),
        (lambda b: b["input"].pop(), "'b' has no function result"),
        (lambda b: b["input"][4:].clear() or b["input"].reverse(), "does not match"),
        (lambda b: b["input"][4].update(call_id="x"), "does not match a function call"),
        (lambda b: b["input"][4].update(name="sh"), "does not match a function call"),
        (lambda b: b["input"][4].pop("name"), "'name' is required"),
        (lambda b: b["input"][4].pop("result"), "'result' is required"),
        (lambda b: b["input"][0].update(content=[]), "'content' is required"),
        (lambda b: b["input"][0].update(role="user"), "Unknown parameter 'role'"),
        (lambda b: b["input"][0].update(type="message"), "'message' is not supported"),
        (lambda b: b["input"][0]["content"][0].update(text="x"), "beginning was changed"),
        (lambda b: b.update(input=[]), "'input' is required"),
        (lambda b: b.update(temperature=1), "Unknown parameter 'temperature'"),
        (lambda b: b.update(store=True), "'store'"),
        (lambda b: b.update(stream=False), "'stream'"),
        (lambda b: b.update(model="gemini-0"), "was not found"),
        (lambda b: b.update(system_instruction="Be rude."), "were changed"),
        (lambda b: b["tools"].pop(), "were changed"),
        (lambda b: b.pop("tools"), "'tool_choice' needs 'tools'"),
        (lambda b: b.update(continuation_token="MQ=="), "does not belong"),
    ],
)
def test_strict_server_of_interactions_refuses(change: Change, complaint: str) -> None:
    server, body = interactions_exchange()
    body = json.loads(json.dumps(body))
    change(body)
    told = server.check(posted("gemini-interactions", body))
    assert told is not None
    assert complaint in told


SIGNATURES = st.sampled_from(["", "QQ==", "Qg==", "Qw=="])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(["", " ", "\n"])
ARGUMENTS = st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers() | TEXTS, max_size=2)


@st.composite
def spoken(draw: st.DrawFn) -> Object:
    part: Object = {"text": draw(TEXTS)}
    if draw(st.booleans()):
        part["thought"] = True
    if signature := draw(SIGNATURES):
        part["thoughtSignature"] = signature
    return part


@st.composite
def replied(draw: st.DrawFn) -> list[Object]:
    """Chunks with any texts, then calls of which the first is signed."""
    parts = draw(st.lists(spoken(), max_size=4))
    for number, arguments in enumerate(draw(st.lists(ARGUMENTS, max_size=3))):
        call = {"id": draw(st.sampled_from(["f1", "f2"])), "name": "bash", "args": arguments}
        parts.append({"functionCall": call} | ({} if number else {"thoughtSignature": "RA=="}))
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [it]}}]} for it in parts]
    return [*chunks, {"candidates": [{"finishReason": "STOP"}]}]


@given(st.lists(replied(), min_size=1, max_size=4))
@examples(60)
def test_any_session_pleases_the_strict_server(replies: list[list[Object]]) -> None:
    server = StrictGemini("gemini-4-argon")
    streams = [server.reply(*chunks).body for chunks in replies]
    history: list[Message] = [said("Go.")]
    for stream in streams:
        assert server.check(posted("gemini", encoded(GEMINI, *history))) is None
        message, _ = decoded([stream], GEMINI)
        history += answered(message)
        if message.stop == "end":
            history.append(said("More."))


@st.composite
def replied_steps(draw: st.DrawFn) -> tuple[list[Object], str]:
    steps: list[Object] = [{"type": "thought", "signature": draw(SIGNATURES) or "RQ=="}]
    for text in draw(st.lists(TEXTS.filter(bool), max_size=2)):
        steps.append({"type": "model_output", "content": [{"type": "text", "text": text}]})
    calls = draw(st.lists(ARGUMENTS, max_size=3))
    for number, arguments in enumerate(calls):
        call = {"type": "function_call", "id": f"f{number}", "name": "bash"}
        steps.append({**call, "arguments": arguments})
    return steps, "requires_action" if calls else "completed"


@given(st.lists(replied_steps(), min_size=1, max_size=4))
@examples(60)
def test_any_session_of_interactions_pleases_the_strict_server(
    replies: list[tuple[list[Object], str]],
) -> None:
    server = StrictInteractions("gemini-4-argon")
    streams = [server.reply(*steps, status=status).body for steps, status in replies]
    history: list[Message] = [said("Go.")]
    for stream in streams:
        body = encoded(INTERACTIONS, *history)
        assert server.check(posted("gemini-interactions", body)) is None
        message, _ = decoded([stream], INTERACTIONS)
        history += answered(message)
        if message.stop == "end":
            history.append(said("More."))
