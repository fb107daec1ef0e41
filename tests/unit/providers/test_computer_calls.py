"""Calls of the providers' computer tools as actions of ours; the SDKs are the referees."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from agentcli.features.computer.computer import ComputerArgs
from agentcli.providers.anthropic import provider_tools as anthropic_tool
from agentcli.providers.catalog import resolve
from agentcli.providers.gemini import provider_tools as gemini_tool
from agentcli.providers.normalize import normalize
from agentcli.providers.openai import provider_tools as openai_tool
from agentcli.tools.arguments import parse_arguments
from agentcli.types.messages import AssistantMessage, Echo, Image, Text, ToolCall, UserMessage
from agentcli.types.tools import ErrorKind, ToolResult
from tests.support.sdk_types import load_type

Object = dict[str, Any]

POINT = {"type": "coordinate", "x": 10, "y": 20}

MEMBERS: list[tuple[str, Object, Object]] = [
    ("navigate", {"url": "https://x.org/"}, {"action": "navigate", "url": "https://x.org/"}),
    ("navigate", {"url": "back"}, {"action": "back"}),
    ("screenshot", {}, {"action": "screenshot"}),
    ("left_click", {"target": POINT}, {"action": "click", "x": 10, "y": 20}),
    (
        "triple_click",
        {"target": POINT, "modifiers": "shift"},
        {"action": "click", "x": 10, "y": 20, "count": 3, "keys": "shift"},
    ),
    ("right_click", {"target": POINT}, {"action": "click", "x": 10, "y": 20, "button": "right"}),
    ("hover", {"target": POINT}, {"action": "move", "x": 10, "y": 20}),
    ("left_mouse_down", {"target": POINT}, {"action": "press", "x": 10, "y": 20}),
    (
        "left_click_drag",
        {"from": POINT, "target": {**POINT, "x": 30}},
        {"action": "drag", "x": 10, "y": 20, "to_x": 30, "to_y": 20},
    ),
    (
        "scroll",
        {"target": POINT, "scroll_direction": "up", "scroll_amount": 2},
        {"action": "scroll", "x": 10, "y": 20, "by_y": -200},
    ),
    ("type", {"text": "Ada"}, {"action": "type", "text": "Ada"}),
    ("key", {"text": "ctrl+a", "repeat": 2}, {"action": "key", "keys": "ctrl+a", "count": 2}),
    (
        "hold_key",
        {"text": "shift", "duration": 0.5},
        {"action": "hold_key", "keys": "shift", "seconds": 1},
    ),
    ("wait", {"duration": 2.0}, {"action": "wait", "seconds": 2}),
    ("zoom", {"region": [0, 1, 2, 3]}, {"action": "zoom", "x": 0, "y": 1, "to_x": 2, "to_y": 3}),
]


@pytest.mark.parametrize(("member", "given", "action"), MEMBERS)
def test_member_of_the_browser_toolset(member: str, given: Object, action: Object) -> None:
    camel = "".join(word.capitalize() for word in member.split("_"))
    load_type("anthropic.types", f"Browser{camel}Input").model_validate(given, strict=True)
    assert anthropic_tool.read_call(member, given) == ("computer", {"actions": [action]})
    parse_arguments(ComputerArgs, {"actions": [action]})


ACTIONS: list[tuple[Object, Object]] = [
    (
        {"type": "click", "button": "wheel", "x": 1, "y": 2, "keys": ["CTRL"]},
        {"action": "click", "x": 1, "y": 2, "button": "middle", "keys": "CTRL"},
    ),
    ({"type": "click", "button": "back", "x": 1, "y": 2}, {"action": "back"}),
    ({"type": "double_click", "x": 1, "y": 2}, {"action": "click", "x": 1, "y": 2, "count": 2}),
    (
        {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}, {"x": 5, "y": 6}]},
        {"action": "drag", "x": 1, "y": 2, "to_x": 5, "to_y": 6},
    ),
    ({"type": "keypress", "keys": ["CTRL", "A"]}, {"action": "key", "keys": "CTRL+A"}),
    ({"type": "move", "x": 1, "y": 2}, {"action": "move", "x": 1, "y": 2}),
    ({"type": "screenshot"}, {"action": "screenshot"}),
    (
        {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 300},
        {"action": "scroll", "x": 1, "y": 2, "by_x": 0, "by_y": 300},
    ),
    ({"type": "type", "text": "Ada"}, {"action": "type", "text": "Ada"}),
    ({"type": "wait"}, {"action": "wait"}),
]


@pytest.mark.parametrize("is_list", [True, False])
@pytest.mark.parametrize(("given", "action"), ACTIONS)
def test_action_of_the_computer_tool(given: Object, action: Object, is_list: bool) -> None:
    item: Any = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_1",
        "status": "completed",
        "pending_safety_checks": [],
        **({"actions": [given]} if is_list else {"action": given}),
    }
    responses = "openai.types.responses.response_computer_tool_call"
    load_type(responses, "ResponseComputerToolCall").model_validate(item, strict=True)
    assert openai_tool.read_call(item, {}) == ("computer", {"actions": [action]})
    parse_arguments(ComputerArgs, {"actions": [action]})


FUNCTIONS: list[tuple[str, Object, list[Object]]] = [
    ("open_web_browser", {}, [{"action": "screenshot"}]),
    ("go_back", {}, [{"action": "back"}]),
    ("navigate", {"url": "https://x.org"}, [{"action": "navigate", "url": "https://x.org"}]),
    ("click_at", {"x": 500, "y": 250}, [{"action": "click", "x": 640, "y": 200}]),
    ("hover_at", {"x": 1000, "y": 999.9}, [{"action": "move", "x": 1280, "y": 800}]),
    (
        "type_text_at",
        {"x": 0, "y": 0, "text": "Ada", "press_enter": True},
        [
            {"action": "click", "x": 0, "y": 0},
            {"action": "key", "keys": "ctrl+a Delete"},
            {"action": "type", "text": "Ada"},
            {"action": "key", "keys": "Enter"},
        ],
    ),
    ("key_combination", {"keys": "control+a"}, [{"action": "key", "keys": "control+a"}]),
    ("scroll_document", {"direction": "up"}, [{"action": "scroll", "by_y": -640}]),
    (
        "scroll_at",
        {"x": 500, "y": 500, "direction": "right", "magnitude": 100},
        [{"action": "scroll", "x": 640, "y": 400, "by_x": 128}],
    ),
    (
        "drag_and_drop",
        {"x": 0, "y": 0, "destination_x": 500, "destination_y": 500},
        [{"action": "drag", "x": 0, "y": 0, "to_x": 640, "to_y": 400}],
    ),
    ("wait_5_seconds", {}, [{"action": "wait", "seconds": 5}]),
]


@pytest.mark.parametrize(("name", "given", "actions"), FUNCTIONS)
def test_function_of_gemini(name: str, given: Object, actions: list[Object]) -> None:
    call = gemini_tool.translate(ToolCall(id="1", name=name, input=given))
    assert (call.name, call.input) == ("computer", {"actions": actions})
    parse_arguments(ComputerArgs, call.input)


def test_other_calls_of_gemini_stay() -> None:
    call = ToolCall(id="1", name="search", input={"q": "x"})
    assert gemini_tool.translate(call) is call


def test_declarations_are_what_the_sdks_take() -> None:
    browser = load_type("anthropic.types", "BrowserToolset20260801Param")
    toolset: TypeAdapter[Any] = TypeAdapter(browser)
    toolset.validate_python(anthropic_tool.DECLARATION, strict=True, extra="forbid")
    computer = load_type("openai.types.responses.computer_tool_param", "ComputerToolParam")
    tool: TypeAdapter[Any] = TypeAdapter(computer)
    tool.validate_python(openai_tool.DECLARATIONS[0], strict=True, extra="forbid")
    load_type("google.genai.types", "Tool").model_validate(gemini_tool.IN_GENERATE, extra="forbid")
    interactions = "google.genai._gaos.types.interactions.computeruse"
    load_type(interactions, "ComputerUse").model_validate(
        gemini_tool.IN_INTERACTIONS, extra="forbid"
    )


@pytest.mark.parametrize("error", [None, ErrorKind.FAILED, ErrorKind.DENIED])
def test_screenshots_go_back_with_confirmed_checks(error: ErrorKind | None) -> None:
    checks: list[Any] = [{"id": "sc_1", "code": "x", "message": "Looks odd."}]
    call: Any = {"type": "computer_call", "pending_safety_checks": checks}
    assert openai_tool.read_call(call, {})[1] == {"actions": [], "caution": "Looks odd."}
    result = ToolResult(
        call_id="call_1",
        name="computer",
        status="error" if error else "ok",
        content=(
            Text(text="why"),
            *([] if error else [Image(media_type="image/png", data="eA==")]),
        ),
        error=error,
    )
    answers: list[Any] = openai_tool.make_answers(result, call)
    answer, *messages = answers
    item = load_type("openai.types.responses.response_input_item_param", "ComputerCallOutput")
    output: TypeAdapter[Any] = TypeAdapter(item)
    output.validate_python(answer, strict=True, extra="forbid")
    assert ("acknowledged_safety_checks" in answer) == (error is not ErrorKind.DENIED)
    assert [one["content"][0]["text"] for one in messages] == (["Error: why"] if error else [])
    given: Any = {"safety_decision": {"decision": "require_confirmation", "explanation": "Odd."}}
    assert gemini_tool.read_caution(given) == "Odd."
    assert bool(gemini_tool.confirm(given, result)) == (error is not ErrorKind.DENIED)


@pytest.mark.parametrize("is_on", [True, False])
def test_calls_are_those_of_a_function_once_the_tool_is_off(is_on: bool) -> None:
    model = replace(resolve("opus"), computer=is_on)
    echo = Echo(protocol=model.protocol, model=model.name, data={"toolset_name": "browser"})
    call = ToolCall(id="toolu_1", name="computer", input={"actions": []}, echo=echo)
    message = AssistantMessage(
        content=(call,), stop="tool_calls", protocol=model.protocol, model=model.name
    )
    said = UserMessage(content=(Text(text="go"),))
    kept = normalize([said, message], model)[1]
    assert isinstance(kept, AssistantMessage)
    assert kept.tool_calls[0].echo == (echo if is_on else None)
