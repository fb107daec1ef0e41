"""Tools that the provider loads where a search has found them, on servers that know the shapes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from splintr import Tokenizer

from agentcli.providers.catalog import resolve
from agentcli.providers.normalize import normalize
from agentcli.providers.transport import find_dialect
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.provider import Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec
from tests.e2e.test_providers import Server, anthropic_server, chat_server, responses_server
from tests.protocol.test_mcp_sessions import config, results
from tests.support.program import Ran, agentcli
from tests.support.provider import Provider, Reply
from tests.support.sdk_types import load_request_type
from tests.support.strict_responses import StrictResponses

pytestmark = pytest.mark.usefixtures("without_sandbox")

QUERY = {"query": "look up an invoice"}
FOUND = "nasty__find_invoice"
NATIVE = {"AGENTCLI_TOOL_SEARCH": "provider"}


def loading_responses_server() -> Server:
    """Where a search is an item of its own kind."""
    strict = StrictResponses()
    plain = responses_server()

    def calls(given: Any) -> Reply:
        ((call_id, name, arguments),) = given
        made: dict[str, Any] = {"call_id": call_id, "status": "completed"}
        if name == "search_tools":
            made |= {"type": "tool_search_call", "id": f"tsc_{call_id}", "execution": "client"}
            return strict.reply({**made, "arguments": arguments}, stored=False)
        made |= {"type": "function_call", "id": f"fc_{call_id}", "name": name}
        return strict.reply({**made, "arguments": json.dumps(arguments)}, stored=False)

    def says(text: str) -> Reply:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        return strict.reply(message, stored=False)

    return replace(plain, check=strict.check, says=says, calls=calls)


def session(
    server: Server, replies: list[Reply], *options: str | Path, home: Path, **env: str
) -> tuple[Ran, list[Any]]:
    with Provider(replies, check=server.check, complain=server.complain) as provider:
        given = {**server.env(provider), **NATIVE, **env}
        ran = agentcli("run", "--model", server.model, *options, "x", home=home, env=given)
        assert provider.complaints == []
        return ran, provider.bodies


def search_and_call(server: Server) -> list[Reply]:
    return [
        server.calls([("call_1", "search_tools", QUERY)]),
        server.calls([("call_2", FOUND, {})]),
        server.says("Done."),
    ]


def named(tools: list[Any], name: str) -> Any:
    return next(tool for tool in tools if tool.get("name") == name)


def test_anthropic_is_given_every_tool_once_and_a_result_names_those_found(
    home: Path, workspace: Path
) -> None:
    server = anthropic_server()
    options = ("--allow", "mcp", "--mcp-config", config(home, "many"), "-C", workspace)
    ran, bodies = session(server, search_and_call(server), *options, home=home)
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    hidden = [tool for tool in bodies[0]["tools"] if tool.get("defer_loading")]
    shown = [tool for tool in bodies[0]["tools"] if not tool.get("defer_loading")]
    assert (len(hidden), shown[-1]["name"]) == (303, "search_tools")  # two of them are our own
    assert named(hidden, FOUND)["description"].startswith("Looks up an invoice")
    assert tokens(shown[-1]) < 600
    (result,) = bodies[1]["messages"][-1]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": FOUND}]
    assert results(home)[1] == "[no output]"


def test_openai_is_given_a_tool_when_it_was_found(home: Path, workspace: Path) -> None:
    server = loading_responses_server()
    options = ("--allow", "mcp", "--mcp-config", config(home, "many"), "-C", workspace)
    ran, bodies = session(server, search_and_call(server), *options, home=home)
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    assert "nasty__tool_" not in json.dumps(bodies[0])
    (search,) = (tool for tool in bodies[0]["tools"] if tool["type"] == "tool_search")
    assert tokens(search) < 600
    loaded = bodies[1]["input"][-1]
    assert (loaded["type"], [tool["name"] for tool in loaded["tools"]]) == (
        "tool_search_output",
        [FOUND],
    )
    assert results(home)[1] == "[no output]"


def tokens(declared: Any) -> int:
    return len(Tokenizer.from_pretrained("o200k_base").encode(json.dumps(declared)))


def test_official_types_take_what_is_sent() -> None:
    hidden = ToolSpec(name=FOUND, description="", schema={"type": "object"}, source="mcp nasty")
    search = ToolSpec(name="search_tools", description="Search.", schema={"type": "object"})
    call = ToolCall(id="c1", name="search_tools", input=dict(QUERY))
    reply = AssistantMessage(content=(call,), stop="tool_calls", protocol="x", model="y")
    result = ToolResult(
        call_id="c1",
        name="search_tools",
        status="ok",
        content=(Text(text="One."),),
        found=(FOUND, "gone__tool"),
    )
    history = (UserMessage(content=(Text(text="Go."),)), reply, ToolMessage(results=(result,)))
    for name, protocol in (("opus", "anthropic"), ("sol", "openai-responses")):
        model = resolve(name)
        request = Request(
            model=model.name,
            system="",
            messages=normalize(history, model),
            tools=(search, replace(hidden, deferred=False)),
            deferred=(hidden,),
        )
        body = find_dialect(model.protocol).encode(request, model)
        load_request_type(protocol).validate_python(body)
        told = json.dumps(body)
        assert (told.count(f'"{FOUND}"'), "gone__tool" in told) == (
            2 if name == "opus" else 1,
            False,
        )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (anthropic_server, loading_responses_server),
        (loading_responses_server, loading_responses_server),
        (loading_responses_server, chat_server),
        (chat_server, anthropic_server),
    ],
)
def test_what_was_found_is_known_to_the_next_model(
    first: Callable[[], Server], second: Callable[[], Server], home: Path, workspace: Path
) -> None:
    options = ("--allow", "mcp", "--mcp-config", config(home, "many"), "-C", workspace)
    before = first()
    after = before if first is second else second()
    session(before, search_and_call(before), *options, home=home)
    replies = [after.calls([("call_9", FOUND, {})]), after.says("Again.")]
    ran, bodies = session(after, replies, "--continue", *options, home=home)
    assert (ran.code, ran.out) == (0, "Again.\n"), ran.err
    assert FOUND in json.dumps(bodies[0])


@pytest.mark.parametrize(
    ("make", "other_model"),
    [
        (anthropic_server, "anthropic/claude-sonnet-5-5"),
        (loading_responses_server, "openai/gpt-6-astra"),
    ],
)
def test_tool_whose_server_is_gone_is_named_no_more(
    make: Callable[[], Server], other_model: str, home: Path, workspace: Path
) -> None:
    servers = config(home, "many")
    server, later = make(), replace(make(), model=other_model)
    options = ("-C", workspace, "--allow", "mcp")
    session(server, search_and_call(server), *options, "--mcp-config", servers, home=home)
    ran, _ = session(later, [later.says("Well.")], "--continue", *options, home=home)
    assert (ran.code, ran.out) == (0, "Well.\n"), ran.err


def test_search_is_judged_like_any_call(home: Path, workspace: Path) -> None:
    server = loading_responses_server()
    replies = [server.calls([("call_1", "search_tools", QUERY)]), server.says("Then not.")]
    options = ("--deny", "search_tools", "--mcp-config", config(home, "many"), "-C", workspace)
    _, bodies = session(server, replies, *options, "--on-deny", "ignore", home=home)
    assert bodies[1]["input"][-1]["tools"] == []
    assert results(home) == ["Denied: rule deny search_tools (--deny) forbids it"]


@pytest.mark.parametrize(
    ("setting", "hides"), [("provider", True), ("auto", False), ("own", False)]
)
def test_setting_decides_who_loads_tools(
    setting: str, hides: bool, home: Path, workspace: Path
) -> None:
    server = anthropic_server()
    options = ("--mcp-config", config(home, "many"), "-C", workspace)
    _, (body,) = session(
        server, [server.says("Hi.")], *options, home=home, AGENTCLI_TOOL_SEARCH=setting
    )
    assert any("defer_loading" in tool for tool in body["tools"]) is hides
