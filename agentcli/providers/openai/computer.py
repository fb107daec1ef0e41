"""OpenAI's computer tool in the Responses protocol: declaration, calls, and their screenshots.

The tool has no action that opens an address, so a function of ours is declared beside it. The
result of a call is a screenshot and nothing else: what went wrong is told in a message after it.
"""

from collections.abc import Mapping, Sequence

from agentcli.providers.openai.content import build_data_url, build_result_text
from agentcli.types.computer import COMPUTER, SCREEN_HEIGHT, SCREEN_WIDTH
from agentcli.types.messages import Image, Json
from agentcli.types.tools import ErrorKind, ToolResult

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
    read: list[Json] = [_read_action(one) for one in actions if isinstance(one, dict)]
    caution = "; ".join(_read_checks(item.get("pending_safety_checks")))
    return COMPUTER, {"actions": read, **({"caution": caution} if caution else {})}


def _read_checks(checks: Json) -> list[str]:
    found = [one for one in checks if isinstance(one, dict)] if isinstance(checks, list) else []
    return [str(one.get("message") or one.get("code") or "no reason given") for one in found]


def _read_action(given: Mapping[str, Json]) -> dict[str, Json]:
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
