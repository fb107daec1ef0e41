"""Masking of secrets in every event, for the log, the screen and later requests.

All text of every kind of event is masked, except ids and images. A provider's own data must stay
the same to the byte, so only known secrets are removed from it: what merely looks like one may be
part of a signature. If a block's own text was masked, the block loses that data, because it would
vouch for a different text.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

from agentcli.permissions.secrets import RedactedStream, Redactor
from agentcli.types.deltas import CallDelta, CallProgress, CommandEnded, TextDelta, ThinkingDelta
from agentcli.types.events import Event
from agentcli.types.hidden import find_shortened_tokens, find_tokens, replace_tokens
from agentcli.types.messages import Document, Echo, Image, Json, Opaque
from agentcli.types.verdicts import Question, Verdict

_NO_TEXT = frozenset(("type", "id", "call_id", "role", "protocol", "session"))

_WITHOUT_TEXT = frozenset((bool, int, float, type(None)))
"""Types without text. Most values have one of these or are plain text, so this check is fast."""

Piece = TextDelta | ThinkingDelta | CallDelta


class EventMasking:
    """The masking of one session. It keeps track of the part of a reply that has arrived."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._stream: RedactedStream | None = None
        self._latest: Piece | None = None
        """The latest piece of the text that is arriving."""

    def __call__(self, event: Event) -> Iterator[Event]:
        """Yield the event, masked. If it ends a text, yield the held-back rest of that first."""
        match event:
            case TextDelta() | ThinkingDelta() | CallDelta():
                yield from self._mask_piece(event)
            case CallProgress() | CommandEnded():  # in the middle of a text
                yield self.mask_value(event)
            case _:
                yield from self._flush()
                yield self.mask_value(event)

    def mask_value(self, value: Any) -> Any:
        """Return the value, masked; the same object if nothing had to be masked."""
        if (kind := type(value)) in _WITHOUT_TEXT:
            return value
        if kind is str:
            return self._redactor.mask(value)
        match value:
            case Enum() | Image():
                return value
            case str():
                return self._redactor.mask(value)
            case Echo(data=data):
                known = self._mask_known(data)
                return value if known == data else replace(value, data=known)
            case tuple() | list():
                items = [self.mask_value(item) for item in value]
                is_same = all(new is old for new, old in zip(items, value, strict=True))
                return value if is_same else type(value)(items)
            case dict():
                return {self.mask_value(key): self.mask_value(item) for key, item in value.items()}
        return self._mask_record(value) if is_dataclass(value) else value

    def _mask_record(self, record: Any) -> Any:
        kind: type = type(record)
        changed = {
            name: new
            for name in _list_text_fields(kind)
            if (new := self.mask_value(old := getattr(record, name))) is not old and new != old
        }
        if not changed:
            return record
        if kind is Document and "text" in changed:
            changed["data"] = ""  # the file shows what is masked in its text
        if "echo" not in changed and getattr(record, "echo", None) and kind is not Opaque:
            changed["echo"] = None
        return replace(record, **changed)

    def _mask_known(self, data: Any) -> Any:
        match data:
            case str():
                return self._redactor.mask_known(data)
            case list():
                return [self._mask_known(item) for item in data]
            case dict():
                return {key: self._mask_known(item) for key, item in data.items()}
        return data

    def _mask_piece(self, piece: Piece) -> Iterator[Event]:
        if _find_stream(piece) != _find_stream(self._latest):
            yield from self._flush()
        self._stream = self._stream or self._redactor.open_stream()
        self._latest = piece
        text = _read_text(piece)
        given = self._stream.feed(text)
        if given or not text:
            yield _with_text(piece, given)

    def _flush(self) -> Iterator[Event]:
        rest = self._stream.close() if self._stream else ""
        latest, self._stream, self._latest = self._latest, None, None
        if rest and latest:
            yield _with_text(latest, rest)


@cache
def _list_text_fields(of: type) -> tuple[str, ...]:
    files = ("data",) if of is Document else ()
    return tuple(field.name for field in fields(of) if field.name not in (*_NO_TEXT, *files))


def _find_stream(piece: Piece | None) -> tuple[type, str]:
    return type(piece), piece.call_id if isinstance(piece, CallDelta) else ""


def _read_text(piece: Piece) -> str:
    return piece.arguments if isinstance(piece, CallDelta) else piece.text


def _with_text(piece: Piece, text: str) -> Piece:
    if isinstance(piece, CallDelta):
        return replace(piece, arguments=text)
    return replace(piece, text=text)


# Arguments that the user edits have tokens: the values are put back before they are used.


def restore_answer(
    answer: Verdict, question: Question, *, shown: Question, redactor: Redactor
) -> Verdict:
    """Return the answer with the hidden values of the call's arguments instead of their tokens.

    `shown` is the question as the user saw it. A token that it does not have stands for nothing
    that can be put back: the answer is refused."""
    edited = tuple(_iter_texts(answer.input))
    tokens = {
        token for text in edited for token in (*find_tokens(text), *find_shortened_tokens(text))
    }
    if answer.decision != "modify" or not tokens:
        return answer
    seen = f"{shown.call.input}{shown.own_input}{shown.preview}"
    if unknown := sorted(token for token in tokens if token not in seen):
        reason = f"the edited text has {unknown[0]}, which stands for no value of this call"
        return replace(answer, decision="deny", reason=reason)
    given = (*_iter_texts(question.call.input), *_iter_texts(question.own_input))
    values = {token: value for text in given for token, value in redactor.find_hidden(text).items()}
    for token in tokens & values.keys():
        redactor.learn(values[token])  # it may be in another place now, which does not give it away
    return replace(answer, input=_replace_tokens(answer.input, values))


def _iter_texts(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from (text for one in value.items() for part in one for text in _iter_texts(part))
        case list():
            yield from (text for one in value for text in _iter_texts(one))


def _replace_tokens(value: Json, values: dict[str, str]) -> Json:
    match value:
        case str():
            return replace_tokens(value, values)
        case dict():
            pairs = value.items()
            return {replace_tokens(key, values): _replace_tokens(one, values) for key, one in pairs}
        case list():
            return [_replace_tokens(one, values) for one in value]
        case _:
            return value
