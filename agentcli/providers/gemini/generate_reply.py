"""One reply of generateContent, assembled from the chunks of its stream.

What must be sent back is stored as it came: a part with a signature is never joined with another.
A call arrives whole in one part, so a call is never partial.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentcli.providers.arguments import (
    make_sendable,
    read_arguments,
    replace_unpaired,
    wrap_arguments,
)
from agentcli.providers.dialect import Model, as_count
from agentcli.providers.errors import make_cut_error
from agentcli.providers.gemini import provider_tools
from agentcli.providers.gemini.errors import (
    BLOCKED,
    UNUSABLE,
    describe_reason,
    make_finish_error,
    make_stream_error,
)
from agentcli.providers.gemini.provider_tools import find_calls_in_parts, find_grounding
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

PROTOCOL = "gemini"
TOKEN = "continuationToken"

_PLAIN = frozenset({"text", "thought"})
_SIGNATURE = frozenset({"thoughtSignature", "thought"})


class GenerateDecoder:
    """The decoder of generateContent."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._blocks: list[Block] = []
        self._pieces: list[str] = []
        """The pieces of the plain text that is still growing."""
        self._is_thinking = False
        """True if that text is a thought."""
        self._response_id = ""
        self._usage: dict[str, Json] = {}
        self._finish = ""
        self._detail = ""
        self._token: Json = None
        self._block_reason = ""
        self._parts: list[dict[str, Json]] = []
        """The parts without text, among them the calls that the service made itself."""
        self._grounding: dict[str, Json] = {}

    def feed(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        if event.get("error"):
            raise make_stream_error(event["error"])
        self._response_id = self._response_id or as_string(event.get("responseId"))
        self._usage.update(as_mapping(event.get("usageMetadata")))
        self._block_reason = self._block_reason or _describe_block(
            as_mapping(event.get("promptFeedback"))
        )
        candidate = as_mapping(next(iter(as_list(event.get("candidates"))), None))
        shown: list[Delta] = []
        for part in as_list(as_mapping(candidate.get("content")).get("parts")):
            shown.extend(self._take(as_mapping(part)))
        self._grounding.update(as_mapping(candidate.get("groundingMetadata")))
        self._end(candidate)
        return shown

    def message(self) -> AssistantMessage:
        content = (*self._blocks, *self._build_current_text())
        stop, detail = self._read_stop(content)
        return AssistantMessage(
            content=content,
            stop=stop,
            stop_detail=replace_unpaired(detail),
            protocol=PROTOCOL,
            model=self._model.name,
            usage=self.usage(),
            echo=self._build_echo({TOKEN: self._token}) if stop == "paused" else None,
            hosted=find_calls_in_parts(self._parts),
            sources=find_grounding(self._grounding),
        )

    def usage(self) -> Usage:
        queries = as_list(self._grounding.get("webSearchQueries"))
        counted = _read_usage(self._usage)
        return replace(counted, searches=len(queries)) if queries else counted

    def _end(self, candidate: Mapping[str, Json]) -> None:
        self._token = candidate.get(TOKEN) or self._token
        reason = as_string(candidate.get("finishReason"))
        if reason:
            self._finish, self._detail = reason, as_string(candidate.get("finishMessage"))
        if reason.lower() in UNUSABLE:
            raise make_finish_error(reason, self._detail)

    def _take(self, part: dict[str, Json]) -> Sequence[Delta]:
        text = part.get("text")
        if isinstance(call := part.get("functionCall"), dict):
            return self._take_call(part, call)
        if isinstance(text, str) and part.keys() <= _PLAIN:
            return self._take_plain(text, is_thought=_is_thought(part))
        is_signature = "thoughtSignature" in part and part.keys() <= _SIGNATURE
        if isinstance(text, str) or is_signature:
            return self._take_signed(part, as_string(text))
        if part.keys() - _PLAIN:
            self._parts.append(part)
            self._append(Opaque(echo=self._build_echo(make_sendable(part))))
        return []

    def _take_plain(self, text: str, *, is_thought: bool) -> Sequence[Delta]:
        """Append to the text before it, if that is plain text of the same kind."""
        if not text:
            return []
        if is_thought != self._is_thinking:
            self._finish_text()
        self._is_thinking = is_thought
        self._pieces.append(text)
        return [_make_delta(text, is_thought=is_thought)]

    def _take_signed(self, part: dict[str, Json], text: str) -> Sequence[Delta]:
        """Append a part with a signature.

        A signature may come without text. The part then gets an empty text, because the service
        refuses a part with only a signature."""
        self._append(self._make_text_block(as_mapping(make_sendable({**part, "text": text}))))
        return [_make_delta(text, is_thought=_is_thought(part))] if text else []

    def _take_call(self, part: dict[str, Json], call: dict[str, Json]) -> Sequence[Delta]:
        args = call.get("args")
        arguments = read_arguments(args)
        if not isinstance(arguments, dict) or not isinstance(call.get("args", {}), dict):
            part = {**part, "functionCall": {**call, "args": wrap_arguments(arguments)}}
        self._finish_text()
        seed = self._response_id or self._blocks
        made = ToolCall(
            id=replace_unpaired(as_string(call.get("id")))
            or mint_id(seed, len(self._blocks), call),
            name=replace_unpaired(as_string(call.get("name"))),
            input=normalize_numbers(arguments),
            echo=self._build_echo(make_sendable(part)),
        )
        if self._model.computer:
            made = provider_tools.translate(made)
        self._append(made)
        shown = json.dumps(made.input, ensure_ascii=False)
        return [CallDelta(call_id=made.id, name=made.name, arguments=shown)]

    def _append(self, block: Block) -> None:
        self._finish_text()
        self._blocks.append(block)

    def _finish_text(self) -> None:
        self._blocks += self._build_current_text()
        self._pieces.clear()

    def _build_current_text(self) -> Sequence[Block]:
        """Return the plain text since the last block, as one block; empty if there is none."""
        if not self._pieces:
            return ()
        thought: dict[str, Json] = {"thought": True} if self._is_thinking else {}
        return (
            self._make_text_block({"text": replace_unpaired("".join(self._pieces)), **thought}),
        )

    def _make_text_block(self, part: dict[str, Json]) -> Text | Thinking:
        """Return a block for the part.

        Plain text needs no echo. Blank text does: it would be left out without one."""
        text = as_string(part.get("text"))
        if _is_thought(part):
            return Thinking(text=text, echo=self._build_echo(part))
        says_all = part.keys() <= _PLAIN and text.strip()
        return Text(text=text, echo=None if says_all else self._build_echo(part))

    def _build_echo(self, data: Json) -> Echo:
        return Echo(protocol=PROTOCOL, model=self._model.name, data=data)

    def _read_stop(self, content: Sequence[Block]) -> tuple[Stop, str]:
        reason = self._finish
        if not reason and self._block_reason:
            return "refusal", self._block_reason
        detail = describe_reason(reason, self._detail)
        match reason:
            case "":
                raise make_cut_error("the stream ended without a finish reason")
            case "STOP":
                called = any(isinstance(block, ToolCall) for block in content)
                return ("tool_calls" if called else "end"), ""
            case "CONTINUATION" if self._token:
                return "paused", detail
            case "MAX_TOKENS" | "CONTINUATION":
                return "length", detail
            case _ if reason.lower() in BLOCKED:
                return "refusal", detail
            case _:
                return "error", detail


def _read_usage(counts: Mapping[str, Json]) -> Usage:
    cached = as_count(counts.get("cachedContentTokenCount"))
    thoughts = as_count(counts.get("thoughtsTokenCount"))
    new = max(0, as_count(counts.get("promptTokenCount")) - cached)
    return Usage(
        input_tokens=new + as_count(counts.get("toolUsePromptTokenCount")),
        cache_read_tokens=cached,
        output_tokens=as_count(counts.get("candidatesTokenCount")) + thoughts,
        reasoning_tokens=thoughts,
    )


def _describe_block(feedback: Mapping[str, Json]) -> str:
    reason, message = feedback.get("blockReason"), feedback.get("blockReasonMessage")
    return describe_reason(as_string(reason), as_string(message))


def _make_delta(text: str, *, is_thought: bool) -> Delta:
    return (
        ThinkingDelta(text=replace_unpaired(text))
        if is_thought
        else TextDelta(text=replace_unpaired(text))
    )


def _is_thought(part: Mapping[str, Json]) -> bool:
    return part.get("thought") is True
