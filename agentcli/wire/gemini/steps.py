"""One step of an interaction, put together from its deltas, and what it is in neutral words.

A step goes back as it came, with fields we do not know. Only what two plain texts say in a row is
joined, because the service cuts them where it likes.
"""

import json
from collections.abc import Mapping, Sequence

from agentcli.types.deltas import CallDelta, Delta, TextDelta, ThinkingDelta
from agentcli.types.messages import Block, Echo, Json, Opaque, Text, Thinking, ToolCall
from agentcli.wire.arguments import object_arguments
from agentcli.wire.characters import replace_unpaired, replace_unpaired_json
from agentcli.wire.gemini.calls import mint_id, normalize_numbers, read_arguments
from agentcli.wire.gemini.values import items, mapping, string

PROTOCOL = "gemini-interactions"

ASKED = frozenset({"user_input", "function_result"})
"""Steps that we made ourselves; some servers repeat them."""

_PLAIN_STEP = frozenset({"type", "content"})
_PLAIN_TEXT = frozenset({"type", "text"})
_MEDIA = frozenset({"image", "audio", "document", "video"})


class InteractionStep:
    """Grows by `take` until it is `stopped`."""

    def __init__(self, started: Mapping[str, Json], place: int) -> None:
        self.kind = string(started.get("type"))
        self.stopped = False
        self._place = place
        self._step = {key: value for key, value in started.items() if value != ""}
        self._arguments: list[str] = []
        """Pieces of JSON; what the start says of arguments is empty then."""
        self._growing = ""
        """The field whose last item is a text that goes on."""
        self._pieces: list[str] = []

    @property
    def name(self) -> str:
        """Of the tool that is called."""
        return replace_unpaired(string(self._step.get("name")))

    @property
    def fault(self) -> Json:
        """Why the step failed, where it did."""
        return self._step.get("error")

    def opening(self) -> Sequence[Delta]:
        """What is to be shown of a step that starts with more than its type."""
        if self.kind == "thought":
            return _make_deltas(_texts(self._step.get("summary")), is_thought=True)
        if self.kind == "model_output":
            return _make_deltas(_texts(self._step.get("content")), is_thought=False)
        if self.kind == "function_call":
            given = self._step.get("arguments")
            return [self._call_delta(json.dumps(given, ensure_ascii=False) if given else "")]
        return []

    def take(self, delta: Mapping[str, Json]) -> Sequence[Delta]:
        match delta.get("type"):
            case "text":
                text = string(delta.get("text"))
                self._grow("content", {"type": "text", "text": text})
                return _make_deltas(text, is_thought=False)
            case "thought_summary":
                content = mapping(delta.get("content"))
                self._grow("summary", content)
                return _make_deltas(string(content.get("text")), is_thought=True)
            case "thought_signature":
                self._sign(string(delta.get("signature")))
            case "arguments_delta" | "arguments":
                return self._take_arguments(delta)
            case "text_annotation_delta":
                self._annotate(delta.get("annotations"))
            case str(kind) if kind in _MEDIA:
                self._grow("content", delta)
            case _:
                self._join_pieces()
                self._step.update((key, delta[key]) for key in delta if key != "type")
        return []

    def block(self, model: str) -> Block | None:
        """None for a step that says nothing."""
        self._join_pieces()
        if self.kind == "function_call":
            return self._as_call(model)
        step = mapping(replace_unpaired_json(self._step))
        echo = Echo(protocol=PROTOCOL, model=model, data=step)
        if self.kind == "thought":
            summary = _texts(step.get("summary"))
            return Thinking(text=summary, echo=echo) if step.keys() > {"type"} else None
        if self.kind != "model_output":
            return Opaque(echo=echo)
        text = _texts(step.get("content"))
        if _is_plain(step) and not text:
            return None
        if _is_plain(step) and text.strip():
            return Text(text=text)
        return Text(text=text, echo=echo) if text else Opaque(echo=echo)

    def _as_call(self, model: str) -> ToolCall:
        arguments = read_arguments("".join(self._arguments) or self._step.get("arguments"))
        step = {**self._step, "arguments": object_arguments(arguments)}
        return ToolCall(
            id=replace_unpaired(self._call_id()),
            name=self.name,
            input=normalize_numbers(arguments),
            echo=Echo(protocol=PROTOCOL, model=model, data=replace_unpaired_json(step)),
        )

    def _call_id(self) -> str:
        return string(self._step.get("id")) or mint_id(self._place, self._step)

    def _take_arguments(self, delta: Mapping[str, Json]) -> Sequence[Delta]:
        piece = delta.get("arguments", delta.get("partial_arguments"))
        text = piece if isinstance(piece, str) else json.dumps(piece or {}, ensure_ascii=False)
        self._arguments.append(text)
        return [self._call_delta(text)]

    def _call_delta(self, arguments: str) -> CallDelta:
        return CallDelta(
            call_id=replace_unpaired(self._call_id()),
            name=self.name,
            arguments=replace_unpaired(arguments),
        )

    def _grow(self, field: str, item: Mapping[str, Json]) -> None:
        if item.keys() != _PLAIN_TEXT or item["type"] != "text":
            self._join_pieces()
            self._step[field] = [*items(self._step.get(field)), dict(item)]
            return
        if self._growing != field:
            self._join_pieces()
            said = items(self._step.get(field))
            is_going_on = bool(said) and mapping(said[-1]).get("type") == "text"
            self._step[field] = said if is_going_on else [*said, {"type": "text", "text": ""}]
            self._growing = field
        self._pieces.append(string(item["text"]))

    def _join_pieces(self) -> None:
        """Joined once, not with every piece: a long text comes in very many."""
        if self._growing:
            *before, last = items(self._step[self._growing])
            text = string(mapping(last).get("text")) + "".join(self._pieces)
            self._step[self._growing] = [*before, {**mapping(last), "text": text}]
        self._growing = ""
        self._pieces.clear()

    def _sign(self, signature: str) -> None:
        """It may come in pieces, or once more as a whole."""
        before = string(self._step.get("signature"))
        self._step["signature"] = signature if signature.startswith(before) else before + signature

    def _annotate(self, annotations: Json) -> None:
        self._join_pieces()
        *before, last = items(self._step.get("content")) or [{}]
        item = mapping(last)
        known = [*items(item.get("annotations")), *items(annotations)]
        self._step["content"] = [*before, {**item, "annotations": known}]


def _is_plain(step: Mapping[str, Json]) -> bool:
    """Whether the text alone says all of it."""
    content = items(step.get("content"))
    is_one_text = len(content) <= 1 and all(mapping(it).keys() == _PLAIN_TEXT for it in content)
    return step.keys() <= _PLAIN_STEP and is_one_text


def _texts(content: Json) -> str:
    return "".join(string(mapping(item).get("text")) for item in items(content))


def _make_deltas(text: str, *, is_thought: bool) -> Sequence[Delta]:
    if not text:
        return []
    return [
        ThinkingDelta(text=replace_unpaired(text))
        if is_thought
        else TextDelta(text=replace_unpaired(text))
    ]
