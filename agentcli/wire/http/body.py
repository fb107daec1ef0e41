"""The JSON text of a request, put together from what was already written for the one before.

Between two steps of a conversation nearly all of a body stays the same. The text of its history is
kept, and written on from the first item that is another object than before.
"""

import json
from collections.abc import Mapping
from itertools import islice

from agentcli.types.messages import Json
from agentcli.wire.growing import common_start


class BodyText:
    def __init__(self) -> None:
        self._items: list[Json] = []
        """The history of the latest request. Holding an item keeps its identity."""
        self._text = bytearray()
        """All of them, each with a comma after it."""
        self._ends: list[int] = []

    def of(self, body: Mapping[str, Json], history_key: str) -> bytes:
        items = body.get(history_key)
        if not isinstance(items, list):
            return _text(dict(body))
        self._write(items)
        rest: dict[str, Json] = {key: value for key, value in body.items() if key != history_key}
        opening = _text(rest)[:-1] + (b"," if rest else b"")
        history = memoryview(self._text)[:-1]
        return b"".join((opening, _text(history_key), b":[", history, b"]}"))

    def _write(self, items: list[Json]) -> None:
        start = common_start(self._items, items)
        del self._items[start:], self._ends[start:]
        del self._text[self._ends[-1] if self._ends else 0 :]
        for item in islice(items, start, None):
            self._text += _text(item) + b","
            self._items.append(item)
            self._ends.append(len(self._text))


def _text(value: Json) -> bytes:
    # Half a surrogate pair, as in the name of a file that is not text, becomes a question mark.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
