"""Tools of Anthropic: those that it runs itself, and its browser toolset.

The basic versions of hosted tools are used, which need no other tool. Their blocks go back
unchanged.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from agentcli.types.computer import COMPUTER
from agentcli.types.messages import HostedCall, Json, WebSource

_DECLARED: Mapping[str, dict[str, Json]] = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {
        "type": "web_fetch_20250910",
        "name": "web_fetch",
        "citations": {"enabled": True},
    },
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
}
HOSTED = frozenset(_DECLARED)

_TOOL_OF_NAME = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
_SUBJECTS = ("query", "url", "command", "code", "path")


def declare_hosted(names: Sequence[str]) -> list[Json]:
    return [_DECLARED[name] for name in names if name in _DECLARED]


def find_hosted_calls(blocks: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the provider made, each with its outcome."""
    calls: dict[Json, HostedCall] = {}
    for block in blocks:
        match block:
            case {"type": "server_tool_use", "id": call_id, "name": str(name)} if (
                name in _TOOL_OF_NAME
            ):
                subject = _read_subject(block.get("input"))
                calls[call_id] = HostedCall(tool=_TOOL_OF_NAME[name], subject=subject)
            case {"tool_use_id": call_id, "content": content} if call_id in calls:
                before = calls[call_id]
                calls[call_id] = HostedCall(
                    tool=before.tool,
                    subject=before.subject,
                    results=len(content) if isinstance(content, list) else 1,
                    error=_read_error(content),
                )
    return tuple(calls.values())


def _read_subject(given: Json) -> str:
    fields = given if isinstance(given, dict) else {}
    found = (fields[key] for key in _SUBJECTS if isinstance(fields.get(key), str))
    return str(next(found, ""))


def _read_error(content: Json) -> str:
    match content:
        case {"error_code": str(code)}:
            return code
        case {"return_code": int(code)} if code:
            return f"exit code {code}"
        case _:
            return ""


def find_sources(blocks: Iterable[Mapping[str, Json]]) -> tuple[WebSource, ...]:
    """Return the pages that the text cites, each once."""
    found: dict[str, WebSource] = {}
    for block in blocks:
        citations = block.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            match citation:
                case {"url": str(url), "title": str(title)}:
                    found.setdefault(url, WebSource(url=url, title=title))
                case {"url": str(url)}:
                    found.setdefault(url, WebSource(url=url))
    return tuple(found.values())


# Anthropic's browser toolset: its declaration, and its calls as actions of ours.
#
# Members that would go past the page are turned off: tabs, scripts, uploads, and reading the page
# by other means than pictures. Its calls go back unchanged.


TOOLSET = "browser"
NAME_FIELD = "toolset_name"

_OFF = (
    *("list_tabs", "new_tab", "switch_tab", "close_tab", "read_page", "get_page_text"),
    *("read_console", "read_network", "find", "form_input", "file_upload", "scroll_to"),
    "javascript_exec",
)
DECLARATION: Json = {
    "type": "browser_toolset_20260801",
    "configs": {name: {"enabled": False} for name in _OFF},
}

_CLICKS: Mapping[str, dict[str, Json]] = {
    "left_click": {},
    "right_click": {"button": "right"},
    "middle_click": {"button": "middle"},
    "double_click": {"count": 2},
    "triple_click": {"count": 3},
}
_MOVES = {
    "hover": "move",
    "mouse_move": "move",
    "left_mouse_down": "press",
    "left_mouse_up": "release",
}
_HISTORY = ("back", "forward", "reload")
_NOTCH_PIXELS = 100
_DIRECTIONS = {"up": ("by_y", -1), "down": ("by_y", 1), "left": ("by_x", -1), "right": ("by_x", 1)}


def is_member(fields: Mapping[str, Json]) -> bool:
    """Return whether a call is one of a member of the toolset."""
    return fields.get(NAME_FIELD) == TOOLSET


def read_call(name: str, given: Json) -> tuple[str, Json]:
    """Return the call of a member as a call of ours. Wrong values stay, for the tool to explain."""
    if not isinstance(given, dict):
        return COMPUTER, given
    return COMPUTER, {"actions": [_read_action(name, given)]}


def _read_action(name: str, given: Mapping[str, Json]) -> dict[str, Json]:
    match name:
        case "navigate":
            is_step = given.get("url") in _HISTORY
            return (
                {"action": given["url"]} if is_step else {"action": name, "url": given.get("url")}
            )
        case "left_click_drag":
            end = _read_point(given.get("target"))
            at = {f"to_{axis}": value for axis, value in end.items()}
            return {"action": "drag", **_read_point(given.get("from")), **at}
        case "zoom":
            region = given.get("region")
            corners = region if isinstance(region, list) else []
            return {"action": "zoom", **dict(zip(("x", "y", "to_x", "to_y"), corners))}  # noqa: B905
        case "scroll":
            return {"action": "scroll", **_read_point(given.get("target")), **_read_scroll(given)}
        case "key" | "hold_key" | "type" | "wait":
            return _read_typing(name, given)
        case _ if name in _CLICKS:
            held = {"keys": given["modifiers"]} if given.get("modifiers") else {}
            return {"action": "click", **_read_point(given.get("target")), **_CLICKS[name], **held}
        case _:
            return {"action": _MOVES.get(name, name), **_read_point(given.get("target"))}


def _read_typing(name: str, given: Mapping[str, Json]) -> dict[str, Json]:
    seconds = given.get("duration")
    times = {"seconds": math.ceil(seconds)} if isinstance(seconds, int | float) else {}
    match name:
        case "type":
            return {"action": "type", "text": given.get("text")}
        case "wait":
            return {"action": "wait", **times}
        case _:
            count = {"count": given["repeat"]} if given.get("repeat") else {}
            return {"action": name, "keys": given.get("text"), **count, **times}


def _read_point(target: Json) -> dict[str, Json]:
    match target:
        case {"x": x, "y": y}:
            return {"x": x, "y": y}
        case _:
            return {}


def _read_scroll(given: Mapping[str, Json]) -> dict[str, Json]:
    axis, sign = _DIRECTIONS.get(str(given.get("scroll_direction")), ("by_y", 1))
    amount = given.get("scroll_amount")
    return {axis: sign * _NOTCH_PIXELS * (amount if isinstance(amount, int) else 3)}
