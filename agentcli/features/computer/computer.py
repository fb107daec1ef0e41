"""computer: actions in a browser, each call answered with a picture of the page.

Models call it by the computer tool of their provider. The dialects translate those calls into the
actions here, so it is never declared by its own schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from agentcli.features.computer.browser import PageState, SandboxedBrowser
from agentcli.system.hosts import WebAddress
from agentcli.system.plain_text import escape_controls
from agentcli.tools.arguments import (
    ArrayCheck,
    BuiltinArguments,
    ChoiceCheck,
    ObjectCheck,
    TextCheck,
    WholeCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.types.computer import (
    CLASS_OF_ACTION,
    COMPUTER,
    SCREEN_HEIGHT,
    SCREEN_WIDTH,
    ActionClass,
    describe_actions,
)
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image, Json, Text
from agentcli.types.tools import Browsed, Effect, ErrorKind, Output, ToolContext, ToolSpec

_X = WholeCheck(least=0, most=SCREEN_WIDTH)
_Y = WholeCheck(least=0, most=SCREEN_HEIGHT)
_SCROLL = WholeCheck(least=-10_000, most=10_000)
_NEEDED: Mapping[str, Sequence[str]] = {
    "click": ("x", "y"),
    "move": ("x", "y"),
    "drag": ("x", "y", "to_x", "to_y"),
    "zoom": ("x", "y", "to_x", "to_y"),
    "type": ("text",),
    "key": ("keys",),
    "hold_key": ("keys",),
    "navigate": ("url",),
}
"""The fields that an action needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputerAction(BuiltinArguments):
    action: str = field(metadata=declare_argument(ChoiceCheck(words=tuple(CLASS_OF_ACTION))))
    x: int | None = field(default=None, metadata=declare_argument(_X))
    y: int | None = field(default=None, metadata=declare_argument(_Y))
    to_x: int | None = field(default=None, metadata=declare_argument(_X))
    to_y: int | None = field(default=None, metadata=declare_argument(_Y))
    by_x: int = field(
        default=0, metadata=declare_argument(_SCROLL, "Pixels to scroll to the right")
    )
    by_y: int = field(default=0, metadata=declare_argument(_SCROLL, "Pixels to scroll down"))
    button: str = field(
        default="left", metadata=declare_argument(ChoiceCheck(words=("left", "right", "middle")))
    )
    count: int = field(default=1, metadata=declare_argument(WholeCheck(least=1, most=100)))
    keys: str = field(
        default="", metadata=declare_argument(TextCheck(), "e.g. ctrl+a, or Tab Tab Enter")
    )
    text: str = field(default="", metadata=declare_argument(TextCheck()))
    url: str = field(
        default="", metadata=declare_argument(TextCheck(), "e.g. https://example.org/")
    )
    seconds: int = field(default=1, metadata=declare_argument(WholeCheck(least=0, most=30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputerArgs(BuiltinArguments):
    actions: list[ComputerAction] = field(
        metadata=declare_argument(ArrayCheck(item=ObjectCheck(of=ComputerAction)))
    )
    caution: str = field(
        default="",
        metadata=declare_argument(TextCheck(), "Why the provider wants the user to confirm it"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputerCall:
    """The arguments of a call, and the page that they are about."""

    actions: tuple[ComputerAction, ...]
    caution: str
    """Why the provider wants the user to confirm the call; empty if it does not."""
    did: str
    """What it does, in a few words."""
    url: str
    """The address that is opened, or that of the page; empty if there is no page yet."""
    opens: bool
    """True if it opens an address."""
    aliases: ClassVar[dict[str, str]] = {}

    @property
    def page(self) -> str:
        """The host and port of the page; empty if it is blank."""
        return _read_location(self.url)

    @property
    def acts(self) -> frozenset[ActionClass]:
        return frozenset(CLASS_OF_ACTION[one.action] for one in self.actions)


class Computer:
    def __init__(self, browser: SandboxedBrowser) -> None:
        self._browser = browser

    @property
    def spec(self) -> ToolSpec:
        return load_spec(COMPUTER)

    def parse(self, raw: Json) -> ComputerCall:
        args = parse_arguments(ComputerArgs, raw)
        for action in args.actions:
            _require_fields(action)
        addresses = [_check_address(one.url) for one in args.actions if one.action == "navigate"]
        if addresses and len(args.actions) > 1:
            raise _refuse("Open an address by a call of its own.")
        return ComputerCall(
            actions=tuple(args.actions),
            caution=args.caution,
            did=describe_actions(raw),
            url=addresses[0] if addresses else self._browser.url,
            opens=bool(addresses),
        )

    def effect(self, args: ComputerCall) -> Effect:
        return Effect.NETWORK if args.page else Effect.READ

    async def preview(self, args: ComputerCall, context: ToolContext) -> Browsed:
        return Browsed(url=args.url, title="", did=args.did)

    async def run(self, args: ComputerCall, context: ToolContext) -> Output:
        if not args.opens and _read_location(self._browser.url) != args.page:
            # What was judged is the page that was there.
            raise ToolError("The page has changed to another host. Take a screenshot first.")
        orders = [_build_order(one) for one in args.actions]
        opens = args.page if args.opens else ""
        state = await self._browser.run(orders, call_id=context.call_id, opens=opens)
        return _build_output(state, args.did)


def _build_output(state: PageState, did: str) -> Output:
    url, title = escape_controls(state.url), escape_controls(state.title)
    notes = [escape_controls(note) for note in (state.error, *state.notes) if note]
    lines = [url, *([f"# {title}"] if title else []), *(f"[{note}]" for note in notes)]
    image = Image(media_type=state.media, data=state.image) if state.image else None
    host = _read_location(state.url)
    return Output(
        content=(Text(text="\n".join(lines)), *([image] if image else [])),
        details=Browsed(url=url, title=title, did=did),
        error=ErrorKind.FAILED if state.error else None,
        origin=f"the web, {host}" if host else "",
    )


def _read_location(url: str) -> str:
    try:
        return WebAddress.parse(url).location
    except ValueError:
        return ""


def _check_address(url: str) -> str:
    try:
        return str(WebAddress.parse(url))
    except ValueError as error:
        raise _refuse(f"url: {error}") from None


def _require_fields(action: ComputerAction) -> None:
    for name in _NEEDED.get(action.action, ()):
        if getattr(action, name) in (None, ""):
            raise _refuse(f"{action.action} needs {name}.")


def _refuse(why: str) -> ToolError:
    return ToolError(why, kind=ErrorKind.INVALID_INPUT)


def _build_order(action: ComputerAction) -> dict[str, Any]:
    """Return the action as the browser takes it, with the names of keys that it knows."""
    order: dict[str, Any] = {
        name: getattr(action, name)
        for name in ("action", "x", "y", "to_x", "to_y", "by_x", "by_y", "button", "count")
    }
    url = _check_address(action.url) if action.action == "navigate" else ""
    chords = ["+".join(map(_name_key, _split_chord(chord))) for chord in action.keys.split()]
    return {**order, "keys": chords, "text": action.text, "url": url, "seconds": action.seconds}


def _split_chord(chord: str) -> list[str]:
    """Return the keys of a chord, of which the last may be the plus sign itself."""
    if chord.endswith("+"):
        return [*filter(None, chord[:-1].rstrip("+").split("+")), "+"]
    return chord.split("+")


_KEYS = {
    **{"ctrl": "Control", "control": "Control", "alt": "Alt", "option": "Alt", "shift": "Shift"},
    **dict.fromkeys(("cmd", "command", "meta", "super", "win", "windows"), "Meta"),
    **{"return": "Enter", "enter": "Enter", "kp_enter": "Enter", "tab": "Tab", "esc": "Escape"},
    **{"escape": "Escape", "backspace": "Backspace", "delete": "Delete", "del": "Delete"},
    **{"space": "Space", "home": "Home", "end": "End", "insert": "Insert", "plus": "+"},
    **{"page_up": "PageUp", "pageup": "PageUp", "prior": "PageUp", "minus": "-"},
    **{"page_down": "PageDown", "pagedown": "PageDown", "next": "PageDown"},
    **{name: f"Arrow{name.capitalize()}" for name in ("up", "down", "left", "right")},
    **{f"arrow{name}": f"Arrow{name.capitalize()}" for name in ("up", "down", "left", "right")},
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}
"""The names that providers use for keys, in lower case, and those of browsers."""


def _name_key(name: str) -> str:
    return _KEYS.get(name.lower(), name if len(name) > 1 else name.lower())
