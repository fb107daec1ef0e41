"""One reply of the Interactions protocol, assembled from the events of its stream.

Only the event that closes the interaction ends the reply. A call that had not stopped by then is
included only if the interaction says that it is complete.
"""

import json
from collections.abc import Mapping, Sequence

from agentcli.providers.arguments import (
    make_sendable,
    read_arguments,
    replace_unpaired,
    wrap_arguments,
)
from agentcli.providers.dialect import STORED, Model, as_count
from agentcli.providers.errors import make_cut_error
from agentcli.providers.gemini import provider_tools
from agentcli.providers.gemini.errors import BLOCKED, describe_reason, make_stream_error
from agentcli.providers.gemini.provider_tools import find_annotated, find_calls_in_steps
from agentcli.providers.gemini.values import (
    as_list,
    as_mapping,
    as_string,
    mint_id,
    normalize_numbers,
)
from agentcli.types.deltas import CallDelta, Delta, TextDelta, ThinkingDelta
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Echo,
    Json,
    Opaque,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

# One step of an interaction: assembled from its deltas, and converted to a neutral block


PROTOCOL = "gemini-interactions"

ASKED = frozenset({"user_input", "function_result"})
"""The types of steps that we send ourselves. Some servers repeat them."""

_PLAIN_STEP = frozenset({"type", "content"})
_PLAIN_TEXT = frozenset({"type", "text"})
_MEDIA = frozenset({"image", "audio", "document", "video"})


class InteractionStep:
    """One step of a reply. It grows by `take` until it is `stopped`."""

    def __init__(self, started: Mapping[str, Json], place: int) -> None:
        self.kind = as_string(started.get("type"))
        self.stopped = False
        self._place = place
        self._step = {key: value for key, value in started.items() if value != ""}
        self._arguments: list[str] = []
        """Pieces of JSON. If there are any, the arguments of the first event are empty."""
        self._growing = ""
        """The field whose last item is a text that still grows."""
        self._pieces: list[str] = []

    @property
    def name(self) -> str:
        """The name of the called tool."""
        return replace_unpaired(as_string(self._step.get("name")))

    @property
    def fault(self) -> Json:
        """The error of the step, or None if it did not fail."""
        return self._step.get("error")

    @property
    def fields(self) -> Mapping[str, Json]:
        """The fields received so far."""
        self._join_pieces()
        return self._step

    def list_opening_deltas(self) -> Sequence[Delta]:
        """Return the deltas of the content that the step starts with."""
        if self.kind == "thought":
            return _make_deltas(_join_texts(self._step.get("summary")), is_thought=True)
        if self.kind == "model_output":
            return _make_deltas(_join_texts(self._step.get("content")), is_thought=False)
        if self.kind == "function_call":
            given = self._step.get("arguments")
            return [self._build_call_delta(json.dumps(given, ensure_ascii=False) if given else "")]
        return []

    def take(self, delta: Mapping[str, Json]) -> Sequence[Delta]:
        match delta.get("type"):
            case "text":
                text = as_string(delta.get("text"))
                self._grow("content", {"type": "text", "text": text})
                return _make_deltas(text, is_thought=False)
            case "thought_summary":
                content = as_mapping(delta.get("content"))
                self._grow("summary", content)
                return _make_deltas(as_string(content.get("text")), is_thought=True)
            case "thought_signature":
                self._sign(as_string(delta.get("signature")))
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

    def build_block(self, model: str) -> Block | None:
        """Return the neutral block, or None for an empty step."""
        self._join_pieces()
        if self.kind == "function_call":
            return self._as_call(model)
        step = as_mapping(make_sendable(self._step))
        echo = Echo(protocol=PROTOCOL, model=model, data=step)
        if self.kind == "thought":
            summary = _join_texts(step.get("summary"))
            return Thinking(text=summary, echo=echo) if step.keys() > {"type"} else None
        if self.kind != "model_output":
            return Opaque(echo=echo)
        text = _join_texts(step.get("content"))
        if _is_plain(step) and not text:
            return None
        if _is_plain(step) and text.strip():
            return Text(text=text)
        return Text(text=text, echo=echo) if text else Opaque(echo=echo)

    def _as_call(self, model: str) -> ToolCall:
        arguments = read_arguments("".join(self._arguments) or self._step.get("arguments"))
        step = {**self._step, "arguments": wrap_arguments(arguments)}
        return ToolCall(
            id=replace_unpaired(self._choose_call_id()),
            name=self.name,
            input=normalize_numbers(arguments),
            echo=Echo(protocol=PROTOCOL, model=model, data=make_sendable(step)),
        )

    def _choose_call_id(self) -> str:
        return as_string(self._step.get("id")) or mint_id(self._place, self._step)

    def _take_arguments(self, delta: Mapping[str, Json]) -> Sequence[Delta]:
        piece = delta.get("arguments", delta.get("partial_arguments"))
        text = piece if isinstance(piece, str) else json.dumps(piece or {}, ensure_ascii=False)
        self._arguments.append(text)
        return [self._build_call_delta(text)]

    def _build_call_delta(self, arguments: str) -> CallDelta:
        return CallDelta(
            call_id=replace_unpaired(self._choose_call_id()),
            name=self.name,
            arguments=replace_unpaired(arguments),
        )

    def _grow(self, field: str, item: Mapping[str, Json]) -> None:
        if item.keys() != _PLAIN_TEXT or item["type"] != "text":
            self._join_pieces()
            self._step[field] = [*as_list(self._step.get(field)), dict(item)]
            return
        if self._growing != field:
            self._join_pieces()
            parts = as_list(self._step.get(field))
            is_going_on = bool(parts) and as_mapping(parts[-1]).get("type") == "text"
            self._step[field] = parts if is_going_on else [*parts, {"type": "text", "text": ""}]
            self._growing = field
        self._pieces.append(as_string(item["text"]))

    def _join_pieces(self) -> None:
        """Add the pieces to the text that grows, all at once: a long text has very many."""
        if self._growing:
            *before, last = as_list(self._step[self._growing])
            text = as_string(as_mapping(last).get("text")) + "".join(self._pieces)
            self._step[self._growing] = [*before, {**as_mapping(last), "text": text}]
        self._growing = ""
        self._pieces.clear()

    def _sign(self, signature: str) -> None:
        """Add a signature, which may come in pieces, or again as a whole."""
        before = as_string(self._step.get("signature"))
        self._step["signature"] = signature if signature.startswith(before) else before + signature

    def _annotate(self, annotations: Json) -> None:
        self._join_pieces()
        *before, last = as_list(self._step.get("content")) or [{}]
        item = as_mapping(last)
        known = [*as_list(item.get("annotations")), *as_list(annotations)]
        self._step["content"] = [*before, {**item, "annotations": known}]


def _is_plain(step: Mapping[str, Json]) -> bool:
    """Return whether the step is nothing but its text."""
    content = as_list(step.get("content"))
    is_one_text = len(content) <= 1 and all(as_mapping(it).keys() == _PLAIN_TEXT for it in content)
    return step.keys() <= _PLAIN_STEP and is_one_text


def _join_texts(content: Json) -> str:
    return "".join(as_string(as_mapping(item).get("text")) for item in as_list(content))


def _make_deltas(text: str, *, is_thought: bool) -> Sequence[Delta]:
    if not text:
        return []
    return [
        ThinkingDelta(text=replace_unpaired(text))
        if is_thought
        else TextDelta(text=replace_unpaired(text))
    ]


_DONE = frozenset({"completed", "requires_action"})
_CONTINUED: frozenset[Stop] = frozenset({"end", "tool_calls", "paused"})
"""The stops after which a stored reply can be continued.

Of any other reply the service may have more than we do, such as half a call.
"""
_OPEN = frozenset({"", "in_progress", "queued"})
_STEP_OF_DELTA = {
    "text": "model_output",
    "thought_summary": "thought",
    "thought_signature": "thought",
}


class InteractionsDecoder:
    """The decoder of Interactions."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._steps: list[InteractionStep] = []
        self._at: dict[int, InteractionStep] = {}
        """The latest step of each index."""
        self._id = ""
        self._status = ""
        self._is_closed = False
        self._token = ""
        self._faults: list[Json] = []
        self._usage: Mapping[str, Json] = {}

    def feed(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        kind = as_string(event.get("event_type")) or as_string(event.get("type"))
        match kind:
            case "step.start":
                return self._start(_read_index(event), as_mapping(event.get("step")))
            case "step.delta":
                return self._grow(_read_index(event), as_mapping(event.get("delta")))
            case "step.stop":
                if step := self._at.get(_read_index(event)):
                    step.stopped = True
            case "interaction.status_update":
                self._note(event)
            case _ if kind.startswith("interaction."):
                self._note(as_mapping(event.get("interaction")))
                self._close()
            case _ if kind == "error" or event.get("error"):
                raise make_stream_error(event.get("error"))
        return []

    def message(self) -> AssistantMessage:
        if not self._is_closed:
            raise make_cut_error("the stream ended before the interaction did")
        content = self._build_content()
        stop, detail = self._read_stop(content)
        return AssistantMessage(
            content=content,
            stop=stop,
            stop_detail=replace_unpaired(detail),
            cut_off=tuple(step.name for step in self._steps if not self._is_whole(step)),
            protocol=PROTOCOL,
            model=self._model.name,
            usage=self.usage(),
            echo=self._build_echo(stop),
            hosted=find_calls_in_steps(step.fields for step in self._steps),
            sources=find_annotated(step.fields for step in self._steps),
        )

    def usage(self) -> Usage:
        return _read_usage(self._usage)

    def _close(self) -> None:
        self._is_closed = self._status not in _OPEN
        if self._status == "failed" and not self._find_block_reason():
            fault = next((fault for fault in self._list_faults() if fault), None)
            raise make_stream_error(fault or {"message": "the interaction failed"})

    def _start(self, index: int, started: Mapping[str, Json]) -> Sequence[Delta]:
        if as_string(started.get("type")) in ASKED:
            return []
        return self._add_step(started, index).list_opening_deltas()

    def _add_step(self, started: Mapping[str, Json], index: int) -> InteractionStep:
        step = self._at[index] = InteractionStep(started, len(self._steps))
        self._steps.append(step)
        return step

    def _grow(self, index: int, delta: Mapping[str, Json]) -> Sequence[Delta]:
        kind = as_string(delta.get("type"))
        step = self._at.get(index)
        if kind.startswith("arguments") and (step is None or step.kind != "function_call"):
            # Observed: such a delta can have the index of the thought before the call.
            step = next((s for s in reversed(self._steps) if _is_open_call(s)), None)
        if step is None and kind in _STEP_OF_DELTA:
            step = self._add_step({"type": _STEP_OF_DELTA[kind]}, index)
        return step.take(delta) if step else []

    def _note(self, event: Mapping[str, Json]) -> None:
        """Store what an event says about the interaction as a whole."""
        self._id = as_string(event.get("id")) or as_string(event.get("interaction_id")) or self._id
        self._status = as_string(event.get("status")) or self._status
        self._token = as_string(event.get("continuation_token")) or self._token
        self._usage = as_mapping(event.get("usage")) or self._usage
        self._faults += as_list(event.get("errors"))
        if not self._steps:
            # The reply was not streamed step by step.
            for index, step in enumerate(as_list(event.get("steps"))):
                self._start(index, as_mapping(step))

    def _build_content(self) -> tuple[Block, ...]:
        blocks = (
            step.build_block(self._model.name) for step in self._steps if self._is_whole(step)
        )
        return tuple(
            provider_tools.translate(block)
            if self._model.computer and isinstance(block, ToolCall)
            else block
            for block in blocks
            if block is not None
        )

    def _is_whole(self, step: InteractionStep) -> bool:
        return step.stopped or step.kind != "function_call" or self._status in _DONE

    def _read_stop(self, content: Sequence[Block]) -> tuple[Stop, str]:
        if blocked := self._find_block_reason():
            return "refusal", blocked
        called = any(isinstance(block, ToolCall) for block in content)
        match self._status:
            case "completed" | "requires_action" if called:
                return "tool_calls", ""
            case "completed":
                return "end", ""
            case "requires_continuation" if self._token:
                return "paused", self._status
            case "requires_continuation" | "incomplete" | "budget_exceeded":
                return "length", self._status
            case _:
                return "error", self._status

    def _find_block_reason(self) -> str:
        """Return which filter stopped the reply, or "" if none did."""
        for fault in map(as_mapping, self._list_faults()):
            if (code := as_string(fault.get("code"))) in BLOCKED:
                return describe_reason(code, as_string(fault.get("message")))
        return ""

    def _list_faults(self) -> list[Json]:
        return [*self._faults, *(step.fault for step in self._steps)]

    def _build_echo(self, stop: Stop) -> Echo | None:
        data: dict[str, Json] = {}
        if STORED in self._model.quirks and self._id and stop in _CONTINUED:
            data["id"] = self._id
        if stop == "paused":
            data["continuation_token"] = self._token
        return Echo(protocol=PROTOCOL, model=self._model.name, data=data) if data else None


def _is_open_call(step: InteractionStep) -> bool:
    return step.kind == "function_call" and not step.stopped


def _read_index(event: Mapping[str, Json]) -> int:
    return as_count(event.get("index"))


def _read_usage(counts: Mapping[str, Json]) -> Usage:
    cached = as_count(counts.get("total_cached_tokens"))
    thoughts = as_count(counts.get("total_thought_tokens"))
    new = max(0, as_count(counts.get("total_input_tokens")) - cached)
    return Usage(
        input_tokens=new + as_count(counts.get("total_tool_use_tokens")),
        cache_read_tokens=cached,
        output_tokens=as_count(counts.get("total_output_tokens")) + thoughts,
        reasoning_tokens=thoughts,
        searches=sum(
            as_count(as_mapping(one).get("count"))
            for one in as_list(counts.get("grounding_tool_count"))
            if as_mapping(one).get("type") == "google_search"
        ),
    )
