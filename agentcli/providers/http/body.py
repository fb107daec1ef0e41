"""The JSON text of a request, built from the text already written for the one before.

Between two steps of a conversation nearly all of a body stays the same. The text of its settled
messages is kept, and only the others are encoded. It is handed out in pieces that never change
again: a long history is neither copied for a request nor held twice.
"""

import json
from collections.abc import Sequence
from typing import Any

from agentcli.providers.dialect import STORED, Dialect, Model
from agentcli.providers.http.sockets import Body
from agentcli.providers.normalize import find_request_tools
from agentcli.types.messages import AssistantMessage, Json
from agentcli.types.provider import Message, Request

CONVERSATIONS = 8
"""The number of conversations kept: that of the session and those of its child agents."""

PIECE_BYTES = 64 * 1024
"""Smaller ones take longer to send: each is a call of its own."""

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class RequestBody:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.rest: dict[str, Json] = {}
        """Everything except the history in the latest request."""
        self._opening = b"{"
        """The text of `rest`, open at the end."""
        self._conversations: list[_SettledText] = []
        """The latest first."""

    def write(self, request: Request, model: Model) -> Body:
        """Return the same text as that of the whole body, but for the order of its keys."""
        settled = self._settle(request, model)
        body = self._dialect.encode(request, model, start=len(settled.messages))
        items = body.pop(self._dialect.HISTORY_KEY, None)
        if body != self.rest:  # fast, as its larger parts are the same objects
            self.rest, self._opening = body, encode_text(body)[:-1] + (b"," if body else b"")
        if not isinstance(items, list):  # there is nothing to send but an id
            return (encode_text(body),)
        opening = self._opening + encode_text(self._dialect.HISTORY_KEY) + b":["
        latest = b"".join((settled.latest, _join_items(items, follow=settled.has_items), b"]}"))
        return (opening, *settled.pieces, latest)

    def _settle(self, request: Request, model: Model) -> "_SettledText":
        """Return the text of the messages that are settled, with those that are new among them."""
        messages = request.messages
        end = 0 if STORED in model.quirks else count_settled(messages)
        if end == 0:
            return _SettledText(())
        # All that the items of a message depend on besides the messages.
        by = (model, request.system, request.deferred, find_request_tools(request, model).hidden)
        found = next((one for one in self._conversations if one.begins(messages[:end], by)), None)
        if found is None:
            found = _SettledText(by)
            self._conversations[CONVERSATIONS - 1 :] = []
        else:
            self._conversations.remove(found)
        self._conversations.insert(0, found)
        start = len(found.messages)
        if start < end:
            part = self._dialect.encode(request, model, start=start, end=end)
            items = part[self._dialect.HISTORY_KEY]
            found.grow(messages[:end], items if isinstance(items, list) else [])
        return found


class _SettledText:
    """The text of the first messages of a conversation. It only grows."""

    def __init__(self, by: tuple[Any, ...]) -> None:
        self._by = by
        self.messages: tuple[Message, ...] = ()
        self.pieces: list[bytes] = []
        self.latest = bytearray()
        """The text after the pieces."""

    @property
    def has_items(self) -> bool:
        return bool(self.pieces or self.latest)

    def begins(self, messages: tuple[Message, ...], by: tuple[Any, ...]) -> bool:
        """Return whether it is the text of the first of these messages."""
        # Fast, as they are the same objects.
        return by == self._by and messages[: len(self.messages)] == self.messages

    def grow(self, messages: tuple[Message, ...], items: Sequence[Json]) -> None:
        """Add the items of the messages that are new among these."""
        self.latest += _join_items(items, follow=self.has_items)
        self.messages = messages
        while len(self.latest) >= 2 * PIECE_BYTES:
            self.pieces.append(bytes(self.latest[:PIECE_BYTES]))
            del self.latest[:PIECE_BYTES]


def count_settled(messages: Sequence[Message]) -> int:
    """Return how many messages at the start have items that no longer history changes.

    Items of neighbours in the same role may be joined, and Anthropic's have cache markers in this
    request and the next. So settled is what comes before the last answers but one, if the reply
    before these says something."""
    answers = 0
    for at in range(len(messages) - 1, 0, -1):
        before = messages[at - 1]
        if isinstance(before, AssistantMessage) and not isinstance(messages[at], AssistantMessage):
            answers += 1
            if answers > 1 and (before.tool_calls or before.text.strip()):
                return at
    return 0


def _join_items(items: Sequence[Json], *, follow: bool) -> bytes:
    """Return the items as the inside of a list. `follow` is true if others come before them."""
    text = encode_text([*items])[1:-1]
    return b"," + text if follow and text else text


def encode_text(value: Json) -> bytes:
    """Return the JSON text of a value."""
    # Half a surrogate pair, as in a file name that is not valid text, becomes a question mark.
    return _JSON.encode(value).encode("utf-8", "replace")
