"""The JSON text of a request, built from the text already written for the one before.

Between two steps of a conversation nearly all of a body stays the same. The text of its history is
kept, and rewritten only from the first item that is a different object. It is handed out in pieces
that never change again: a long history is neither copied for a request nor held twice.
"""

import json
from array import array
from collections.abc import Mapping
from itertools import islice

from agentcli.providers.http.sockets import Body
from agentcli.providers.incremental import count_common_start
from agentcli.types.messages import Json

PIECE_BYTES = 64 * 1024
"""Smaller ones take longer to send: each is a call of its own."""

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class RequestBody:
    def __init__(self) -> None:
        self._rest: dict[str, Json] = {}
        """Everything except the history in the latest request."""
        self._opening = b"{"
        """The text of `_rest`, open at the end."""
        self._items: list[Json] = []
        """The history of the latest request. Holding an item keeps its id from being reused."""
        self._ends = array("Q")
        """The end of each item's text, in bytes."""
        self._settled: list[bytes] = []
        self._settled_bytes = 0
        self._latest = bytearray()
        """The text after the settled pieces: the last items change in the next request."""

    def write(self, body: Mapping[str, Json], history_key: str) -> Body:
        items = body.get(history_key)
        if not isinstance(items, list):
            return (_encode_text(dict(body)),)
        self._write(items)
        rest = {key: value for key, value in body.items() if key != history_key}
        if rest != self._rest:  # fast, as its larger parts are the same objects
            self._rest, self._opening = rest, _encode_text(rest)[:-1] + (b"," if rest else b"")
        opening = self._opening + _encode_text(history_key) + b":["
        return (opening, *self._settled, b"".join((self._latest, b"]}")))

    def _write(self, items: list[Json]) -> None:
        start = count_common_start(self._items, items)
        del self._items[start:], self._ends[start:]
        self._cut(self._ends[-1] if self._ends else 0)
        for item in islice(items, start, None):
            self._latest += (b"," if self._ends else b"") + _encode_text(item)
            self._items.append(item)
            self._ends.append(self._settled_bytes + len(self._latest))
        while len(self._latest) >= 2 * PIECE_BYTES:
            self._settled.append(bytes(self._latest[:PIECE_BYTES]))
            self._settled_bytes += PIECE_BYTES
            del self._latest[:PIECE_BYTES]

    def _cut(self, end: int) -> None:
        """Remove the text after byte `end`."""
        while end < self._settled_bytes:
            self._latest = bytearray(self._settled.pop())
            self._settled_bytes -= PIECE_BYTES
        del self._latest[end - self._settled_bytes :]


def _encode_text(value: Json) -> bytes:
    # Half a surrogate pair, as in a file name that is not valid text, becomes a question mark.
    return _JSON.encode(value).encode("utf-8", "replace")
