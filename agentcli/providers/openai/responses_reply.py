"""One streamed reply of the Responses protocol, assembled item by item.

Items are identified by their output index, so parallel calls may interleave. The reply is whole
when its last event has come, and not before, whatever its items say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from agentcli.providers.arguments import replace_unpaired
from agentcli.providers.dialect import STORED, Model
from agentcli.providers.errors import make_cut_error
from agentcli.providers.openai.content import read_count
from agentcli.providers.openai.errors import make_stream_error
from agentcli.providers.openai.provider_tools import count_searches, find_hosted_calls, find_sources
from agentcli.providers.openai.responses_items import (
    PARAGRAPH,
    PROTOCOL,
    StreamedItem,
    find_refusal,
    make_block,
    make_call_delta,
    make_deltas,
    read_word,
)
from agentcli.types.deltas import Delta, TextDelta, ThinkingDelta
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Echo,
    HostedCall,
    Json,
    Stop,
    ToolCall,
    Usage,
)


class ResponsesDecoder:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._items: list[StreamedItem] = []
        self._open: dict[int, StreamedItem] = {}
        """The items that are announced and not done, by output index."""
        self._response: dict[str, Json] | None = None
        self._steps: dict[str, Callable[[Mapping[str, Json]], Sequence[Delta]]] = {
            "response.output_item.added": self._add_item,
            "response.output_item.done": self._close_item,
            "response.output_text.delta": self._take_text,
            "response.refusal.delta": self._take_text,
            "response.reasoning_summary_part.added": self._take_paragraph,
            "response.reasoning_summary_text.delta": self._take_thought,
            "response.reasoning_text.delta": self._take_thought,
            "response.function_call_arguments.delta": self._take_call,
            "response.custom_tool_call_input.delta": self._take_call,
            "response.function_call_arguments.done": self._take_arguments,
            "response.custom_tool_call_input.done": self._take_arguments,
            "response.completed": self._finish_response,
            "response.incomplete": self._finish_response,
            "response.failed": self._finish_response,
            "response.done": self._finish_response,
        }

    def feed(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        kind = event.get("type")
        if kind == "error" or (kind is None and event.get("error")):
            raise make_stream_error(event.get("error") or dict(event))
        if event.get("object") == "response":
            return self._finish_response({"response": dict(event)})
        step = self._steps.get(kind) if isinstance(kind, str) else None
        return step(event) if step is not None else ()

    def message(self) -> AssistantMessage:
        if self._response is None:
            raise make_cut_error("the stream ended without a last event")
        in_order = sorted(self._items, key=lambda item: item.index)
        blocks = (make_block(item, self._model) for item in in_order)
        content = tuple(block for block in blocks if block is not None)
        refusal = "".join(find_refusal(item) for item in in_order)
        missing = _explain_incomplete(self._response)
        return AssistantMessage(
            content=content,
            stop=_read_stop(content, refusal=refusal, missing=missing),
            stop_detail=replace_unpaired(refusal or missing),
            cut_off=tuple(item.name for item in in_order if item.is_call and not item.is_complete),
            protocol=PROTOCOL,
            model=self._model.name,
            usage=self.usage(),
            echo=None if missing else self._build_continuation(self._response),
            hosted=self._find_hosted(),
            sources=find_sources(item.data for item in in_order),
        )

    def usage(self) -> Usage:
        counted = _read_usage(self._response.get("usage") if self._response else None)
        searches = count_searches(self._find_hosted())
        return replace(counted, searches=searches) if searches else counted

    def _find_hosted(self) -> tuple[HostedCall, ...]:
        return find_hosted_calls(item.data for item in self._items if item.is_done)

    def _add_item(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        data = event.get("item")
        item = self._begin(event, data if isinstance(data, dict) else {})
        return [make_call_delta(item, "")] if item.is_call else ()

    def _close_item(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        data = event.get("item")
        if isinstance(data, dict) and self._is_repeated(event, data):
            return ()  # no call may run twice
        item = self._ensure_item(event)
        del self._open[item.index]
        if isinstance(data, dict):
            item.close(data)
        return ()

    def _is_repeated(self, event: Mapping[str, Json], data: Mapping[str, Json]) -> bool:
        """Return whether the very item was done before, as some gateways repeat an event."""
        again = StreamedItem(index=_read_index(event), data={})
        again.close(data)
        return (
            again.index not in self._open
            and bool(read_word(again.data, "id"))
            and any(one.is_done and one.data == again.data for one in self._items)
        )

    def _take_text(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        return [
            TextDelta(text=replace_unpaired(piece)) for piece in self._take_piece(event, "message")
        ]

    def _take_thought(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        return [
            ThinkingDelta(text=replace_unpaired(piece))
            for piece in self._take_piece(event, "reasoning")
        ]

    def _take_paragraph(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        if not self._ensure_item(event, "reasoning").pieces:
            return ()
        return self._take_thought({**event, "delta": PARAGRAPH})

    def _take_call(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        pieces = self._take_piece(event, "function_call")
        return [make_call_delta(self._ensure_item(event), piece) for piece in pieces]

    def _take_arguments(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        item = self._open.get(_read_index(event))
        name = "arguments" if "arguments" in event else "input"
        if item is not None and isinstance(text := event.get(name), str):
            item.data = {**item.data, name: replace_unpaired(text)}
            item.is_written = True
        return ()

    def _take_piece(self, event: Mapping[str, Json], kind: str) -> Sequence[str]:
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return ()
        self._ensure_item(event, kind).pieces.append(delta)
        return [delta]

    def _ensure_item(self, event: Mapping[str, Json], kind: str = "") -> StreamedItem:
        """Return the item of an event; begin it if the server did not announce it."""
        return self._open.get(_read_index(event)) or self._begin(event, {"type": kind})

    def _begin(self, event: Mapping[str, Json], data: dict[str, Json]) -> StreamedItem:
        item = StreamedItem(index=_read_index(event), data=data)
        self._items.append(item)
        self._open[item.index] = item
        return item

    def _finish_response(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        response = event.get("response")
        status = read_word(dict(event), "type").removeprefix("response.")
        self._response = {"status": status, **(response if isinstance(response, dict) else {})}
        if self._response["status"] in ("failed", "cancelled") or self._response.get("error"):
            raise make_stream_error(self._response.get("error"))
        output = self._response.get("output")
        shown = self._take_late_items(output) if isinstance(output, list) else ()
        if not _explain_incomplete(self._response):
            self._close_calls()
        return shown

    def _close_calls(self) -> None:
        """Close the calls of a complete reply: a server may not say that they are done.

        Raise ProviderError if a call is not complete.
        """
        for item in filter(attrgetter("is_call"), self._items):
            if item.is_written and not item.is_done:
                item.close({**item.data, "status": "completed"})
            if not item.is_complete:
                raise make_cut_error(f"its call of {item.name} was incomplete")

    def _take_late_items(self, output: Sequence[Json]) -> Sequence[Delta]:
        """Take the items that only the last event, or the only one, has in full."""
        was_streamed = bool(self._items)
        shown: list[Delta] = []
        for index, data in enumerate(output):
            if was_streamed and index not in self._open:
                continue
            event: dict[str, Json] = {"output_index": index, "item": data}
            item = self._ensure_item(event)
            self._close_item(event)
            if not item.pieces:
                shown += make_deltas(item, self._model)
        return shown

    def _build_continuation(self, response: Mapping[str, Json]) -> Echo | None:
        response_id = response.get("id")
        if STORED not in self._model.quirks or not isinstance(response_id, str):
            return None
        return Echo(protocol=PROTOCOL, model=self._model.name, data=response_id)


def _read_index(event: Mapping[str, Json]) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0


def _explain_incomplete(response: Mapping[str, Json]) -> str:
    """Return why the reply is incomplete, or "" if it is complete."""
    if response.get("status") != "incomplete":
        return ""
    return read_word(response.get("incomplete_details"), "reason") or "incomplete"


def _read_stop(content: Sequence[Block], *, refusal: str, missing: str) -> Stop:
    if refusal or missing == "content_filter":
        return "refusal"
    if missing:
        return "length"
    return "tool_calls" if any(isinstance(block, ToolCall) for block in content) else "end"


def _read_usage(usage: Json) -> Usage:
    details = usage.get("input_tokens_details") if isinstance(usage, dict) else None
    spent = usage.get("output_tokens_details") if isinstance(usage, dict) else None
    cached, written = (
        read_count(details, "cached_tokens"),
        read_count(details, "cache_write_tokens"),
    )
    return Usage(
        input_tokens=max(0, read_count(usage, "input_tokens") - cached - written),
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=read_count(usage, "output_tokens"),
        reasoning_tokens=read_count(spent, "reasoning_tokens"),
    )
