"""One reply of the Interactions protocol, put together from the events of its stream.

Only the event that closes the interaction ends the reply; a call that had not stopped by then is
there only where the interaction says that it is complete.
"""

from collections.abc import Mapping, Sequence

from agentcli.types.deltas import Delta
from agentcli.types.messages import AssistantMessage, Block, Echo, Json, Stop, ToolCall, Usage
from agentcli.wire.characters import replace_unpaired
from agentcli.wire.dialect import Model
from agentcli.wire.failures import make_cut_error
from agentcli.wire.gemini.errors import BLOCKED, make_stream_error
from agentcli.wire.gemini.steps import ASKED, PROTOCOL, InteractionStep
from agentcli.wire.gemini.values import count, items, mapping, string

STORED = "stored"
"""The quirk of a model that is asked with the service keeping the conversation."""

_DONE = frozenset({"completed", "requires_action"})
_CONTINUED: frozenset[Stop] = frozenset({"end", "tool_calls", "paused"})
"""Of another reply the service may have more than we do, such as half a call."""
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
        kind = string(event.get("event_type")) or string(event.get("type"))
        match kind:
            case "step.start":
                return self._start(_index(event), mapping(event.get("step")))
            case "step.delta":
                return self._grow(_index(event), mapping(event.get("delta")))
            case "step.stop":
                if step := self._at.get(_index(event)):
                    step.stopped = True
            case "interaction.status_update":
                self._note(event)
            case _ if kind.startswith("interaction."):
                self._note(mapping(event.get("interaction")))
                self._close()
            case _ if kind == "error" or event.get("error"):
                raise make_stream_error(event.get("error"))
        return []

    def message(self) -> AssistantMessage:
        if not self._is_closed:
            raise make_cut_error("the stream ended before the interaction did")
        content = self._content()
        stop, detail = self._stop(content)
        return AssistantMessage(
            content=content,
            stop=stop,
            stop_detail=replace_unpaired(detail),
            cut_off=tuple(step.name for step in self._steps if not self._is_whole(step)),
            protocol=PROTOCOL,
            model=self._model.name,
            usage=self.usage(),
            echo=self._echo(stop),
        )

    def usage(self) -> Usage:
        return _usage(self._usage)

    def _close(self) -> None:
        self._is_closed = self._status not in _OPEN
        if self._status == "failed" and not self._find_block_reason():
            fault = next((fault for fault in self._all_faults() if fault), None)
            raise make_stream_error(fault or {"message": "the interaction failed"})

    def _start(self, index: int, started: Mapping[str, Json]) -> Sequence[Delta]:
        if string(started.get("type")) in ASKED:
            return []
        return self._add_step(started, index).opening()

    def _add_step(self, started: Mapping[str, Json], index: int) -> InteractionStep:
        step = self._at[index] = InteractionStep(started, len(self._steps))
        self._steps.append(step)
        return step

    def _grow(self, index: int, delta: Mapping[str, Json]) -> Sequence[Delta]:
        kind = string(delta.get("type"))
        step = self._at.get(index)
        if kind.startswith("arguments") and (step is None or step.kind != "function_call"):
            # Seen on the wire: the index of the thought before the call.
            step = next((s for s in reversed(self._steps) if _is_open_call(s)), None)
        if step is None and kind in _STEP_OF_DELTA:
            step = self._add_step({"type": _STEP_OF_DELTA[kind]}, index)
        return step.take(delta) if step else []

    def _note(self, event: Mapping[str, Json]) -> None:
        """What an event says of the interaction as a whole."""
        self._id = string(event.get("id")) or string(event.get("interaction_id")) or self._id
        self._status = string(event.get("status")) or self._status
        self._token = string(event.get("continuation_token")) or self._token
        self._usage = mapping(event.get("usage")) or self._usage
        self._faults += items(event.get("errors"))
        if not self._steps:
            # A reply that was not streamed step by step.
            for index, step in enumerate(items(event.get("steps"))):
                self._start(index, mapping(step))

    def _content(self) -> tuple[Block, ...]:
        blocks = (step.block(self._model.name) for step in self._steps if self._is_whole(step))
        return tuple(block for block in blocks if block is not None)

    def _is_whole(self, step: InteractionStep) -> bool:
        return step.stopped or step.kind != "function_call" or self._status in _DONE

    def _stop(self, content: Sequence[Block]) -> tuple[Stop, str]:
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
        """Which filter stopped it, where one did."""
        faults = (mapping(fault) for fault in self._all_faults())
        return next((_describe_fault(it) for it in faults if string(it.get("code")) in BLOCKED), "")

    def _all_faults(self) -> list[Json]:
        return [*self._faults, *(step.fault for step in self._steps)]

    def _echo(self, stop: Stop) -> Echo | None:
        data: dict[str, Json] = {}
        if STORED in self._model.quirks and self._id and stop in _CONTINUED:
            data["id"] = self._id
        if stop == "paused":
            data["continuation_token"] = self._token
        return Echo(protocol=PROTOCOL, model=self._model.name, data=data) if data else None


def _is_open_call(step: InteractionStep) -> bool:
    return step.kind == "function_call" and not step.stopped


def _index(event: Mapping[str, Json]) -> int:
    return count(event.get("index"))


def _describe_fault(fault: Mapping[str, Json]) -> str:
    code, message = string(fault.get("code")), string(fault.get("message"))
    return f"{code}: {message}" if message else code


def _usage(counts: Mapping[str, Json]) -> Usage:
    cached = count(counts.get("total_cached_tokens"))
    thoughts = count(counts.get("total_thought_tokens"))
    new = max(0, count(counts.get("total_input_tokens")) - cached)
    return Usage(
        input_tokens=new + count(counts.get("total_tool_use_tokens")),
        cache_read_tokens=cached,
        output_tokens=count(counts.get("total_output_tokens")) + thoughts,
        reasoning_tokens=thoughts,
    )
