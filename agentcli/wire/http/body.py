"""The JSON text of a request, put together from what was already written for the one before.

Between two steps of a conversation nearly all of a body stays the same. The text of each item of
its history is kept as long as the item is sent, found by identity: a step costs what is new in it.
"""

import json
from collections.abc import Mapping

from agentcli.types.messages import Json


class BodyText:
    def __init__(self) -> None:
        self._written: dict[int, tuple[Json, bytes]] = {}
        """The items of the latest request and their texts. Holding an item keeps its identity."""

    def of(self, body: Mapping[str, Json], history_key: str) -> bytes:
        items = body.get(history_key)
        if not isinstance(items, list):
            return _text(dict(body))
        written = {}
        for item in items:
            written[id(item)] = self._written.get(id(item)) or (item, _text(item))
        self._written = written
        history = b",".join([written[id(item)][1] for item in items])
        rest: dict[str, Json] = {key: value for key, value in body.items() if key != history_key}
        opening = _text(rest)[:-1] + (b"," if rest else b"")
        return b"".join([opening, _text(history_key), b":[", history, b"]}"])


def _text(value: Json) -> bytes:
    # Half a surrogate pair, as in the name of a file that is not text, becomes a question mark.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
