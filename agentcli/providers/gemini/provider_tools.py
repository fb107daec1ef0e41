"""Tools of Gemini, in both of its protocols: those that it runs itself, and computer use."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agentcli.providers.gemini.values import as_list, as_mapping, as_string
from agentcli.types.computer import COMPUTER, SCREEN_HEIGHT, SCREEN_WIDTH
from agentcli.types.messages import HostedCall, Json, ToolCall, WebSource
from agentcli.types.tools import ErrorKind, ToolResult

_NAMES = {
    "web_search": "google_search",
    "web_fetch": "url_context",
    "code_execution": "code_execution",
}
HOSTED = frozenset(_NAMES)
_FIELDS = {
    "web_search": "googleSearch",
    "web_fetch": "urlContext",
    "code_execution": "codeExecution",
}
_TOOL_OF_TYPE = {
    **{service: tool for tool, service in _NAMES.items()},
    "google_search_web": "web_search",
}
_SUBJECTS = ("queries", "query", "urls", "url", "code")


def declare_in_generate(names: Sequence[str]) -> list[Json]:
    return [{_FIELDS[name]: {}} for name in names if name in _FIELDS]


def declare_in_interactions(names: Sequence[str]) -> list[Json]:
    return [{"type": _NAMES[name]} for name in names if name in _NAMES]


def find_calls_in_parts(parts: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the service made, from the parts of a reply."""
    calls: list[HostedCall] = []
    for part in parts:
        match part:
            case {"toolCall": dict(call)}:
                tool = _TOOL_OF_TYPE.get(as_string(call.get("toolType")).lower())
                if tool:
                    calls.append(HostedCall(tool=tool, subject=_read_subject(call.get("args"))))
            case {"executableCode": dict(code)}:
                calls.append(HostedCall(tool="code_execution", subject=as_string(code.get("code"))))
            case {"codeExecutionResult": {"outcome": str(outcome)}} if calls:
                is_fine = outcome in ("OUTCOME_OK", "OUTCOME_UNSPECIFIED")
                calls[-1] = _end_call(calls[-1], "" if is_fine else outcome.lower())
    return tuple(calls)


def find_calls_in_steps(steps: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the service made, from the steps of an interaction."""
    calls: dict[str, HostedCall] = {}
    for step in steps:
        kind = as_string(step.get("type"))
        if kind.endswith("_call") and kind.removesuffix("_call") in _TOOL_OF_TYPE:
            calls[as_string(step.get("id"))] = HostedCall(
                tool=_TOOL_OF_TYPE[kind.removesuffix("_call")],
                subject=_read_subject(step.get("arguments")),
            )
        elif kind.endswith("_result") and as_string(step.get("call_id")) in calls:
            call_id = as_string(step.get("call_id"))
            error = "failed" if step.get("is_error") is True else ""
            calls[call_id] = _end_call(
                calls[call_id], error, results=len(as_list(step.get("result")))
            )
    return tuple(calls.values())


def _end_call(call: HostedCall, error: str, *, results: int = 1) -> HostedCall:
    return HostedCall(tool=call.tool, subject=call.subject, results=results, error=error)


def _read_subject(given: Json) -> str:
    fields = as_mapping(given)
    for key in _SUBJECTS:
        match fields.get(key):
            case str(text):
                return text
            case [*texts]:
                return ", ".join(as_string(text) for text in texts)
            case _:
                pass
    return ""


def find_grounding(metadata: Mapping[str, Json]) -> tuple[WebSource, ...]:
    """Return the pages that a reply of generateContent rests on."""
    found: dict[str, WebSource] = {}
    for chunk in as_list(metadata.get("groundingChunks")):
        page = as_mapping(as_mapping(chunk).get("web"))
        if url := as_string(page.get("uri")):
            found.setdefault(url, WebSource(url=url, title=as_string(page.get("title"))))
    return tuple(found.values())


def find_annotated(steps: Iterable[Mapping[str, Json]]) -> tuple[WebSource, ...]:
    """Return the pages that the text of an interaction cites."""
    found: dict[str, WebSource] = {}
    for step in steps:
        for content in as_list(step.get("content")):
            for note in as_list(as_mapping(content).get("annotations")):
                fields = as_mapping(note)
                if url := as_string(fields.get("url")):
                    found.setdefault(url, WebSource(url=url, title=as_string(fields.get("title"))))
    return tuple(found.values())


# Gemini's computer use in both of its protocols: declarations, and its calls as actions of ours.
#
# Its functions have names of their own and count coordinates in thousandths of the screen.


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
