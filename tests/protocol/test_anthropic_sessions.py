"""Whole conversations with a provider that refuses every request it can find fault with."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agentcli.providers.catalog import Key, resolve
from agentcli.providers.connection import ProviderConnection, RetryPolicy
from agentcli.providers.transport import open_provider
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult
from tests.support.anthropic_fixtures import TOOLS
from tests.support.anthropic_streams import call, calls, events, says, text, thinking, whole
from tests.support.provider import Provider, Recorded, Reply, Script, answer, sse, stream
from tests.support.strict_anthropic import StrictAnthropic

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
OVERLOADED = answer(
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, status=529
)
LIMITED = answer(
    {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}},
    status=429,
    headers={"retry-after-ms": "5"},
)


def said(words: str) -> UserMessage:
    return UserMessage(content=(Text(text=words),))


def output(message: AssistantMessage) -> ToolMessage:
    """What tools would answer: an error where the arguments are none, else what was asked."""
    results = []
    for it in message.tool_calls:
        is_good = isinstance(it.input, dict) and it.name in ("bash", "read_file")
        results.append(
            ToolResult(
                call_id=it.id,
                name=it.name,
                status="ok" if is_good else "error",
                content=(Text(text=json.dumps(it.input) if is_good else "Invalid input."),),
                error=None if is_good else ErrorKind.INVALID_INPUT,
            )
        )
    return ToolMessage(results=tuple(results))


async def turn(
    wire: ProviderConnection, history: list[Message], *, steps: int = 400
) -> AssistantMessage:
    """The plainest loop there can be."""
    for _ in range(steps):
        request = Request(model="", system="Work.", messages=tuple(history), tools=TOOLS)
        message = await wire.send(request, lambda delta: None)
        history.append(message)
        if message.tool_calls:
            history.append(output(message))
        elif message.stop != "paused":
            return message
    raise AssertionError("it never ends")


def connected(provider: Provider) -> ProviderConnection:
    return open_provider(
        resolve("opus"),
        key=Key(value="sk-ant-test-0123456789", source="ANTHROPIC_API_KEY"),
        base_url=provider.base_url,
        environ={},
        retry_policy=RetryPolicy(waits_s=(0.0,)),
    )


def played(script: Script, *prompts: str) -> tuple[list[Message], Provider]:
    """Plays the whole script, one turn for each prompt, without a single complaint."""
    history: list[Message] = []

    async def session(provider: Provider) -> None:
        wire = connected(provider)
        for prompt in prompts:
            history.append(said(prompt))
            await turn(wire, history)
        await wire.close()

    checker = StrictAnthropic()
    checker.thinking = {"c2lnbmF0dXJl": "Hm."}
    with Provider(script, check=checker) as provider:
        asyncio.run(session(provider))
    assert provider.complaints == []
    return history, provider


def ls(number: int) -> Reply:
    return calls(call(f"toolu_{number}", "bash", {"command": f"ls {number}"}))


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"chunk_bytes": 1},
        {"chunk_bytes": 7, "framing": "length"},
        {"framing": "close"},
        {"keep_alive": False},
    ],
)
def test_long_session_is_never_complained_of(knobs: dict[str, Any]) -> None:
    script = [
        calls(call("toolu_1", "bash", {"command": "ls"}), before=[thinking("Hm."), text("\n\n")]),
        calls(call("toolu_2", "read_file", {"path": "é😀"}), call("toolu_3", "bash", "")),
        calls(call("toolu_4", "bash", '{"command": "ls'), before=[text("Oops.")]),
        calls(call("toolu_5", "no_such_tool", {})),
        says("Done."),
        calls(call("toolu_6", "bash", {"command": "ls"}), before=[thinking("Hm.")]),
        says("Done again."),
    ]
    history, provider = played([reply.but(**knobs) for reply in script], "Fix it.", "More.")
    last = history[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == "Done again."
    assert len(provider.requests) == len(script)


def test_same_id_in_every_reply_is_never_complained_of() -> None:
    again = calls(call("toolu_1", "bash", {}), call("toolu_1", "bash", {"command": "x"}))
    history, _ = played([again] * 5 + [says("Done.")], "Go")
    ids = [it.id for m in history if isinstance(m, AssistantMessage) for it in m.tool_calls]
    assert len(ids) == len(set(ids)) == 10


def test_bursts_and_cuts_leave_no_trace() -> None:
    cut = ls(2).but(cut_at=500)
    script = [OVERLOADED, LIMITED, ls(1), cut, OVERLOADED, cut, ls(2), LIMITED, says("Done.")]
    history, provider = played(script, "Go")
    assert len(history) == 6
    assert len(provider.requests) == len(script)


def test_paused_reply_goes_on_without_a_word() -> None:
    paused = stream(sse(events([text("Searching."), whole(SEARCH)], stop_reason="pause_turn")))
    found = stream(sse(events([whole(FOUND), text("Found.")])))
    history, provider = played([paused, found, says("You are welcome.")], "Search", "Thanks")
    assert [turn["role"] for turn in provider.bodies[1]["messages"]] == ["user", "assistant"]
    assert [turn["role"] for turn in provider.bodies[2]["messages"]] == [
        "user",
        "assistant",
        "assistant",
        "user",
    ]
    assert len(history) == 5


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_conversation_goes_on_after_any_stop(stop_reason: str) -> None:
    half = [text("I will"), call("toolu_1", "bash", '{"command": "rm -rf ')]
    stopped = stream(sse(events(half, stop_reason=stop_reason)))
    history, _ = played([stopped, says("Better.")], "Go", "Try again")
    assert [type(message) for message in history] == [UserMessage, AssistantMessage] * 2


def test_reply_of_nothing_is_survived() -> None:
    history, _ = played([stream(sse(events([]))), says("Sorry.")], "Go", "Hello?")
    assert len(history) == 4


def test_large_arguments_go_both_ways() -> None:
    content = "é line\n" * 150_000
    large = calls(call("toolu_1", "bash", {"command": content}, pieces=3000))
    history, provider = played([large, says("Done.")], "Go")
    assert provider.bodies[1]["messages"][1]["content"][0]["input"] == {"command": content}
    assert len(history) == 4


def test_many_steps_on_one_connection_are_never_complained_of() -> None:
    history, provider = played([*map(ls, range(60)), says("Done.")], "Go")
    assert len(history) == 122
    assert provider.connections == 1


def test_interrupted_call_is_answered_in_the_next_turn() -> None:
    async def session(provider: Provider) -> None:
        wire = connected(provider)
        history: list[Message] = [said("Go")]
        request = Request(model="", system="Work.", messages=tuple(history), tools=TOOLS)
        history.append(await wire.send(request, lambda delta: None))
        history.append(said("Stop, do something else."))
        await turn(wire, history)

    with Provider([ls(1), says("Done.")], check=StrictAnthropic()) as provider:
        asyncio.run(session(provider))
    assert provider.complaints == []
    assert provider.bodies[1]["messages"][2]["content"][0]["is_error"] is True


def refuses(change: Callable[[Any], None]) -> str | None:
    """What the checker says of a good request with one thing changed in it."""
    history, provider = played([ls(1), says("Done.")], "Go")
    body = provider.bodies[1]
    change(body)
    last = provider.requests[1]
    checker = StrictAnthropic()
    checker(provider.requests[0])
    assert len(history) == 4
    return checker(
        Recorded(
            method=last.method,
            path=last.path,
            headers=last.headers,
            body=json.dumps(body).encode(),
            connection=0,
        )
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: body["messages"].pop(), "without tool_result"),
        (lambda body: body["messages"][0]["content"][0].update(text="Changed"), "prefix"),
        (lambda body: body["messages"][2]["content"].clear(), "non-empty content"),
        (lambda body: body["messages"][1]["content"][0].update(id="other"), "tool_use_id"),
        (lambda body: body["tools"].pop(), "tools changed"),
        (lambda body: body.update(temperature=1), "Extra inputs"),
        (lambda body: body["system"][0].update(text=" "), "non-empty"),
    ],
)
def test_checker_sees_what_is_wrong(change: Callable[[Any], None], words: str) -> None:
    complaint = refuses(change)
    assert complaint is not None
    assert words in complaint


def test_complaint_ends_the_turn_after_one_request() -> None:
    with Provider([], check=lambda request: "messages.0: you are wrong") as provider:
        with pytest.raises(ProviderError, match="you are wrong") as caught:
            asyncio.run(turn(connected(provider), [said("Go")]))
        assert caught.value.kind is ProviderErrorKind.REJECTED
        assert len(provider.requests) == 1
