"""Computer use: one vocabulary for actions in a browser, whatever providers call them."""

from collections.abc import Mapping
from typing import Literal

from agentcli.types.messages import Json

COMPUTER = "computer"
"""The name of the tool."""

SCREEN_WIDTH = 1280
SCREEN_HEIGHT = 800
"""The size of the page in pixels: what a screenshot shows, and what coordinates count."""

ActionClass = Literal["look", "click", "type", "navigate"]

CLASS_OF_ACTION: Mapping[str, ActionClass] = {
    "screenshot": "look",
    "zoom": "look",
    "move": "look",
    "scroll": "look",
    "wait": "look",
    "click": "click",
    "drag": "click",
    "press": "click",
    "release": "click",
    "type": "type",
    "key": "type",
    "hold_key": "type",
    "navigate": "navigate",
    "back": "navigate",
    "forward": "navigate",
    "reload": "navigate",
}
"""The class of each action, by which rules judge it."""

ACTION_CLASSES: tuple[ActionClass, ...] = ("look", "click", "type", "navigate")

_SHOWN_CHARS = 60


def describe_actions(given: Json) -> str:
    """Return what a call does in the browser, in a few words; empty if its input says nothing."""
    actions = given.get("actions") if isinstance(given, dict) else None
    found = [one for one in actions if isinstance(one, dict)] if isinstance(actions, list) else []
    return ", ".join(map(_describe_action, found))


def _describe_action(given: Mapping[str, Json]) -> str:
    name, at = given.get("action"), f"{given.get('x')},{given.get('y')}"
    match name:
        case "click" | "move":
            word = {"2": "double-", "3": "triple-"}.get(str(given.get("count")), "")
            return f"{word}{name} at {at}"
        case "drag":
            return f"drag from {at} to {given.get('to_x')},{given.get('to_y')}"
        case "type":
            return f"type {str(given.get('text'))[:_SHOWN_CHARS]!r}"
        case "key" | "hold_key":
            return f"press {str(given.get('keys'))[:_SHOWN_CHARS]}"
        case "navigate":
            return f"open {given.get('url')}"
        case _:
            return str(name)
