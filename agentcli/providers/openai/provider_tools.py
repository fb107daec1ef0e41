"""Tools of OpenAI in the Responses protocol: those that it runs itself, and its computer tool."""

from collections.abc import Iterable, Mapping, Sequence

from agentcli.providers.openai.content import build_data_url, build_result_text
from agentcli.types.computer import COMPUTER, SCREEN_HEIGHT, SCREEN_WIDTH
from agentcli.types.messages import HostedCall, Image, Json, WebSource
from agentcli.types.tools import ErrorKind, ToolResult

SEARCH = "web_search_call"
INTERPRETER = "code_interpreter_call"

_DECLARED: Mapping[str, dict[str, Json]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
HOSTED = frozenset(_DECLARED)
_INCLUDED: Mapping[str, str] = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
}


def declare_hosted(names: Sequence[str]) -> list[Json]:
    return [_DECLARED[name] for name in names if name in _DECLARED]


def list_included(names: Sequence[str]) -> list[Json]:
    """Return what else to ask for, so that calls come with their results."""
    return [_INCLUDED[name] for name in names if name in _INCLUDED]


def find_hosted_calls(items: Iterable[Mapping[str, Json]]) -> tuple[HostedCall, ...]:
    """Return the calls that the provider made, each with its outcome."""
    return tuple(call for item in items if (call := _read_call(item)) is not None)


def _read_call(item: Mapping[str, Json]) -> HostedCall | None:
    error = "failed" if item.get("status") == "failed" else ""
    match item:
        case {"type": "web_search_call", "action": dict(action)}:
            sources = action.get("sources")
            return HostedCall(
                tool="web_search" if action.get("type") == "search" else "web_fetch",
                subject=_read_action(action),
                results=len(sources) if isinstance(sources, list) else 0,
                error=error,
            )
        case {"type": "code_interpreter_call"}:
            code, outputs = item.get("code"), item.get("outputs")
            return HostedCall(
                tool="code_execution",
                subject=code if isinstance(code, str) else "",
                results=len(outputs) if isinstance(outputs, list) else 0,
                error=error,
            )
        case _:
            return None


# OpenAI's computer tool in the Responses protocol: declaration, calls, and their screenshots.
#
# The tool has no action that opens an address, so a function of ours is declared beside it. The
# result of a call is a screenshot and nothing else: what went wrong is told in a message after it.


def _read_action(action: Mapping[str, Json]) -> str:
    queries = action.get("queries")
    if isinstance(queries, list) and queries:
        return ", ".join(map(str, queries))
    found = (action.get(key) for key in ("query", "url"))
    return str(next((text for text in found if isinstance(text, str)), ""))


def count_searches(calls: Iterable[HostedCall]) -> int:
    return sum(call.tool == "web_search" for call in calls)


def find_sources(items: Iterable[Mapping[str, Json]]) -> tuple[WebSource, ...]:
    """Return the pages that the text cites, each once."""
    found: dict[str, WebSource] = {}
    for item in items:
        content = item.get("content")
        for part in content if isinstance(content, list) else ():
            annotations = part.get("annotations") if isinstance(part, dict) else None
            for one in annotations if isinstance(annotations, list) else ():
                match one:
                    case {"type": "url_citation", "url": str(url), "title": str(title)}:
                        found.setdefault(url, WebSource(url=url, title=title))
                    case {"type": "url_citation", "url": str(url)}:
                        found.setdefault(url, WebSource(url=url))
    return tuple(found.values())


CALL = "computer_call"
NAVIGATE = "open_page"

DECLARATIONS: Sequence[Json] = (
    {"type": "computer"},
    {
        "type": "function",
        "name": NAVIGATE,
        "description": "Open an address in the browser that the computer tool shows. There is no"
        f" address bar: the screen is the page alone, {SCREEN_WIDTH} by {SCREEN_HEIGHT} pixels.",
        "parameters": {
            "type": "object",
            "properties": {"url": {"type": "string", "description": "e.g. https://example.org/"}},
            "required": ["url"],
            "additionalProperties": False,
        },
        "strict": True,
    },
)

_BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEA"
    "G7buVgAAAABJRU5ErkJggg=="
)
"""The screenshot of a call that made none: one white pixel."""
_BUTTONS = {"wheel": "middle"}
_SIDES = ("back", "forward")


def read_call(item: Mapping[str, Json], given: Json) -> tuple[str, Json]:
    """Return a call of the tool, or of our function beside it, as a call of ours."""
    if item.get("type") != CALL:
        url = given.get("url") if isinstance(given, dict) else given
        return COMPUTER, {"actions": [{"action": "navigate", "url": url}]}
    listed = item.get("actions")
    actions = listed if isinstance(listed, list) else [item.get("action")]
    read: list[Json] = [_read_browser_action(one) for one in actions if isinstance(one, dict)]
    caution = "; ".join(_read_checks(item.get("pending_safety_checks")))
    return COMPUTER, {"actions": read, **({"caution": caution} if caution else {})}


def _read_checks(checks: Json) -> list[str]:
    found = [one for one in checks if isinstance(one, dict)] if isinstance(checks, list) else []
    return [str(one.get("message") or one.get("code") or "no reason given") for one in found]


def _read_browser_action(given: Mapping[str, Json]) -> dict[str, Json]:
    keys = given.get("keys")
    chord = "+".join(map(str, keys)) if isinstance(keys, list) else ""
    held: dict[str, Json] = {"keys": chord} if chord else {}
    at: dict[str, Json] = {axis: given[axis] for axis in ("x", "y") if axis in given}
    match given.get("type"):
        case "click" if given.get("button") in _SIDES:
            return {"action": given["button"]}
        case "click":
            button = str(given.get("button", "left"))
            return {"action": "click", **at, "button": _BUTTONS.get(button, button), **held}
        case "double_click":
            return {"action": "click", **at, "count": 2, **held}
        case "scroll":
            by: dict[str, Json] = {
                "by_x": given.get("scroll_x", 0),
                "by_y": given.get("scroll_y", 0),
            }
            return {"action": "scroll", **at, **by, **held}
        case "drag":
            return {"action": "drag", **_read_path(given.get("path")), **held}
        case "keypress":
            return {"action": "key", "keys": chord}
        case "type":
            return {"action": "type", "text": given.get("text")}
        case kind:
            return {"action": kind, **at}


def _read_path(path: Json) -> dict[str, Json]:
    match path:
        case [{"x": x, "y": y}, *_, {"x": to_x, "y": to_y}]:
            return {"x": x, "y": y, "to_x": to_x, "to_y": to_y}
        case _:
            return {}


def make_answers(result: ToolResult, call: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the screenshot, and a message if the call failed. Who runs it confirms its checks."""
    image = next((block for block in result.content if isinstance(block, Image)), None)
    shown: Json = {
        "type": "computer_screenshot",
        "image_url": build_data_url(image) if image else _BLANK,
    }
    answer: dict[str, Json] = {
        "type": f"{CALL}_output",
        "call_id": result.call_id,
        "output": shown,
    }
    checks = call.get("pending_safety_checks")
    if checks and result.error is not ErrorKind.DENIED:
        answer["acknowledged_safety_checks"] = checks
    if result.status == "ok":
        return [answer]
    content: list[Json] = [{"type": "input_text", "text": build_result_text(result)}]
    return [answer, {"type": "message", "role": "user", "content": content}]
