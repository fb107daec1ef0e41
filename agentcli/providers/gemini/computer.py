"""Gemini's computer use in both of its protocols: declarations, and its calls as actions of ours.

Its functions have names of their own and count coordinates in thousandths of the screen.
"""

from collections.abc import Mapping
from dataclasses import replace

from agentcli.providers.gemini.values import as_mapping, as_string
from agentcli.types.computer import COMPUTER, SCREEN_HEIGHT, SCREEN_WIDTH
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import ErrorKind, ToolResult

_OFF: list[Json] = ["search"]
"""It would open a search engine of its choice."""
IN_GENERATE: Json = {
    "computerUse": {
        "environment": "ENVIRONMENT_BROWSER",
        "excludedPredefinedFunctions": _OFF,
    }
}
IN_INTERACTIONS: Json = {
    "type": "computer_use",
    "environment": "browser",
    "excluded_predefined_functions": _OFF,
}

_ACTIONS = {
    "open_web_browser": "screenshot",
    "take_screenshot": "screenshot",
    "go_back": "back",
    "go_forward": "forward",
    "navigate": "navigate",
    "click_at": "click",
    "hover_at": "move",
    "type_text_at": "type",
    "key_combination": "key",
    "scroll_document": "scroll",
    "scroll_at": "scroll",
    "drag_and_drop": "drag",
    "wait_5_seconds": "wait",
}
_THOUSAND = 1000
_SIDES = {"x": SCREEN_WIDTH, "y": SCREEN_HEIGHT}
_AXES = {
    "x": ("x", "x"),
    "y": ("y", "y"),
    "destination_x": ("to_x", "x"),
    "destination_y": ("to_y", "y"),
}
"""Our name of a coordinate, and the side that it counts along."""
_DIRECTIONS = {"up": ("y", -1), "down": ("y", 1), "left": ("x", -1), "right": ("x", 1)}


def translate(call: ToolCall) -> ToolCall:
    """Return the call of a function of the tool as a call of ours. Others stay as they are."""
    if call.name not in _ACTIONS:
        return call
    fields = as_mapping(call.input)
    given: dict[str, Json] = {"actions": [*_read_actions(call.name, fields)]}
    caution = read_caution(fields)
    given |= {"caution": caution} if caution else {}
    return replace(call, name=COMPUTER, input=given)


def read_caution(fields: Mapping[str, Json]) -> str:
    """Return why the service wants the user to confirm a call, or "" if it does not."""
    safety = as_mapping(fields.get("safety_decision"))
    if as_string(safety.get("decision")) != "require_confirmation":
        return ""
    return as_string(safety.get("explanation")) or "no reason given"


def confirm(given: Mapping[str, Json], result: ToolResult) -> dict[str, Json]:
    """Return what a result says of a call that the service wanted confirmed: that it was."""
    is_confirmed = read_caution(given) and result.error is not ErrorKind.DENIED
    return {"safety_acknowledgement": "true"} if is_confirmed else {}


def _read_actions(name: str, fields: Mapping[str, Json]) -> list[dict[str, Json]]:
    action: dict[str, Json] = {"action": _ACTIONS[name], **_read_points(fields)}
    match name:
        case "navigate":
            return [{**action, "url": fields.get("url")}]
        case "key_combination":
            return [{**action, "keys": fields.get("keys")}]
        case "wait_5_seconds":
            return [{**action, "seconds": 5}]
        case "scroll_document" | "scroll_at":
            return [{**action, **_read_scroll(fields)}]
        case "type_text_at":
            return _read_typing(fields)
        case _:
            return [action]


def _read_typing(fields: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return a click on the field, and what is typed into it."""
    steps: list[dict[str, Json]] = [{"action": "click", **_read_points(fields)}]
    if fields.get("clear_before_typing") is not False:
        steps.append({"action": "key", "keys": "ctrl+a Delete"})
    steps.append({"action": "type", "text": fields.get("text")})
    if fields.get("press_enter") is True:
        steps.append({"action": "key", "keys": "Enter"})
    return steps


def _read_points(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {
        ours: _scale(fields[name], axis) for name, (ours, axis) in _AXES.items() if name in fields
    }


def _scale(value: Json, axis: str) -> Json:
    """Return thousandths of the screen in pixels; anything but a number stays as it is."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    return min(round(value * _SIDES[axis] / _THOUSAND), _SIDES[axis])


def _read_scroll(fields: Mapping[str, Json]) -> dict[str, Json]:
    axis, sign = _DIRECTIONS.get(as_string(fields.get("direction")), ("y", 1))
    amount = fields.get("magnitude")
    pixels = _scale(amount if isinstance(amount, int | float) else 800, axis)
    return {f"by_{axis}": sign * pixels if isinstance(pixels, int) else pixels}
