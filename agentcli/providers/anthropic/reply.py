"""Anthropic Messages: one streamed reply, block by block.

A block is stored as the provider built it, because thinking and unknown fields must be sent back
byte for byte. What the neutral form cannot hold is stored in the block's echo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from agentcli.providers.anthropic import provider_tools
from agentcli.providers.anthropic.errors import make_stream_error
from agentcli.providers.anthropic.provider_tools import find_hosted_calls, find_sources
from agentcli.providers.arguments import make_sendable, read_arguments, replace_unpaired
from agentcli.providers.dialect import Model, as_count
from agentcli.providers.errors import make_cut_error
from agentcli.types.computer import COMPUTER
from agentcli.types.deltas import CallDelta, Delta, TextDelta, ThinkingDelta
from agentcli.types.fast_dataclass import dataclass
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

PROTOCOL = "anthropic"

_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "pause_turn": "paused",
    "compaction": "paused",  # the provider has summarized, and goes on with the next request
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
}

_NEUTRAL = ("text", "thinking", "redacted_thinking", "tool_use")
"""The types of blocks that have a neutral form."""


@dataclass(slots=True, kw_only=True)
class _StreamedBlock:
    """A block while it arrives: its first fields and the pieces added to them since."""

    fields: dict[str, Json]
    pieces: dict[str, list[str]] = field(default_factory=dict)
    """The pieces of strings that arrive in parts, by field name."""

    @property
    def type(self) -> Json:
        return self.fields.get("type")

    def add(self, name: str, piece: str) -> str:
        self.pieces.setdefault(name, []).append(piece)
        return piece

    def text(self, name: str) -> str:
        start = self.fields.get(name)
        return replace_unpaired((start if isinstance(start, str) else "") + self.join(name))

    def join(self, name: str) -> str:
        return "".join(self.pieces.get(name, ()))

    def select_other_fields(self, *known: str) -> dict[str, Json]:
        """Return the fields that are not in `known` and not empty."""
        return {key: value for key, value in self.fields.items() if key not in known and value}


class MessagesDecoder:
    """The decoder of one reply: events in, one message out."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._blocks: dict[int, _StreamedBlock] = {}
        self._usage: dict[str, Json] = {}
        self._stop_reason: str | None = None
        self._stop_detail = ""
        self._container: str | None = None

    def feed(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        if event.get("type") == "content_block_delta":  # nearly every event, so checked first
            return self._grow(event.get("index"), event.get("delta"))
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._begin(message)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._blocks[index] = growing = _StreamedBlock(fields=dict(block))
                return _open_block(growing)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._end(delta, event.get("usage"))
            case {"type": "message", "content": list(blocks)}:  # a server that does not stream
                self._blocks = {
                    n: _StreamedBlock(fields=b) for n, b in enumerate(blocks) if isinstance(b, dict)
                }
                self._end(event, event.get("usage"))
                return [delta for block in self._blocks.values() for delta in _open_block(block)]
            case {"type": "error"} | {"error": dict()}:
                raise make_stream_error(dict(event))
        return ()

    def message(self) -> AssistantMessage:
        if self._stop_reason is None:
            raise make_cut_error("the stream ended without a stop reason")
        stop = _STOPS.get(self._stop_reason, "error")
        blocks = list(self._blocks.values())
        lost: list[_StreamedBlock] = []
        if stop not in ("end", "tool_calls", "paused") and blocks and _is_cut_off(blocks[-1]):
            lost = [blocks.pop()]
        content = tuple(block for it in blocks if (block := self._build_block(it)) is not None)
        has_calls = any(isinstance(block, ToolCall) for block in content)
        if stop in ("end", "tool_calls"):
            stop = "tool_calls" if has_calls else "end"
        return AssistantMessage(
            content=content,
            stop=stop,
            stop_detail=self._stop_detail,
            cut_off=tuple(it.text("name") for it in lost if it.type == "tool_use"),
            protocol=PROTOCOL,
            model=self._model.name,
            usage=self.usage(),
            echo=self._build_own_echo(self._container) if self._container and content else None,
            hosted=find_hosted_calls(map(_read_opaque_fields, blocks)),
            sources=find_sources(block.fields for block in blocks),
        )

    def usage(self) -> Usage:
        details = self._usage.get("output_tokens_details")
        used = self._usage.get("server_tool_use")
        hosted = used if isinstance(used, dict) else {}
        parts = self._usage.get("cache_creation")
        written = parts if isinstance(parts, dict) else {}
        thinking = details.get("thinking_tokens") if isinstance(details, dict) else 0
        return Usage(
            input_tokens=as_count(self._usage.get("input_tokens")),
            cache_read_tokens=as_count(self._usage.get("cache_read_input_tokens")),
            cache_write_tokens=as_count(self._usage.get("cache_creation_input_tokens")),
            long_cache_write_tokens=as_count(written.get("ephemeral_1h_input_tokens")),
            output_tokens=as_count(self._usage.get("output_tokens")),
            reasoning_tokens=as_count(thinking),
            searches=as_count(hosted.get("web_search_requests")),
        )

    def _grow(self, index: Json, delta: Json) -> Sequence[Delta]:
        growing = self._blocks.get(index) if isinstance(index, int) else None
        return _grow_block(growing, delta) if growing and isinstance(delta, dict) else ()

    def _begin(self, message: Mapping[str, Json]) -> None:
        self._run_in(message.get("container"))
        usage = message.get("usage")
        self._usage |= usage if isinstance(usage, dict) else {}

    def _run_in(self, container: Json) -> None:
        """Store the id of the container that runs programs, for the next request to name."""
        match container:
            case {"id": str(container_id)}:
                self._container = container_id

    def _end(self, delta: Mapping[str, Json], usage: Json) -> None:
        if isinstance(usage, dict):
            # A count that is sent is the total so far; one that is not sent has not changed.
            self._usage |= {key: value for key, value in usage.items() if value is not None}
        self._run_in(delta.get("container"))
        reason = delta.get("stop_reason")
        if not isinstance(reason, str):
            return
        self._stop_reason = reason
        match delta.get("stop_details"):
            case dict(details):
                words = [details.get("category"), details.get("explanation")]
                self._stop_detail = ": ".join(word for word in words if isinstance(word, str))
            case _ if reason not in ("end_turn", "tool_use"):
                self._stop_detail = reason

    def _build_block(self, growing: _StreamedBlock) -> Block | None:
        match growing.type:
            case "text":
                text, echo = (
                    growing.text("text"),
                    self._build_echo(growing.select_other_fields("type", "text")),
                )
                return Text(text=text, echo=echo) if text or echo else None
            case "thinking":
                text = growing.text("thinking")
                return Thinking(
                    text=text, echo=self._build_echo(growing.fields | {"thinking": text})
                )
            case "redacted_thinking":
                return Thinking(text="", echo=self._build_echo(growing.fields))
            case "tool_use":
                return self._build_call(growing)
            case _:
                echo = self._build_echo(_read_opaque_fields(growing))
                return Opaque(echo=echo) if echo else None

    def _build_call(self, growing: _StreamedBlock) -> ToolCall:
        name, given = growing.text("name"), _read_arguments(growing)
        kept = growing.select_other_fields("type", "id", "name", "input")
        if provider_tools.is_member(growing.fields):
            kept |= {"name": name, "input": given}  # it goes back as it came
            name, given = provider_tools.read_call(name, given)
        return ToolCall(
            id=growing.text("id"),
            name=name,
            input=given,
            caller=_read_caller(growing.fields.get("caller")),
            echo=self._build_echo(kept),
        )

    def _build_echo(self, data: dict[str, Json]) -> Echo | None:
        return self._build_own_echo(make_sendable(data)) if data else None

    def _build_own_echo(self, data: Json) -> Echo:
        return Echo(protocol=PROTOCOL, model=self._model.name, data=data)


def _open_block(growing: _StreamedBlock) -> Sequence[Delta]:
    """Return the deltas of the content that a block starts with."""
    match growing.type:
        case "text" if text := growing.text("text"):
            return [TextDelta(text=text)]
        case "thinking" if text := growing.text("thinking"):
            return [ThinkingDelta(text=text)]
        case "tool_use":
            return [_build_call_delta(growing, "")]
    return ()


def _grow_block(growing: _StreamedBlock, delta: Mapping[str, Json]) -> Sequence[Delta]:
    match delta.get("type"):
        case "text_delta" if isinstance(text := delta.get("text"), str):
            return (TextDelta(text=replace_unpaired(growing.add("text", text))),)
        case "thinking_delta" if isinstance(text := delta.get("thinking"), str):
            return (ThinkingDelta(text=replace_unpaired(growing.add("thinking", text))),)
        case "input_json_delta" if isinstance(piece := delta.get("partial_json"), str):
            growing.add("input", piece)
            return (_build_call_delta(growing, piece),) if growing.type == "tool_use" else ()
        case "signature_delta" if "signature" in delta:
            growing.fields["signature"] = delta["signature"]
        case "citations_delta" if "citation" in delta:
            citations = growing.fields.get("citations")
            before = citations if isinstance(citations, list) else []
            growing.fields["citations"] = [*before, delta["citation"]]
        case _ if growing.type not in _NEUTRAL:
            _extend(growing, delta)
    return ()


def _extend(growing: _StreamedBlock, delta: Mapping[str, Json]) -> None:
    """Add a delta of an unknown type to its block, whose type is unknown too. Both are kept."""
    for name, value in delta.items():
        if name == "type":
            continue
        if isinstance(value, str):
            growing.add(name, value)
        else:
            growing.fields[name] = value


def _build_call_delta(growing: _StreamedBlock, piece: str) -> CallDelta:
    name = COMPUTER if provider_tools.is_member(growing.fields) else growing.text("name")
    return CallDelta(call_id=growing.text("id"), name=name, arguments=replace_unpaired(piece))


def _read_arguments(growing: _StreamedBlock) -> Json:
    return read_arguments(growing.join("input") or growing.fields.get("input") or {})


def _read_caller(caller: Json) -> str | None:
    """Return the id of the program that made a call, or None if the model made it."""
    match caller:
        case {"tool_id": str(program_id)}:
            return program_id
        case _:
            return None


def _is_cut_off(growing: _StreamedBlock) -> bool:
    """Return whether a stopped reply was stopped inside this block, its last one."""
    match growing.type:
        case "tool_use":
            arguments = _read_arguments(growing)
            return not arguments or not isinstance(arguments, dict)
        case "thinking":
            return not growing.fields.get("signature")
        case _:
            return False


def _read_opaque_fields(growing: _StreamedBlock) -> dict[str, Json]:
    fields = dict(growing.fields)
    for name in growing.pieces:
        fields[name] = _read_arguments(growing) if name == "input" else growing.text(name)
    return fields
