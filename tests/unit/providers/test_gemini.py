from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from agentcli.providers.dialect import Model
from agentcli.providers.gemini import generate as gemini
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Echo,
    Image,
    Json,
    Opaque,
    Stop,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult, ToolSpec
from tests.support.gemini_fixtures import BASH, READ_FILE, encoded, model, said

NOW = model("gemini")
OLD = model("gemini", "gemini-2.5-flash")
PNG = Image(media_type="image/png", data="iVBORw0KGgo=")
PNG_PART = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def reply(
    *blocks: Block, stop: Stop = "tool_calls", by: Model = NOW, echo: Json = None
) -> AssistantMessage:
    whole = Echo(protocol=by.protocol, model=by.name, data=echo) if echo else None
    return AssistantMessage(
        content=blocks, stop=stop, protocol=by.protocol, model=by.name, echo=whole
    )


def kept(part: Json, by: Model = NOW) -> Echo:
    return Echo(protocol=by.protocol, model=by.name, data=part)


def called(
    call_id: str, *, sent_id: str | None = None, sig: str = "", by: Model = NOW, **args: Json
) -> ToolCall:
    sent: dict[str, Json] = {"name": "bash", "args": dict(args)}
    part: dict[str, Json] = {"functionCall": {**sent, "id": sent_id} if sent_id else sent}
    if sig:
        part["thoughtSignature"] = sig
    return ToolCall(id=call_id, name="bash", input=dict(args), echo=kept(part, by))


def done(call_id: str, text: str = "ok", *more: Image, failed: bool = False) -> ToolResult:
    return ToolResult(
        call_id=call_id,
        name="bash",
        status="error" if failed else "ok",
        content=(*((Text(text=text),) if text else ()), *more),
        error=ErrorKind.FAILED if failed else None,
    )


def answers(*results: ToolResult) -> ToolMessage:
    return ToolMessage(results=results)


def contents(*messages: Any, asked: Model = NOW) -> Json:
    found: Json = encoded(asked, *messages)["contents"]
    return found


def test_request_has_everything_in_its_place() -> None:
    assert encoded(NOW, said("Hello."), output_limit_tokens=256, effort="max") == {
        "contents": [{"role": "user", "parts": [{"text": "Hello."}]}],
        "systemInstruction": {"parts": [{"text": "You are a coding agent."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read_file",
                        "description": "Read a file.",
                        "parametersJsonSchema": READ_FILE.schema,
                    },
                    {
                        "name": "bash",
                        "description": "Run a command.",
                        "parametersJsonSchema": BASH.schema,
                    },
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
        "generationConfig": {
            "maxOutputTokens": 256,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
        },
    }


def test_request_says_nothing_of_what_there_is_not() -> None:
    plain = Model(provider="gemini", name="gemini-4-argon", protocol="gemini")
    body = encoded(plain, said("Hello."), system="", tools=(), tool_choice="required")
    assert body == {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}


def test_address_names_the_model() -> None:
    assert (
        gemini.open_exchange(NOW, None).path
        == "/v1beta/models/gemini-4-argon:streamGenerateContent?alt=sse"
    )
    tuned = model("gemini", "tunedModels/my model")
    assert (
        gemini.open_exchange(tuned, None).path
        == "/v1beta/tunedModels/my%20model:streamGenerateContent?alt=sse"
    )


def test_key_goes_into_its_header() -> None:
    assert gemini.build_headers("k") == {"x-goog-api-key": "k"}
    assert gemini.build_headers(None) == {}


@pytest.mark.parametrize(
    ("choice", "is_forced", "expected"),
    [
        ("auto", True, {"mode": "VALIDATED"}),
        ("none", True, {"mode": "NONE"}),
        ("required", True, {"mode": "ANY"}),
        ("bash", True, {"mode": "ANY", "allowedFunctionNames": ["bash"]}),
        ("none", False, {"mode": "NONE"}),
        ("required", False, {"mode": "VALIDATED"}),
        ("bash", False, {"mode": "VALIDATED"}),
    ],
)
def test_tool_choice_is_a_mode(choice: str, is_forced: bool, expected: Json) -> None:
    asked = Model(
        provider="gemini", name="gemini-4-argon", protocol="gemini", forced_tool_choice=is_forced
    )
    body = encoded(asked, said("Go."), tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": expected}


OPEN: Json = {"type": "object", "properties": {}, "additionalProperties": True}


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        (NOW, (ToolSpec(name="open", description="", schema=OPEN),)),
        (NOW, (ToolSpec(name="of_server", description="", schema=None, source="mcp x"),)),
        (model("gemini", "gemini-2.5-flash"), ()),
        (replace(NOW, strict_tools=False), ()),
    ],
)
def test_free_calls_are_not_validated_where_a_schema_cannot_be_held(
    asked: Model, more: tuple[ToolSpec, ...]
) -> None:
    body = encoded(asked, said("Go."), tools=(READ_FILE, *more))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


@pytest.mark.parametrize(
    ("name", "effort", "expected"),
    [
        ("gemini-4-argon", None, {"includeThoughts": True}),
        ("gemini-4-argon", "none", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-4-argon", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-flash-latest", "xhigh", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-12-neon", "low", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-2.5-pro", "high", {"includeThoughts": True}),
    ],
)
def test_effort_is_a_level_where_the_model_has_levels(
    name: str, effort: str | None, expected: Json
) -> None:
    body = encoded(model("gemini", name), said("Go."), effort=effort)
    assert body["generationConfig"] == {"thinkingConfig": expected}


def test_names_of_other_alphabets_are_declared_and_forced_alike() -> None:
    spec = ToolSpec(name="mcp.files/read", description="", schema=None)
    body = encoded(NOW, said("Go."), tools=(spec,), tool_choice="mcp.files/read")
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"] == {"type": "object", "properties": {}}
    config = body["toolConfig"]["functionCallingConfig"]
    assert config == {"mode": "ANY", "allowedFunctionNames": [declared["name"]]}
    assert declared["name"].startswith("mcp_files_read_")


def test_parts_of_a_reply_go_back_as_they_came() -> None:
    parts: list[dict[str, Json]] = [
        {"text": "Hm.", "thought": True},
        {"text": "Looking.", "thoughtSignature": "QQ=="},
        {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Qg=="},
        {"functionCall": {"id": "f1", "name": "bash", "args": {"n": 1.0}}},
        {"text": "", "thoughtSignature": "Qw=="},
    ]
    said_back = reply(
        Thinking(text="Hm.", echo=kept(parts[0])),
        Text(text="Looking.", echo=kept(parts[1])),
        Opaque(echo=kept(parts[2])),
        ToolCall(id="f1", name="bash", input={"n": 1}, echo=kept(parts[3])),
        Text(text="", echo=kept(parts[4])),
    )
    assert contents(said("Go."), said_back, answers(done("f1"))) == [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": parts},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "f1", "name": "bash", "response": {"output": "ok"}}}
            ],
        },
    ]


def test_answers_stand_in_the_order_of_the_calls_before_anything_else() -> None:
    made = reply(called("a", sent_id="a", sig="QQ=="), called("b", sent_id="b"))
    body = contents(
        said("Go."), made, answers(done("b", "no", failed=True)), said("Stop."), said("Now.")
    )
    assert isinstance(body, list)
    assert body[-1] == {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": "a",
                    "name": "bash",
                    "response": {"error": "Cancelled before it ran."},
                }
            },
            {"functionResponse": {"id": "b", "name": "bash", "response": {"error": "no"}}},
            {"text": "Stop."},
            {"text": "Now."},
        ],
    }


def test_answer_names_the_call_as_it_was_sent() -> None:
    part: Json = {"functionCall": {"id": "f1", "name": "default_api:bash"}}
    strange = ToolCall(id="f1", name="default_api:bash", input={}, echo=kept(part))
    again = ToolCall(id="f1", name="default_api:bash", input={}, echo=kept(part))
    body = contents(
        said("Go."), reply(strange), answers(done("f1")), reply(again), answers(done("f1", "2"))
    )
    assert isinstance(body, list)
    answer = {"id": "f1", "name": "default_api:bash"}
    assert body[2:] == [
        {
            "role": "user",
            "parts": [{"functionResponse": {**answer, "response": {"output": "ok"}}}],
        },
        {"role": "model", "parts": [part]},
        {"role": "user", "parts": [{"functionResponse": {**answer, "response": {"output": "2"}}}]},
    ]


def test_id_that_was_minted_here_is_not_sent() -> None:
    made = reply(called("call_1", by=OLD, command="ls"), by=OLD)
    assert contents(said("Go."), made, answers(done("call_1")), asked=OLD) == [
        {"role": "user", "parts": [{"text": "Go."}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "bash", "args": {"command": "ls"}}}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "bash", "response": {"output": "ok"}}}],
        },
    ]


@pytest.mark.parametrize(
    ("asked", "signature"),
    [(NOW, {"thoughtSignature": "skip_thought_signature_validator"}), (OLD, {})],
)
def test_first_call_of_another_model_gets_the_documented_signature(
    asked: Model, signature: Json
) -> None:
    other = Model(provider="anthropic", name="claude-opus-5-5", protocol="anthropic")
    foreign = reply(
        Thinking(text="Hm.", echo=kept("x", other)),
        Text(text="Looking.", echo=kept({"text": "not ours"}, other)),
        ToolCall(id="toolu_1", name="bash", input={"command": "ls"}),
        ToolCall(id="toolu_2", name="bash", input='{"command": "l'),
        by=other,
    )
    body = contents(said("Go."), foreign, answers(done("toolu_1"), done("toolu_2")), asked=asked)
    assert isinstance(body, list)
    first: Json = {"id": "toolu_1", "name": "bash", "args": {"command": "ls"}}
    second: Json = {
        "id": "toolu_2",
        "name": "bash",
        "args": {"malformed_arguments": '{"command": "l'},
    }
    assert isinstance(signature, dict)
    assert body[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Looking."},
                {"functionCall": first, **signature},
                {"functionCall": second},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "toolu_1",
                        "name": "bash",
                        "response": {"output": "ok"},
                    }
                },
                {
                    "functionResponse": {
                        "id": "toolu_2",
                        "name": "bash",
                        "response": {"output": "ok"},
                    }
                },
            ],
        },
    ]


def test_signature_of_another_gemini_is_not_sent() -> None:
    earlier = model("gemini", "gemini-3.8-flash")
    made = reply(called("f1", sent_id="f1", sig="QQ==", by=earlier), by=earlier)
    body = contents(said("Go."), made, answers(done("f1")))
    assert isinstance(body, list)
    assert body[1] == {
        "role": "model",
        "parts": [
            {
                "functionCall": {"id": "f1", "name": "bash", "args": {}},
                "thoughtSignature": "skip_thought_signature_validator",
            }
        ],
    }


def test_images_of_the_user_stand_among_the_text() -> None:
    assert contents(UserMessage(content=(Text(text="Look:"), PNG))) == [
        {"role": "user", "parts": [{"text": "Look:"}, PNG_PART]}
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            NOW,
            [
                {
                    "functionResponse": {
                        "name": "bash",
                        "response": {"output": "a.png"},
                        "parts": [PNG_PART],
                    }
                },
                {
                    "functionResponse": {
                        "name": "bash",
                        "response": {"output": "The image is attached."},
                        "parts": [PNG_PART],
                    }
                },
            ],
        ),
        (
            OLD,
            [
                {"functionResponse": {"name": "bash", "response": {"output": "a.png"}}},
                {
                    "functionResponse": {
                        "name": "bash",
                        "response": {"output": "The image is attached."},
                    }
                },
                PNG_PART,
                PNG_PART,
            ],
        ),
    ],
)
def test_images_of_results_stand_where_the_model_takes_them(asked: Model, expected: Json) -> None:
    made = reply(called("a", by=asked), called("b", by=asked), by=asked)
    results = answers(done("a", "a.png", PNG), done("b", "", PNG))
    body = contents(said("Go."), made, results, asked=asked)
    assert isinstance(body, list)
    assert body[-1] == {"role": "user", "parts": expected}


def test_paused_reply_is_asked_for_again_with_its_last_token() -> None:
    first = reply(Text(text="Once"), stop="paused", echo={"continuationToken": "MQ=="})
    second = reply(Text(text=" upon"), stop="paused", echo={"continuationToken": "Mg=="})
    plain = encoded(NOW, said("Go."))
    assert encoded(NOW, said("Go."), first) == {**plain, "continuationToken": "MQ=="}
    assert encoded(NOW, said("Go."), first, second) == {**plain, "continuationToken": "Mg=="}


def test_continued_reply_is_one_turn() -> None:
    first = reply(Text(text="Once"), stop="paused", echo={"continuationToken": "MQ=="})
    body = encoded(NOW, said("Go."), first, reply(Text(text=" upon"), stop="end"), said("More."))
    assert body["contents"][1:] == [
        {"role": "model", "parts": [{"text": "Once"}, {"text": " upon"}]},
        {"role": "user", "parts": [{"text": "More."}]},
    ]
    assert "continuationToken" not in body


def test_paused_reply_without_a_word_keeps_its_token() -> None:
    silent = reply(stop="paused", echo={"continuationToken": "MQ=="})
    plain = encoded(NOW, said("Go."))
    assert encoded(NOW, said("Go."), silent) == {**plain, "continuationToken": "MQ=="}
    assert encoded(OLD, said("Go."), silent) == encoded(OLD, said("Go."))


def test_paused_reply_of_another_model_is_gone_on_from() -> None:
    paused = reply(Text(text="Once"), stop="paused", by=OLD, echo={"continuationToken": "MQ=="})
    ended = replace(paused, stop="end", echo=None)
    assert encoded(NOW, said("Go."), paused) == encoded(NOW, said("Go."), ended, said("Continue."))


def test_longer_conversation_begins_with_the_shorter_one() -> None:
    messages: list[Message] = [
        said("Go."),
        reply(called("a", sent_id="a", sig="QQ==")),
        answers(done("a")),
        reply(Text(text="Done."), stop="end"),
        said("More."),
        reply(called("b", sent_id="b", sig="Qg==")),
        answers(done("b")),
    ]
    bodies = [encoded(NOW, *messages[:count]) for count in (1, 3, 5, 7)]
    for shorter, longer in pairwise(bodies):
        begun = longer["contents"][: len(shorter["contents"])]
        assert {**longer, "contents": begun} == shorter
