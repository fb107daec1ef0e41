from collections.abc import Sequence
from typing import Any

import pytest

from agentcli.providers.catalog import resolve
from agentcli.providers.normalize import find_request_tools
from agentcli.providers.transport import find_dialect
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

NAMES = ("hub__find", "hub__pay", "hub__send")
DEFERRED = tuple(
    ToolSpec(name=name, description=name, schema={"type": "object"}, source="mcp hub")
    for name in NAMES
)
SEARCH = ToolSpec(name="search_tools", description="Search.", schema={"type": "object"})
PROMPT = UserMessage(content=(Text(text="Go."),))
SEARCHED: Sequence[Message] = (
    AssistantMessage(
        content=(ToolCall(id="c1", name="search_tools", input={"query": "pay"}),),
        stop="tool_calls",
        protocol="x",
        model="y",
    ),
    ToolMessage(
        results=(
            ToolResult(
                call_id="c1",
                name="search_tools",
                status="ok",
                content=(Text(text="One."),),
                found=("hub__pay",),
            ),
        )
    ),
)


def request(*messages: Message, found: Sequence[ToolSpec] = ()) -> Request:
    return Request(
        model="m", system="", messages=messages, tools=(SEARCH, *found), deferred=DEFERRED
    )


def shown(body: dict[str, Any]) -> list[str]:
    tools = [tool for tool in body["tools"] if "defer_loading" not in tool]
    return [tool.get("name", tool.get("type")) for tool in tools]


def test_what_was_found_stays_hidden_while_the_result_names_it() -> None:
    found = request(PROMPT, *SEARCHED, found=DEFERRED[1:2])
    assert find_request_tools(found, resolve("opus")).hidden is DEFERRED
    assert find_request_tools(found, resolve("argon")).hidden == ()
    assert find_request_tools(request(PROMPT), resolve("opus")).hidden is DEFERRED


@pytest.mark.parametrize(("name", "search"), [("opus", "search_tools"), ("sol", "tool_search")])
def test_what_was_found_before_a_summary_is_declared(name: str, search: str) -> None:
    model = resolve(name)
    dialect = find_dialect(model.protocol)
    searched = request(PROMPT, *SEARCHED, found=DEFERRED[1:2])
    assert shown(dialect.encode(searched, model)) == [search]
    summarised = request(PROMPT, found=DEFERRED[1:2])
    assert shown(dialect.encode(summarised, model)) == [search, "hub__pay"]
    assert find_request_tools(summarised, model).hidden == (DEFERRED[0], DEFERRED[2])
    again = find_request_tools(summarised, model)
    assert find_request_tools(summarised, model).hidden is again.hidden
