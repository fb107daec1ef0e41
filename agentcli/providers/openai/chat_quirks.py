"""The deviations of servers that imitate Chat Completions: their names, and how they are learned.

A server that rejects a request and names one of its fields gets the request once more without that
field. If it then answers, the deviation is remembered for its address.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentcli.providers.http.sockets import HttpError
from agentcli.system.files import write_private
from agentcli.system.lazy import compile_later
from agentcli.types.errors import SettingsError
from agentcli.types.messages import Json

MAX_TOKENS = "max_tokens"
"""A quirk: the output limit has its older name."""
MAX_COMPLETION_TOKENS = "max_completion_tokens"
"""A quirk: the output limit has its newer name, whatever else is known of the provider."""
NO_STREAM_USAGE = "no_stream_usage"
"""A quirk: asking for token usage is an error."""
NO_REASONING_BACK = "no_reasoning_back"
"""A quirk: the server sends reasoning, and rejects it when it is sent back."""
REASONING_BACK = "reasoning_back"
"""A quirk: the server rejects a reply that does not have its reasoning, even an empty one."""
NO_STRICT = "no_strict"
"""A quirk: the server rejects tools whose arguments it should enforce."""
NO_PARALLEL_SWITCH = "no_parallel_switch"
"""A quirk: the server does not know `parallel_tool_calls`."""
NO_TOOL_CHOICE = "no_tool_choice"
"""A quirk: the server does not let a caller choose a tool."""
NO_EFFORT = "no_effort"
"""A quirk: the server does not know `reasoning_effort`."""
NO_NULL_CONTENT = "no_null_content"
"""A quirk: the server rejects a reply with calls alone unless its text is an empty string."""
QUIRKS = frozenset(
    {
        *(MAX_TOKENS, MAX_COMPLETION_TOKENS, NO_STREAM_USAGE, NO_REASONING_BACK, REASONING_BACK),
        *(NO_STRICT, NO_PARALLEL_SWITCH, NO_TOOL_CHOICE, NO_EFFORT, NO_NULL_CONTENT),
    }
)

_REJECTED = (400, 422)
_QUIRK_OF_FIELD = {
    "stream_options": NO_STREAM_USAGE,
    "max_completion_tokens": MAX_TOKENS,
    "max_tokens": MAX_COMPLETION_TOKENS,
    "parallel_tool_calls": NO_PARALLEL_SWITCH,
    "tool_choice": NO_TOOL_CHOICE,
    "reasoning_effort": NO_EFFORT,
}
"""What to do about each field of a request, if it is the one that a server rejects."""
_REASONING = compile_later(r"\breasoning(?:_content|_details)?\b")
_IS_FORBIDDEN = compile_later(
    r"extra|not permitted|unknown|unsupported|unrecognized|unexpected", re.I
)
_IS_ABOUT_VALUE = compile_later(r"too (?:large|small|big)|at (?:most|least)|exceed|between", re.I)
_STRICT = compile_later(r"\bstrict\b")


def find_quirk(error: HttpError, sent: Mapping[str, Json]) -> str:
    """Return the quirk that explains why the server rejects this body, or "" if none does."""
    if error.status not in _REJECTED:
        return ""
    message = _read_said(error.body)
    if _IS_ABOUT_VALUE.search(message):
        return ""
    for field, quirk in _QUIRK_OF_FIELD.items():
        if field in sent and re.search(rf"\b{field}\b", message):
            return quirk
    if _REASONING.search(message):
        return NO_REASONING_BACK if _IS_FORBIDDEN.search(message) else REASONING_BACK
    if _STRICT.search(message) and '"strict"' in json.dumps(sent.get("tools")):
        return NO_STRICT
    return ""


def _read_said(body: Json) -> str:
    """Return what the server says, without what it quotes of our request."""
    match body:
        case str():
            return body
        case {"detail": [*faults]}:
            pairs = [(one.get("loc"), one.get("msg")) for one in faults if isinstance(one, dict)]
            return json.dumps(pairs, ensure_ascii=False)
        case _:
            return json.dumps(body, ensure_ascii=False)


class QuirkMemory:
    """What was learned about servers, by address, in a file that any process may replace."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, address: str) -> frozenset[str]:
        known = self._read().get(address, [])
        return QUIRKS & set(known) if isinstance(known, list) else frozenset()

    def add(self, address: str, quirks: frozenset[str]) -> None:
        """Remember the quirks. If the file cannot be written, they are learned again later."""
        known = self._read()
        known[address] = [*sorted(self.find(address) | quirks)]
        with suppress(SettingsError):
            write_private(self._path, json.dumps(known, indent=1) + "\n")

    def _read(self) -> dict[str, Json]:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return known if isinstance(known, dict) else {}


class QuirkLearner:
    """Learns about the server at one address."""

    def __init__(self, address: str, memory: QuirkMemory | None) -> None:
        """`memory` is None if nothing is to be remembered."""
        self._address = address
        self._memory = memory
        self.known = memory.find(address) if memory else frozenset()
        self._new: frozenset[str] = frozenset()

    def learn(self, error: HttpError, sent: Mapping[str, Json]) -> str:
        """Return a quirk that is new and explains the error, or "" if there is none."""
        quirk = find_quirk(error, sent)
        if not quirk or quirk in self.known:
            return ""
        self.known |= {quirk}
        self._new |= {quirk}
        return quirk

    def confirm(self) -> None:
        """Remember what was learned: the server has answered."""
        if self._new and self._memory is not None:
            self._memory.add(self._address, self._new)
        self._new = frozenset()
