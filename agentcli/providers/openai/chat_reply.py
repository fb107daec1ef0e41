"""One streamed reply of Chat Completions, from any compatible server.

The reply is whole when a finish reason has come, or `[DONE]` after the last event, or an event with
only token usage. Servers leave out any of them; if none comes, the reply was cut off.

By the specification a call has its own index, its id and name come once, and its arguments come in
pieces. Compatible servers put all calls at one index, leave ids out, or send arguments whole, as an
object, or twice. Every assembled call has its own id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from agentcli.providers.arguments import make_sendable, parse_arguments, replace_unpaired
from agentcli.providers.dialect import Model
from agentcli.providers.errors import make_cut_error
from agentcli.providers.http.sse import DONE
from agentcli.providers.normalize import encode_id
from agentcli.providers.openai.content import dump_compact, read_count, restore_arguments
from agentcli.providers.openai.errors import make_stream_error
from agentcli.types.deltas import CallDelta, Delta, TextDelta, ThinkingDelta
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Echo,
    Json,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

EXTRA = "extra_content"
"""The field for signatures that some servers put on a call and want back."""

ARGUMENTS = "arguments"

_MINTED_CHARS = 24


@dataclass(slots=True, kw_only=True)
class StreamedCall:
    minted_id: str
    id: str = ""
    """The server's own id, once it sends one."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: Json = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_complete(self) -> bool:
        """True if nothing can follow: the arguments are a whole object."""
        # The last piece is checked first: this also runs in the middle of long arguments.
        last = next((piece for piece in reversed(self.pieces) if piece.strip()), "")
        return last.rstrip().endswith("}") and isinstance(parse_arguments(self.arguments), dict)

    def continues_with(self, given_id: str, name: str, *, piece: str) -> bool:
        """Return whether a delta at this call's index belongs to it and does not begin another."""
        if given_id and self.id and given_id != self.id:
            return not name and not self.is_complete  # the server makes a new id for every piece
        if not name or not self.name:
            return True
        return name == self.name and (not self._begins_anew(piece) or piece == self.arguments)

    def add(self, piece: str) -> None:
        """Append to the arguments, or begin them anew if they were complete."""
        if self._begins_anew(piece):
            # The arguments are repeated, or the earlier ones were only a placeholder.
            self.pieces.clear()
        if piece:
            self.pieces.append(piece)

    def _begins_anew(self, piece: str) -> bool:
        """Return whether the piece starts a new object after a whole one."""
        return piece.lstrip().startswith("{") and self.is_complete


class CallAssembly:
    def __init__(self) -> None:
        self._calls: list[StreamedCall] = []
        self._current: dict[int, StreamedCall] = {}
        """The call that the next piece belongs to, by index."""

    @property
    def is_whole(self) -> bool:
        return all(call.is_complete or not call.arguments for call in self._calls)

    def feed(self, delta: Mapping[str, Json], *, reply_id: str) -> CallDelta | None:
        """Add a delta; return what can be shown of it.

        `reply_id` is used to make an id if the server sends none.
        """
        function = delta.get("function")
        given = function if isinstance(function, dict) else {}
        name, piece = _read_word(given, "name"), _read_piece(given.get("arguments"))
        call = self._find_call(delta, name=name, piece=piece, reply_id=reply_id)
        call.id = call.id or _read_word(delta, "id")
        call.name = call.name or name
        call.extra = delta.get(EXTRA) or call.extra
        call.add(piece)
        if not call.name:
            return None
        return CallDelta(
            call_id=call.id or call.minted_id, name=call.name, arguments=replace_unpaired(piece)
        )

    def _find_call(
        self, delta: Mapping[str, Json], *, name: str, piece: str, reply_id: str
    ) -> StreamedCall:
        # A delta without an index continues the last call or begins another.
        index = delta.get("index")
        at = index if isinstance(index, int) else 0
        call = self._current.get(at)
        if call is None or not call.continues_with(_read_word(delta, "id"), name, piece=piece):
            call = StreamedCall(minted_id=_mint_id(reply_id, len(self._calls)))
            self._calls.append(call)
            self._current[at] = call
        return call

    def list_incomplete(self) -> tuple[str, ...]:
        """Return the names of the calls that are not complete."""
        return tuple(replace_unpaired(call.name) for call in self._calls if not call.is_complete)

    def calls(self, *, protocol: str, model: str, is_cut: bool) -> Sequence[ToolCall]:
        """Return all calls; only the complete ones if the reply was cut off."""
        taken: set[str] = set()
        made = []
        for call in self._calls:
            if (is_cut and not call.is_complete) or not (call.name or call.arguments):
                continue
            call_id = _find_free_id(replace_unpaired(call.id) or call.minted_id, taken)
            data = _build_echo_fields(call)
            made.append(
                ToolCall(
                    id=call_id,
                    name=replace_unpaired(call.name),
                    input=parse_arguments(call.arguments),
                    echo=Echo(protocol=protocol, model=model, data=data) if data else None,
                )
            )
        return made


def _read_piece(arguments: Json) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else dump_compact(arguments)


def _build_echo_fields(call: StreamedCall) -> dict[str, Json]:
    """Return what encoding the call again from its parsed arguments would lose."""
    data: dict[str, Json] = {}
    parsed, written = parse_arguments(call.arguments), restore_arguments(call.arguments)
    if isinstance(parsed, dict) and dump_compact(parsed) != written:
        data[ARGUMENTS] = replace_unpaired(written)
    if call.extra is not None:
        data[EXTRA] = make_sendable(call.extra)
    return data


def _mint_id(reply_id: str, position: int) -> str:
    """Return the same id for the same reply, and a different one for another reply."""
    digest = sha256(f"{reply_id}/{position}".encode("utf-8", "replace")).hexdigest()
    return f"call_{digest[:_MINTED_CHARS]}"


def _find_free_id(wanted: str, taken: set[str]) -> str:
    free, times = wanted, 1
    while free in taken:
        times += 1
        free = encode_id(wanted, suffix=f"_{times}")
    taken.add(free)
    return free


def _read_word(data: Mapping[str, Json], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


# Reasoning: what compatible servers send, and what they want back


_FIELDS = ("reasoning_content", "reasoning")
"""The fields for reasoning. Some servers send the same text in both, so only one counts."""

_DETAILS = "reasoning_details"

_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types of details that come in pieces, each with the field that has the piece."""


class ReasoningAssembly:
    def __init__(self) -> None:
        self._field = ""
        self._pieces: list[str] = []
        self._details: list[dict[str, Json]] = []

    def feed(self, delta: Mapping[str, Json]) -> str:
        """Add the reasoning of a delta; return what can be shown of it."""
        given = delta.get(_DETAILS)
        details = given if isinstance(given, list) else []
        for detail in details:
            if isinstance(detail, dict):
                self._add(detail)
        for name in _FIELDS:
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._field = self._field or name
                return self.say(text)
        return self.say("".join(map(_read_growing_text, details)))

    def say(self, text: str) -> str:
        self._pieces.append(text)
        return replace_unpaired(text)

    def build_block(self, *, protocol: str, model: str) -> Thinking | None:
        text = replace_unpaired("".join(self._pieces))
        data: Json = None
        if self._details:
            data = {_DETAILS: make_sendable([*self._details])}
        elif self._field:
            data = {self._field: text}
        if not text and data is None:
            return None
        echo = None if data is None else Echo(protocol=protocol, model=model, data=data)
        return Thinking(text=text, echo=echo)

    def _add(self, detail: Mapping[str, Json]) -> None:
        """Add a detail: as the next piece of the last one, or as a new one."""
        last = self._details[-1] if self._details else {}
        key = _GROWING.get(str(detail.get("type")))
        is_piece = all(last.get(name) == detail.get(name) for name in ("type", "index"))
        if key is None or not is_piece:
            self._details.append(dict(detail))
            return
        text = f"{last.get(key) or ''}{detail.get(key) or ''}"
        last |= {name: value for name, value in detail.items() if value is not None}
        last[key] = text


def _read_growing_text(detail: Json) -> str:
    if not isinstance(detail, dict):
        return ""
    text = detail.get(_GROWING.get(str(detail.get("type")), ""))
    return text if isinstance(text, str) else ""


_OPENING, _CLOSING = "<think>", "</think>"
_PARTS_OF_CLOSING = [_CLOSING[:length] for length in range(len(_CLOSING) - 1, 0, -1)]


class InlineThought:
    """The thought at the start of a text, between tags.

    A server sends it there if it does not know the tags of its model."""

    def __init__(self) -> None:
        self.is_over = False
        """True if everything that comes now is text."""
        self._thoughts: list[str] = []
        self._came: list[str] = []
        """All that came before the text."""
        self._take = self._take_opening
        self._held = ""
        """The end of what came, as long as it may be the start of a tag."""

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what the piece adds to the thought and to the text."""
        if self.is_over:
            return "", piece
        thought, text = self._take(piece)
        self._thoughts.append(thought)
        self._came.append(piece.removesuffix(text))
        self.is_over = bool(text)
        return thought, text

    @property
    def held_text(self) -> str:
        """Return the text that was held back: blanks alone, or the start of a tag."""
        return self._held if self._take == self._take_opening and not self.is_over else ""

    def build_block(self, text: str, *, protocol: str, model: str) -> Thinking | None:
        """Return the thought; None if there is none. It goes back as it came, before the text."""
        held = self._held if self._take == self._take_thought else ""
        thought = replace_unpaired("".join((*self._thoughts, held))).strip()
        if not thought:
            return None
        data: Json = {"content": replace_unpaired("".join((*self._came, text)))}
        return Thinking(text=thought, echo=Echo(protocol=protocol, model=model, data=data))

    def _take_opening(self, piece: str) -> tuple[str, str]:
        self._held += piece
        opening = self._held.lstrip()
        if _OPENING.startswith(opening):
            return "", ""
        if not opening.startswith(_OPENING):
            return "", self._held
        self._held, self._take = "", self._take_thought
        return self._take_thought(opening.removeprefix(_OPENING))

    def _take_thought(self, piece: str) -> tuple[str, str]:
        thought, closing, rest = (self._held + piece).partition(_CLOSING)
        if closing:
            self._held, self._take = "", self._take_gap
            return thought, self._take_gap(rest)[1]
        self._held = next((part for part in _PARTS_OF_CLOSING if thought.endswith(part)), "")
        return thought.removesuffix(self._held), ""

    def _take_gap(self, piece: str) -> tuple[str, str]:
        return "", piece.lstrip()


PROTOCOL = "openai-chat"

_KEYS_OF_TEXT = frozenset({"content", "role"})

_DONE = frozenset(
    {
        "",
        *("stop", "stop_sequence", "end", "end_turn", "eos", "eos_token"),
        *("complete", "completed", "done", "finished"),
        *("tool_calls", "tool_call", "tool_use", "function_call"),
    }
)
"""The finish reasons of a reply that is complete. Servers have many words for it."""
_CUT_OFF = frozenset({"length", "max_tokens", "model_length"})
_REFUSED = frozenset({"content_filter", "refusal", "safety"})
_FAILED = frozenset({"error", "abort", "insufficient_system_resource"})


class ChatDecoder:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._reply_id = ""
        self._thoughts = ReasoningAssembly()
        self._inline = InlineThought()
        self._pieces: list[str] = []
        self._refusal: list[str] = []
        self._calls = CallAssembly()
        self._usage = Usage()
        self._finish = ""
        self._has_begun = False
        self._is_over = False
        self._is_silent = False
        """True if the last chunk had no content and an empty finish reason."""

    def feed(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        if event.get("error") or event.get("object") == "error":
            raise make_stream_error(event.get("error") or dict(event))
        if event.get("type") == DONE:
            self._is_over = True
        self._reply_id = self._reply_id or f"{event.get('id') or ''}{event.get('created') or ''}"
        choices = _list_dicts(event.get("choices"))
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage = _read_usage(usage)
            self._is_over = self._is_over or (self._has_begun and not choices)
        ours = [choice for choice in choices if choice.get("index") in (0, None)]
        return [delta for choice in ours for delta in self._take_choice(choice)]

    def message(self) -> AssistantMessage:
        is_over = self._is_over or (self._is_silent and self._calls.is_whole)
        if not self._finish and not (self._has_begun and is_over):
            raise make_cut_error("the stream ended without a finish reason")
        is_partial = self._finish not in _DONE
        refusal = "".join(self._refusal)
        content = self._build_content(is_partial=is_partial)
        return AssistantMessage(
            content=content,
            stop=_read_stop(content, finish=self._finish, refusal=refusal),
            stop_detail=replace_unpaired(refusal or (self._finish if is_partial else "")),
            cut_off=self._calls.list_incomplete() if is_partial else (),
            protocol=PROTOCOL,
            model=self._model.name,
            usage=self._usage,
        )

    def usage(self) -> Usage:
        return self._usage

    def _build_content(self, *, is_partial: bool) -> tuple[Block, ...]:
        name = self._model.name
        thought = self._thoughts.build_block(protocol=PROTOCOL, model=name)
        text = replace_unpaired("".join((*self._pieces, self._inline.held_text)))
        inline = self._inline.build_block(text, protocol=PROTOCOL, model=name)
        calls = self._calls.calls(protocol=PROTOCOL, model=name, is_cut=is_partial)
        blocks: list[Block | None] = [thought, inline, Text(text=text) if text else None, *calls]
        return tuple(block for block in blocks if block is not None)

    def _take_choice(self, choice: Mapping[str, Json]) -> Sequence[Delta]:
        given = choice.get("finish_reason")
        finish = given.lower() if isinstance(given, str) else None
        if choice.get("error") or finish in _FAILED:
            raise make_stream_error(choice.get("error"))
        shown = [*self._take_delta(choice.get("delta")), *self._take_whole(choice.get("message"))]
        self._has_begun = self._has_begun or bool(shown)
        self._is_silent = finish == "" and not shown
        self._finish = finish or self._finish
        return shown

    def _take_whole(self, message: Json) -> Sequence[Delta]:
        """Take a reply that was not streamed, as one delta with all calls in order."""
        if not isinstance(message, dict):
            return ()
        self._is_over = True
        calls = _list_dicts(message.get("tool_calls"))
        numbered: list[Json] = [{**call, "index": index} for index, call in enumerate(calls)]
        return self._take_delta({**message, "tool_calls": numbered})

    def _take_delta(self, delta: Json) -> Sequence[Delta]:
        if not isinstance(delta, dict):
            return ()
        content = delta.get("content")
        # Nearly every delta has text and nothing else.
        if isinstance(content, str) and content and delta.keys() <= _KEYS_OF_TEXT:
            return self._take_text(content)
        refusal = _list_texts(delta.get("refusal"))
        self._refusal += refusal
        texts = [*_list_texts(content), *refusal]
        thoughts = [self._thoughts.feed(delta), *self._take_thoughts(content)]
        calls = [self._calls.feed(call, reply_id=self._reply_id) for call in _list_calls(delta)]
        return [
            *(ThinkingDelta(text=thought) for thought in thoughts if thought),
            *(shown for text in texts for shown in self._take_text(text)),
            *(call for call in calls if call is not None),
        ]

    def _take_text(self, piece: str) -> Sequence[Delta]:
        thought, text = self._inline.feed(piece)
        shown: list[Delta] = [ThinkingDelta(text=replace_unpaired(thought))] if thought else []
        if text:
            self._pieces.append(text)
            shown.append(TextDelta(text=replace_unpaired(text)))
        return shown

    def _take_thoughts(self, content: Json) -> Sequence[str]:
        """Take thinking that some servers send among the parts of the content."""
        parts = [part.get("thinking") for part in _list_dicts(content)]
        return [self._thoughts.say(text) for part in parts for text in _list_texts(part)]


def _list_texts(content: Json) -> Sequence[str]:
    """Return the texts of a string or of parts, without empty ones."""
    if isinstance(content, str):
        return [content] if content else []
    return [text for part in _list_dicts(content) for text in _list_texts(part.get("text"))]


def _list_calls(delta: Mapping[str, Json]) -> Sequence[dict[str, Json]]:
    """Return the calls of a delta. Older servers send at most one, without index and id."""
    calls, older = _list_dicts(delta.get("tool_calls")), delta.get("function_call")
    return [{"function": older}] if isinstance(older, dict) and not calls else calls


def _list_dicts(value: Json) -> Sequence[dict[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _read_stop(content: Sequence[Block], *, finish: str, refusal: str) -> Stop:
    if refusal or finish in _REFUSED:
        return "refusal"
    if finish in _CUT_OFF:
        return "length"
    if finish not in _DONE:
        return "error"
    return "tool_calls" if any(isinstance(block, ToolCall) for block in content) else "end"


def _read_usage(usage: dict[str, Json]) -> Usage:
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = read_count(prompt, "cached_tokens") or read_count(usage, "prompt_cache_hit_tokens")
    written = read_count(prompt, "cache_write_tokens")
    return Usage(
        input_tokens=max(0, read_count(usage, "prompt_tokens") - cached - written),
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=read_count(usage, "completion_tokens"),
        reasoning_tokens=read_count(completion, "reasoning_tokens"),
    )
