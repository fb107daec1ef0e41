"""Secrets out of every text: known values, in the disguises that are exact, and well-known shapes.

A stream is held back only where it may be in the middle of a secret, and comes out the same as the
whole text would, wherever it is cut.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, quote_plus

from agentcli.guard import secret_shapes
from agentcli.guard.secret_shapes import Span

MASK = "***"
SHORTEST_SECRET = 8
LONGEST_HELD_BACK = 64 * 1024
"""Characters of a stream. No key is longer; what goes on and on like one is let through."""

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)

_SHORTEST_STEM = 12
_BASE64_LINE = 76


class _Masked(Protocol):
    def __call__(self, text: str, *, start: int, stop: int) -> tuple[str, int]: ...


class Redactor:
    def __init__(self, *, environ: Mapping[str, str], values: Iterable[str] = ()) -> None:
        """`values` are secret whatever they are called; of `environ` what its names say."""
        named = {value for name, value in environ.items() if SECRET_NAME.search(name)}
        secrets = {value for value in named if not _is_place(value)} | set(values)
        self._forms = {
            form
            for secret in secrets
            if len(secret) >= SHORTEST_SECRET
            for form in _disguises(secret)
        }
        self._longest = max(map(len, self._forms), default=0)
        self._by_first_character: dict[str, list[str]] = {}
        for form in self._forms:
            self._by_first_character.setdefault(form[0], []).append(form)

    def text(self, text: str) -> str:
        return self._masked(text, start=0, stop=len(text))[0]

    def stream(self) -> "RedactedStream":
        return RedactedStream(self._masked, self._open_from)

    def _masked(self, text: str, *, start: int, stop: int) -> tuple[str, int]:
        """The text from `start`, masked, up to `stop` or to a secret that goes on there."""
        pieces: list[str] = []
        position = start
        for begin, end in _merged([*self._values(text, start), *secret_shapes.spans(text, start)]):
            if end > stop:
                stop = min(stop, begin)
                break
            pieces += [text[position:begin], MASK]
            position = end
        return "".join([*pieces, text[position:stop]]), stop

    def _values(self, text: str, start: int) -> Iterator[Span]:
        for form in self._forms:
            at = text.find(form, start)
            while at >= 0:
                yield at, at + len(form)
                at = text.find(form, at + 1)

    def _open_from(self, text: str) -> int:
        """From where on the text may be a secret that is not complete yet."""
        for position in range(max(0, len(text) - self._longest + 1), len(text)):
            forms = self._by_first_character.get(text[position])
            if forms and any(form.startswith(text[position:]) for form in forms):
                return min(position, secret_shapes.open_from(text))
        return secret_shapes.open_from(text)


class RedactedStream:
    """Text that comes in pieces. What `feed` holds back, `close` gives."""

    def __init__(self, masked: _Masked, open_from: Callable[[str], int]) -> None:
        self._masked = masked
        self._open_from = open_from
        self._held = ""
        self._given = 0
        """How much of `_held` is out already, and only there for what follows it."""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        stop = self._open_from(text)
        if len(text) - stop > LONGEST_HELD_BACK:
            stop = len(text)
        return self._give(text, stop)

    def close(self) -> str:
        return self._give(self._held, len(self._held))

    def _give(self, text: str, stop: int) -> str:
        given, end = self._masked(text, start=self._given, stop=max(stop, self._given))
        self._given = min(end, 1)
        self._held = text[end - self._given :]
        return given


def _merged(spans: list[Span]) -> list[Span]:
    """Sorted, and those that overlap as one."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _is_place(value: str) -> bool:
    """A file that holds a key is no secret, and its name is needed."""
    try:
        return value.startswith("/") and Path(value).exists()
    except (OSError, ValueError):
        return False


def _disguises(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield from (line for line in secret.splitlines() if len(line) >= _SHORTEST_STEM)
    yield from (quote(raw, safe=""), quote(raw), quote_plus(raw))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield raw.hex()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode().rstrip("=")
        yield whole
        stems = [whole[at : at + _BASE64_LINE] for at in range(0, len(whole), _BASE64_LINE)]
        for offset, first in ((0, 0), (1, 2), (2, 3)):
            # Of a longer text that has the secret in it, these characters are always the same.
            encoded = encode(bytes(offset) + raw).decode()
            stems.append(encoded[first : (offset + len(raw)) // 3 * 4])
        yield from (stem for stem in stems if len(stem) >= _SHORTEST_STEM)
