import asyncio
from dataclasses import replace

import pytest

from agentcli.providers.catalog import Key
from agentcli.providers.connection import ProviderConnection, RetryPolicy
from agentcli.providers.dialect import Model
from agentcli.providers.transport import open_provider
from agentcli.types.deltas import Delta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Image, Text, ToolCall, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult
from tests.support import strict_chat
from tests.support.openai_fixtures import CHAT, PROMPT, RESPONSES, SYSTEM, TOOLS
from tests.support.provider import Provider, Reply, answer, error_of_openai
from tests.support.responses_streams import called, patched, said, thought
from tests.support.strict_chat import StrictChat, chunk
from tests.support.strict_responses import StrictResponses

IMAGE = Image(media_type="image/png", data="aGk=")


def opened(model: Model, provider: Provider) -> ProviderConnection:
    return open_provider(
        model,
        key=Key(value="sk-test-0123456789", source="test"),
        base_url=provider.base_url,
        environ={},
        retry_policy=RetryPolicy(waits_s=(0.0,)),
    )


def results(reply: AssistantMessage) -> ToolMessage:
    """Answers of all kinds: text, a failure, an image, nothing at all."""
    contents: list[tuple[Text | Image, ...]] = [
        (Text(text="fine"),),
        (Text(text="no such file"),),
        (IMAGE,),
        (),
    ]
    return ToolMessage(
        results=tuple(
            ToolResult(
                call_id=call.id,
                name=call.name,
                status="error" if number % 4 == 1 else "ok",
                content=contents[number % 4],
            )
            for number, call in enumerate(reply.tool_calls)
        )
    )


async def talked(
    provider: Provider, model: Model, *, steps: int, before: tuple[Message, ...] = ()
) -> list[Message]:
    """So many steps of a session; after a reply without calls the person says something."""
    messages: list[Message] = [*before, PROMPT]
    wire = opened(model, provider)
    shown: list[Delta] = []
    try:
        for _ in range(steps):
            request = Request(
                model=model.name,
                system=SYSTEM,
                messages=tuple(messages),
                tools=TOOLS,
                output_limit_tokens=4,
                session="s" * 80,
            )
            reply = await wire.send(request, shown.append)
            messages.append(reply)
            messages.append(
                results(reply)
                if reply.tool_calls
                else UserMessage(content=(Text(text="And now?"), IMAGE))
            )
    finally:
        await wire.close()
    return messages


def session(
    server: StrictResponses | StrictChat,
    replies: list[Reply],
    model: Model,
    *,
    before: tuple[Message, ...] = (),
) -> tuple[Provider, list[Message]]:
    provider = Provider(replies, check=server.check, complain=error_of_openai)
    with provider:
        messages = asyncio.run(talked(provider, model, steps=len(replies), before=before))
    return provider, messages


def responses_replies(server: StrictResponses) -> list[Reply]:
    return [
        server.reply(
            thought(0),
            said("Reading.", number=1, phase="commentary"),
            called("read_file", '{"path": "a.py", "limit": null}', number=2),
            called("read_file", '{"path":"b.py"}', number=3),
            patched("*** Begin Patch\n*** End Patch\n", number=4),
            called("apply_patch", '{"patch":"*** Begin', number=5),
        ),
        server.reply(thought(6), thought(7), called("list_jobs", "{}", number=8)),
        server.reply(said("No thought, no call.", number=9)),
        server.reply(
            called("made_up", '{"a": 1}', number=10),
            thought(11),
            said("Both at once.", number=12, phase="commentary"),
        ),
        server.reply(thought(13), said("Done.", number=14)),
    ]


@pytest.mark.parametrize("quirks", [frozenset(), frozenset({"stored"})])
def test_responses_session_is_never_complained_about(quirks: frozenset[str]) -> None:
    server = StrictResponses()
    model = replace(RESPONSES, quirks=quirks)
    provider, _ = session(server, responses_replies(server), model)
    assert provider.complaints == []
    assert len(provider.requests) == 5


def test_server_that_forgot_the_reply_is_told_everything_again() -> None:
    forgotten = answer(
        error_of_openai("Previous response with id 'resp_00' not found."), status=400
    )
    model = replace(RESPONSES, quirks=frozenset({"stored"}))
    strict = StrictResponses()
    script = [strict.reply(said("One.")), forgotten, strict.reply(said("Two."))]
    with Provider(script) as provider:
        history = asyncio.run(talked(provider, model, steps=2))
    first, continued, whole = provider.bodies
    assert continued["previous_response_id"] == "resp_00"
    assert "previous_response_id" not in whole
    assert whole["input"][: len(first["input"])] == first["input"]
    assert [message.text for message in history if isinstance(message, AssistantMessage)] == [
        "One.",
        "Two.",
    ]


def test_stored_session_whose_call_ids_come_again_is_told_everything() -> None:
    model = replace(RESPONSES, quirks=frozenset({"stored"}))
    strict = StrictResponses()
    twins = [{**called("bash", "{}", number=number), "call_id": "c1"} for number in (1, 2)]
    script = [strict.reply(*twins), strict.reply(said("Done.")), strict.reply(said("Bye."))]
    with Provider(script) as provider:
        asyncio.run(talked(provider, model, steps=3))
    first, whole, continued = provider.bodies
    assert "previous_response_id" not in whole
    assert [it.get("call_id") for it in whole["input"][len(first["input"]) :]] == [
        "c1",
        "c1_2",
        "c1",
        "c1_2",
    ]
    assert continued["previous_response_id"] == "resp_01"


def test_stored_session_sends_only_what_is_new() -> None:
    server = StrictResponses()
    model = replace(RESPONSES, quirks=frozenset({"stored"}))
    provider, _ = session(server, responses_replies(server), model)
    assert [len(body["input"]) for body in provider.bodies] == [1, 4, 1, 1, 1]
    assert [body.get("previous_response_id") for body in provider.bodies] == [
        None,
        "resp_00",
        "resp_01",
        "resp_02",
        "resp_03",
    ]


def test_responses_session_survives_thoughts_that_nobody_kept() -> None:
    server = StrictResponses()
    replies = [
        server.reply(
            thought(0, sealed=None),
            said("Reading.", number=1, phase="commentary"),
            called("read_file", '{"path":"a.py"}', number=2),
        ),
        server.reply(thought(3), called("read_file", '{"path":"b.py"}', number=4)),
        server.reply(said("Done.", number=5)),
    ]
    provider, _ = session(server, replies, RESPONSES)
    assert provider.complaints == []


def foreign(protocol: str) -> tuple[Message, ...]:
    """A conversation another provider began, with ids and names that only it takes."""
    calls = (
        ToolCall(id="toolu_" + "x" * 60, name="mcp.server/read file", input={"a": "\ud83d"}),
        ToolCall(id="", name="bash", input='{"command": "half'),
        ToolCall(id="fc_1", name="apply_patch", input={"patch": "*** Begin Patch"}),
        ToolCall(id="fc_1", name="apply_patch", input={"patch": 3}),
    )
    reply = AssistantMessage(
        content=(Text(text="Hm."), *calls), stop="tool_calls", protocol=protocol, model="other"
    )
    return (PROMPT, reply, results(reply))


@pytest.mark.parametrize("protocol", ["anthropic", "openai-responses"])
def test_responses_session_goes_on_from_another_model(protocol: str) -> None:
    server = StrictResponses()
    provider, _ = session(server, responses_replies(server), RESPONSES, before=foreign(protocol))
    assert provider.complaints == []


def chat_replies(server: StrictChat) -> list[Reply]:
    return [
        server.reply(
            strict_chat.called(
                ("call_a", "read_file", '{"path": "a.py"}'),
                ("call_b", "read_file", '{"path":"b.py"}'),
                ("call_c", "read_file", '{"path":"c.png"}'),
                ("call_d", "list_jobs", "{}"),
                text="Reading.",
                reasoning_content="All of them.",
            )
        ),
        server.reply(strict_chat.called(("call_e", "made_up", '{"a": 1}'))),
        server.reply(strict_chat.said("No call.")),
        server.reply(strict_chat.called(("call_f", "read_file", '{"path":"d.py"}'))),
        server.reply(strict_chat.said("Done.")),
    ]


@pytest.mark.parametrize("before", [(), foreign("anthropic"), foreign("openai-chat")])
@pytest.mark.parametrize(
    "model", [CHAT, replace(CHAT, name="gpt-6-luna", strict_tools=True, thinking=True)]
)
def test_chat_session_is_never_complained_about(model: Model, before: tuple[Message, ...]) -> None:
    server = StrictChat()
    provider, _ = session(server, chat_replies(server), model, before=before)
    assert provider.complaints == []
    assert len(provider.requests) == 5


def test_chat_session_survives_a_server_that_gives_one_id_to_every_call() -> None:
    server = StrictChat()

    def same(path: str) -> dict[str, object]:
        function = {"name": "read_file", "arguments": f'{{"path":"{path}"}}'}
        return {"index": 0, "id": "call_0", "type": "function", "function": function}

    chunks = [chunk({"tool_calls": [same("a")]}), chunk({"tool_calls": [same("b")]})]
    given = [("call_0", "read_file", '{"path":"a"}'), ("call_0_2", "read_file", '{"path":"b"}')]
    again = [("call_0_3", "read_file", '{"path":"a"}'), ("call_0_2_2", "read_file", '{"path":"b"}')]
    replies = [
        server.reply(strict_chat.called(*given), *chunks, chunk({}, "stop")),
        server.reply(strict_chat.called(*again), *chunks, chunk({}, "stop")),
        server.reply(strict_chat.said("Done.")),
    ]
    provider, _ = session(server, replies, CHAT)
    assert provider.complaints == []


def test_chat_arguments_that_are_no_json_never_go_back_as_they_came() -> None:
    server = StrictChat()
    malformed = strict_chat.by_the_book(
        strict_chat.called(("call_a", "bash", '{"command": "echo "hi""}'))
    )
    replies = [
        server.reply(strict_chat.called(("call_a", "bash", "{}")), *malformed),
        server.reply(strict_chat.said("Done.")),
    ]
    provider, messages = session(server, replies, CHAT)
    first = messages[1]
    assert isinstance(first, AssistantMessage)
    assert first.tool_calls[0].input == '{"command": "echo "hi""}'
    assert provider.complaints == []


@pytest.mark.parametrize("model", [RESPONSES, CHAT])
def test_error_of_the_provider_becomes_its_kind(model: Model) -> None:
    body = {"error": {"message": "Too long.", "type": "x", "code": "context_length_exceeded"}}
    with Provider([answer(body, status=400)]) as provider, pytest.raises(ProviderError) as caught:
        asyncio.run(talked(provider, model, steps=1))
    assert caught.value.kind is ProviderErrorKind.OVERFLOW
