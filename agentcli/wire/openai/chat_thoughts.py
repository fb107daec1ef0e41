"""What compatible servers tell of a model's reasoning, and what of it they want back.

Each has its own field for it, and takes it back under the same one. Where there are details, which
may be signed, they are what goes back, and the plain text is only shown.
"""

from collections.abc import Mapping

from agentcli.types.messages import Echo, Json, Thinking
from agentcli.wire.characters import replace_unpaired, replace_unpaired_json

_FIELDS = ("reasoning_content", "reasoning")
"""Some servers send the same text in both: one of them counts."""

_DETAILS = "reasoning_details"

_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The details that come in pieces, by type, and where the piece stands."""


class ReasoningAssembly:
    def __init__(self) -> None:
        self._field = ""
        self._pieces: list[str] = []
        self._details: list[dict[str, Json]] = []

    def feed(self, delta: Mapping[str, Json]) -> str:
        """What can be shown of it."""
        given = delta.get(_DETAILS)
        details = given if isinstance(given, list) else []
        for detail in details:
            if isinstance(detail, dict):
                self._add(detail)
        for field in _FIELDS:
            text = delta.get(field)
            if isinstance(text, str) and text:
                self._field = self._field or field
                return self.say(text)
        return self.say("".join(map(_growing_text, details)))

    def say(self, text: str) -> str:
        self._pieces.append(text)
        return replace_unpaired(text)

    def block(self, *, protocol: str, model: str) -> Thinking | None:
        text = replace_unpaired("".join(self._pieces))
        data: Json = None
        if self._details:
            data = {_DETAILS: replace_unpaired_json([*self._details])}
        elif self._field:
            data = {self._field: text}
        if not text and data is None:
            return None
        echo = None if data is None else Echo(protocol=protocol, model=model, data=data)
        return Thinking(text=text, echo=echo)

    def _add(self, detail: Mapping[str, Json]) -> None:
        """The next piece of the last detail, or a detail of its own."""
        last = self._details[-1] if self._details else {}
        key = _GROWING.get(str(detail.get("type")))
        is_piece = all(last.get(name) == detail.get(name) for name in ("type", "index"))
        if key is None or not is_piece:
            self._details.append(dict(detail))
            return
        text = f"{last.get(key) or ''}{detail.get(key) or ''}"
        last |= {name: value for name, value in detail.items() if value is not None}
        last[key] = text


def _growing_text(detail: Json) -> str:
    if not isinstance(detail, dict):
        return ""
    text = detail.get(_GROWING.get(str(detail.get("type")), ""))
    return text if isinstance(text, str) else ""
