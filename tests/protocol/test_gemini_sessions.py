import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentcli.providers.catalog import Key
from agentcli.providers.connection import ProviderConnection, RetryPolicy
from agentcli.providers.dialect import Model
from agentcli.providers.normalize import encode_name
from agentcli.providers.transport import open_provider
from agentcli.types.deltas import Delta, RetryDelta
from agentcli.types.messages import AssistantMessage, Text, Thinking, ToolCall
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage
from tests.support.gemini_fixtures import BASH, READ_FILE, answered, model, said
from tests.support.provider import Provider, Reply, answer, error_of_gemini, sse, stream
from tests.support.strict_gemini import StrictGemini
from tests.support.strict_interactions import StrictInteractions, error_of_interactions

GEMINI = model("gemini")
OLD = model("gemini", "gemini-2.5-flash")
INTERACTIONS = model("gemini-interactions")
STORED = model("gemini-interactions", quirks=["stored"])

Object = dict[str, Any]


def chunk(*parts: Object, finish: str = "", **more: Any) -> Object:
    candidate = {"content": {"role": "model", "parts": list(parts)}, **more}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


def call(name: str, call_id: str | None, signature: str = "", **args: Any) -> Object:
    made = {"name": name, "args": args} | ({"id": call_id} if call_id else {})
    return {"functionCall": made} | ({"thoughtSignature": signature} if signature else {})


def thought(signature: str, *summary: str) -> Object:
    texts = [{"type": "text", "text": text} for text in summary]
    return {"type": "thought", "signature": signature} | ({"summary": texts} if texts else {})


def output(text: str) -> Object:
    return {"type": "model_output", "content": [{"type": "text", "text": text}]}


def step(call_id: str, name: str, **arguments: Any) -> Object:
    return {"type": "function_call", "id": call_id, "name": name, "arguments": arguments}


async def turn(
    wire: ProviderConnection,
    history: list[Message],
    *,
    show: Callable[[Delta], None],
    steps: int = 12,
) -> None:
    """Asks until the model is done, and answers its calls meanwhile."""
    for _ in range(steps):
        request = Request(
            model="", system="Be brief.", messages=tuple(history), tools=(READ_FILE, BASH)
        )
        message = await wire.send(request, show)
        history += answered(message) if message.stop == "tool_calls" else [message]
        if message.stop not in ("tool_calls", "paused"):
            return


def conversation(
    provider: Provider, asked: Model, prompts: Sequence[str], *, begun: Sequence[Message] = ()
) -> tuple[list[Message], list[Delta]]:
    """What was said in the end, and what was shown; the server must have had no complaint."""
    history: list[Message] = [*begun]
    shown: list[Delta] = []

    async def talk() -> None:
        wire = open_provider(
            asked,
            key=Key(value="test-key", source="a test"),
            base_url=provider.base_url,
            environ={},
            retry_policy=RetryPolicy(waits_s=(0.0,)),
        )
        for prompt in prompts:
            history.append(said(prompt))
            await turn(wire, history, show=shown.append)
        await wire.close()

    with provider:
        asyncio.run(talk())
    assert provider.complaints == []
    return history, shown


def text_of(history: Sequence[Message]) -> str:
    last = history[-1]
    assert isinstance(last, AssistantMessage)
    return last.text


def test_session_of_many_steps_pleases_a_strict_server() -> None:
    server = StrictGemini("gemini-4-argon")
    script = [
        server.reply(
            chunk({"text": "**Plan**", "thought": True}),
            chunk({"text": "\n\nread", "thought": True}, {"text": "Reading"}),
            chunk({"text": " both."}),
            chunk(call("read_file", "f1", "U0lHMQ==", path="a", limit=3.0)),
            chunk(call("read_file", "f2", path="ü")),
            chunk(call("nonsense", "f3")),
            chunk({"text": ""}, finish="STOP"),
        ),
        server.reply(
            chunk({"text": "Half", "thoughtSignature": "U0lHMg=="}, {"text": " done."}),
            chunk({"executableCode": {"language": "PYTHON", "code": "1"}}),
            chunk(call("bash", "f4", "U0lHMw==", command="ls"), finish="STOP"),
        ),
        server.reply(
            chunk({"text": "All "}),
            chunk({"text": "done."}),
            chunk({"text": "", "thoughtSignature": "U0lHNA=="}, finish="STOP"),
        ),
        server.reply(chunk(call("bash", "f5", "U0lHNQ=="), finish="STOP")),
        server.reply(chunk({"text": "Bye."}, finish="STOP")),
    ]
    provider = Provider(script, check=server.check, complain=error_of_gemini)
    history, _ = conversation(provider, GEMINI, ["Read both.", "Once more."])
    assert len(provider.requests) == 5
    assert text_of(history) == "Bye."


def test_session_without_ids_pleases_a_strict_server() -> None:
    server = StrictGemini("gemini-2.5-flash", signs=False)
    script = [
        server.reply(chunk(call("bash", None, n=1), call("bash", None, n=1), finish="STOP")),
        server.reply(chunk(call("bash", None, n=1), finish="STOP")),
        server.reply(chunk({"text": "Done."}, finish="STOP")),
    ]
    provider = Provider(script, check=server.check, complain=error_of_gemini)
    history, _ = conversation(provider, OLD, ["Go."])
    ids = [it.id for m in history if isinstance(m, AssistantMessage) for it in m.tool_calls]
    assert len(set(ids)) == 3


def test_ids_that_come_again_are_answered_as_they_came() -> None:
    server = StrictGemini("gemini-4-argon")
    script = [
        server.reply(chunk(call("bash", "c0", "QQ=="), call("bash", "c0"), finish="STOP")),
        server.reply(chunk(call("bash", "c0", "Qg=="), finish="STOP")),
        server.reply(chunk({"text": "Done."}, finish="STOP")),
    ]
    provider = Provider(script, check=server.check, complain=error_of_gemini)
    history, _ = conversation(provider, GEMINI, ["Go."])
    results = [it.call_id for m in history if isinstance(m, ToolMessage) for it in m.results]
    assert len(set(results)) == 3


def test_long_reply_is_continued_until_it_ends() -> None:
    server = StrictGemini("gemini-4-argon")
    script = [
        server.reply(
            chunk({"text": "Once"}),
            chunk(finish="CONTINUATION", continuationToken="MQ=="),
        ),
        server.reply(
            chunk({"text": " upon", "thoughtSignature": "QQ=="}),
            chunk(finish="CONTINUATION", continuationToken="Mg=="),
        ),
        server.reply(chunk(call("bash", "f1", "Qg=="), finish="STOP")),
        server.reply(chunk({"text": "Done."}, finish="STOP")),
        server.reply(chunk({"text": "Bye."}, finish="STOP")),
    ]
    provider = Provider(script, check=server.check, complain=error_of_gemini)
    history, _ = conversation(provider, GEMINI, ["Tell.", "More."])
    tokens = [body.get("continuationToken") for body in provider.bodies]
    assert tokens == [None, "MQ==", "Mg==", None, None]
    assert text_of(history) == "Bye."


def test_conversation_of_another_provider_goes_on() -> None:
    begun = [
        said("Fix it."),
        *answered(
            AssistantMessage(
                content=(
                    Thinking(text="Hm."),
                    Text(text="Looking."),
                    ToolCall(id="toolu_01", name="bash", input={"command": "ls"}),
                    ToolCall(id="toolu_02", name="a.b/c", input="not json"),
                ),
                stop="tool_calls",
                protocol="anthropic",
                model="claude-opus-5-5",
            )
        ),
    ]
    server = StrictGemini("gemini-4-argon")
    reply = server.reply(chunk({"text": "Done."}, finish="STOP"))
    provider = Provider([reply], check=server.check, complain=error_of_gemini)
    history, _ = conversation(provider, GEMINI, ["Go on."], begun=begun)
    assert text_of(history) == "Done."

    other = StrictInteractions("gemini-4-argon")
    provider = Provider(
        [other.reply(output("Done."))], check=other.check, complain=error_of_interactions
    )
    history, _ = conversation(provider, INTERACTIONS, ["Go on."], begun=begun)
    assert text_of(history) == "Done."


def test_what_can_go_wrong_on_the_way_is_tried_again() -> None:
    server = StrictGemini("gemini-4-argon")
    broken = server.reply(chunk({"text": "Hel"}), chunk({"text": "lo."}, finish="STOP"))
    malformed = server.reply(
        chunk({"text": "Let me"}), chunk(finish="MALFORMED_FUNCTION_CALL", finishMessage="x")
    )
    busy = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}
    failed = server.reply(chunk({"text": "Hel"}), busy)
    server.reply()
    last = server.reply(chunk({"text": "Hello."}, finish="STOP"))
    script = [
        broken.but(cut_at=80),
        malformed,
        failed,
        answer([busy], status=503),
        last.but(chunk_bytes=1),
    ]
    provider = Provider(script, check=server.check, complain=error_of_gemini)
    history, shown = conversation(provider, GEMINI, ["Hello."])
    assert text_of(history) == "Hello."
    assert len(provider.requests) == 5
    assert len([delta for delta in shown if isinstance(delta, RetryDelta)]) == 4


@pytest.mark.parametrize("indent", [None, 2])
def test_error_between_the_events_is_told_in_its_own_words(indent: int | None) -> None:
    begun = sse([chunk({"text": "Half"})], named=False)
    fault = {"error": {"code": 503, "message": "Overloaded here.", "status": "UNAVAILABLE"}}
    broken = stream(begun + json.dumps([fault], indent=indent).encode())
    script = [broken, stream(sse([chunk({"text": "Whole."}, finish="STOP")], named=False))]
    history, shown = conversation(Provider(script), GEMINI, ["Go."])
    assert text_of(history) == "Whole."
    (retry,) = [delta for delta in shown if isinstance(delta, RetryDelta)]
    assert (retry.status, "Overloaded here." in retry.reason) == (503, True)


def test_refusals_do_not_spoil_the_conversation() -> None:
    server = StrictGemini("gemini-4-argon")
    script = [
        server.reply({"promptFeedback": {"blockReason": "SAFETY"}}),
        server.reply(chunk({"text": "The way"}), chunk(finish="SAFETY")),
        server.reply(chunk(finish="STOP")),
        server.reply(chunk({"text": "Hello."}, finish="STOP")),
    ]
    provider = Provider(script, check=server.check, complain=error_of_gemini)
    history, _ = conversation(provider, GEMINI, ["One.", "Two.", "Three.", "Four."])
    stops = [message.stop for message in history if isinstance(message, AssistantMessage)]
    assert stops == ["refusal", "refusal", "end", "end"]


def interactions_script(server: StrictInteractions) -> list[Reply]:
    return [
        server.reply(
            thought("QQ==", "**Plan**\n\n"),
            output("Reading both."),
            {**step("f1", "read_file", path="ü", limit=3.0), "signature": "Qg=="},
            step("f2", "read_file"),
            step("f3", "nonsense", a=[None, {"b": True}]),
            status="requires_action",
            interaction="v1_1",
        ),
        server.reply(
            thought("Qw=="), step("f4", "bash"), status="requires_action", interaction="v1_2"
        ),
        server.reply(
            output("Once"),
            status="requires_continuation",
            continuation_token="MQ==",
            interaction="v1_3",
        ),
        server.reply(thought("RA=="), output(" upon a time."), interaction="v1_4"),
        server.reply(
            thought("RQ=="), step("f5", "bash"), status="requires_action", interaction="v1_5"
        ),
        server.reply(output("Bye."), interaction="v1_6"),
    ]


@pytest.mark.parametrize("asked", [INTERACTIONS, STORED])
def test_session_of_interactions_pleases_a_strict_server(asked: Model) -> None:
    server = StrictInteractions("gemini-4-argon", stored=asked is STORED)
    script = interactions_script(server)
    provider = Provider(script, check=server.check, complain=error_of_interactions)
    history, _ = conversation(provider, asked, ["Read both.", "Once more."])
    assert len(provider.requests) == 6
    assert text_of(history) == "Bye."


@pytest.mark.parametrize("asked", [INTERACTIONS, STORED])
def test_interactions_whose_call_ids_come_again_get_unique_ones_back(asked: Model) -> None:
    server = StrictInteractions("gemini-4-argon", stored=asked is STORED)
    twins = step("c0", "bash"), step("c0", "bash")
    script = [
        server.reply(thought("QQ=="), *twins, status="requires_action", interaction="v1_1"),
        server.reply(
            thought("Qg=="), step("c0", "bash"), status="requires_action", interaction="v1_2"
        ),
        server.reply(output("Done."), interaction="v1_3"),
        server.reply(output("Bye."), interaction="v1_4"),
    ]
    provider = Provider(script, check=server.check, complain=error_of_interactions)
    conversation(provider, asked, ["Go.", "And?"])
    third = [it["id"] for it in provider.bodies[2]["input"] if it["type"] == "function_call"]
    assert third == ["c0", "c0_2", "c0_3"]
    if asked is STORED:
        continued = [body.get("previous_interaction_id") for body in provider.bodies]
        assert continued == [None, None, None, "v1_3"]


@pytest.mark.parametrize("status", [400, 404])
def test_service_that_forgot_the_interaction_is_told_everything_again(status: int) -> None:
    gone = {"code": status, "message": "Interaction v1_1 not found", "status": "NOT_FOUND"}
    server = StrictInteractions("gemini-4-argon", stored=True)
    script = [
        server.reply(output("One."), interaction="v1_1"),
        answer({"error": gone}, status=status),
        server.reply(output("Two."), interaction="v1_2"),
        server.reply(output("Three."), interaction="v1_3"),
    ]
    provider = Provider(script)
    history, _ = conversation(provider, STORED, ["Go.", "And?", "More?"])
    assert text_of(history) == "Three."
    assert [body.get("previous_interaction_id") for body in provider.bodies] == [
        None,
        "v1_1",
        None,
        "v1_2",
    ]
    assert [it["type"] for it in provider.bodies[2]["input"]] == [
        "user_input",
        "model_output",
        "user_input",
    ]


def test_call_of_a_name_that_gemini_refuses_goes_back_under_another() -> None:
    server = StrictGemini("gemini-4-argon")
    names = ("bad name é", "default_api:bash")
    first, second = call(names[0], "c1", "QQ=="), call(names[1], "c2")
    script = [
        server.reply(chunk(first, second, finish="STOP")),
        server.reply(chunk({"text": "Done."}, finish="STOP")),
    ]
    provider = Provider(script)
    conversation(provider, GEMINI, ["Go."])
    _, called, answers = provider.bodies[1]["contents"]
    sent = [part["functionCall"]["name"] for part in called["parts"]]
    assert sent == [encode_name(names[0]), names[1]]
    assert [part["functionResponse"]["name"] for part in answers["parts"]] == sent
    assert called["parts"][0]["thoughtSignature"] == "QQ=="


def test_calls_that_share_an_id_go_back_with_their_own() -> None:
    server = StrictGemini("gemini-4-argon")
    twins = call("bash", "c0", "QQ==", command="one"), call("bash", "c0", command="two")
    again = call("bash", "c0", "Qg==", command="three"), call("bash", None, command="four")
    script = [
        server.reply(chunk(*twins, finish="STOP")),
        server.reply(chunk(*again, finish="STOP")),
        server.reply(chunk({"text": "Done."}, finish="STOP")),
    ]
    provider = Provider(script, check=server.check, complain=error_of_gemini)
    conversation(provider, GEMINI, ["Go."])
    parts = [part for turn in provider.bodies[-1]["contents"] for part in turn["parts"]]
    called = [part["functionCall"] for part in parts if "functionCall" in part]
    answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
    assert [it["args"]["command"] for it in called] == ["one", "two", "three", "four"]
    ids = [it.get("id") for it in called]
    assert (ids[0], ids[2:]) == ("c0", ["c0", None])
    assert ids[1] not in ("c0", None)
    assert [it.get("id") for it in answers] == ids


def test_stored_session_sends_only_what_is_new() -> None:
    server = StrictInteractions("gemini-4-argon", stored=True)
    script = interactions_script(server)
    provider = Provider(script, check=server.check, complain=error_of_interactions)
    conversation(provider, STORED, ["Read both.", "Once more."])
    sent = [[step["type"] for step in body.get("input", [])] for body in provider.bodies]
    assert sent == [
        ["user_input"],
        ["function_result", "function_result", "function_result"],
        ["function_result"],
        [],
        ["user_input"],
        ["function_result"],
    ]
