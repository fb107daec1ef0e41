"""Removal of secrets from text: known values, also in exact encodings, well-known shapes, and
values that are secret by the name beside them. Each is replaced by its token.

A stream is held back only where it may be in the middle of a secret. Its output is the same as for
the whole text, wherever it is cut.

A value has the same token in every process of the user. A token is a short digest under the user's
own key, so a log with tokens reveals nothing about the values, however short they are. The key is
made when the first value is hidden.
"""

import base64
import hashlib
import json
import os
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from agentcli.permissions.secret_shapes import (
    CONTEXT_CHARS,
    Span,
    find_open_secret,
    find_spans,
    is_ordinary,
)
from agentcli.system.environment import is_secret_name
from agentcli.types.hidden import make_token

_KEY_BYTES = 32
_DIGEST_BYTES = (4, 16)


class Tokens:
    def __init__(self, key: Callable[[], bytes]) -> None:
        self._load_key = key
        self._key = b""
        self._tokens: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def hide(self, value: str) -> str:
        """Return the token of a value. `reveal` finds the value by it from now on."""
        token = self._tokens.get(value)
        if token is None:
            self._key = self._key or self._load_key()
            token = self._tokens[value] = self._make(value)
        return token

    def _make(self, value: str) -> str:
        """Return a new token. It is longer if another value already has the short one."""
        raw = value.encode("utf-8", "surrogatepass")
        for size in _DIGEST_BYTES:
            digest = hashlib.blake2b(raw, key=self._key, digest_size=size).hexdigest()
            if self._values.setdefault(token := make_token(digest), value) == value:
                break
        return token

    def reveal(self, token: str) -> str | None:
        """Return the value of a token, if this process has hidden it."""
        return self._values.get(token)


class ByteTokens:
    """The same tokens for text in which every character stands for a byte."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def hide(self, value: str) -> str:
        text = value.encode("latin-1").decode("utf-8", "surrogateescape")
        return self._tokens.hide(text).encode().decode("latin-1")


def load_key(path: Path) -> bytes:
    """Return the user's key, made at the first call; a key for this process if none can be stored.

    If several processes make it at the same time, one wins, and all use its key."""
    with suppress(OSError):
        return _read_key(path) or _make_key(path)
    return secrets.token_bytes(_KEY_BYTES)


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return b""
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is not a key")
    return key


def _make_key(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
    finally:
        fresh.unlink()
    return _read_key(path)


# A text without its control characters and sequences, and the original position of each part.


_CONTROL = r"\x00-\x08\x0b-\x1f\x7f"
_SEQUENCE = (
    r"\[[0-?]*+[ -/]*+[@-~]?"
    rf"|[\]PX^_][^{_CONTROL}\n]*+(?:\x07|\x1b\\)"
    r"|[ -/]*+[0-~]?"
)
# It begins with a set of characters, which is searched faster than the beginnings of alternatives.
_NOISE = rf"[{_CONTROL}](?:(?<!\x1b)[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]*+|{_SEQUENCE})"
_ORDINARY = bytes(set(range(256)) - {*range(0x20), 0x7F} | {*b"\t\n"})
_BEGUN = rf"\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_][^{_CONTROL}\n]*+\x1b?|[ -/]*+)\Z"


class StrippedText(NamedTuple):
    text: str
    starts: list[int]
    """Positions in `text` where each uninterrupted part begins."""
    origins: list[int]
    """Positions of these parts in the original."""

    def locate_origin(self, position: int) -> int:
        """Return the original position of the character at this position."""
        part = bisect_right(self.starts, position) - 1
        return self.origins[part] + position - self.starts[part]

    def locate_span(self, begin: int, end: int) -> tuple[int, int]:
        return self.locate_origin(begin), self.locate_origin(end - 1) + 1

    def locate_position(self, origin: int) -> int:
        """Return the position of the first character that was at `origin` or later."""
        part = bisect_right(self.origins, origin) - 1
        if part < 0:
            return 0
        following = self.starts[part + 1 : part + 2] or [len(self.text)]
        return min(self.starts[part] + origin - self.origins[part], following[0])

    def step_back(self, origin: int, count: int) -> int:
        """Return where the last `count` shown characters before `origin` begin in the original.

        The hidden characters before the first of them are included."""
        first = self.locate_position(origin) - count
        return self.locate_origin(first - 1) + 1 if first > 0 else 0


def strip_controls(text: str) -> StrippedText | None:
    """Return what is shown of the text; None if it has no control characters."""
    if not text.encode("latin-1", "replace").translate(None, _ORDINARY):
        return None  # a byte for each character: ten times as fast as a pattern
    parts = re.split(f"({_NOISE})", text)
    """What is shown and what is not, by turns."""
    sizes = [*map(len, parts)]
    origins = [0, *accumulate(sizes)][:-1:2]
    starts = [0, *accumulate(sizes[:-1:2])]
    return StrippedText("".join(parts[::2]), starts, origins)


def find_open_sequence(text: str) -> int:
    """Return where an incomplete control sequence begins; the text's length if there is none."""
    last = text.rfind("\x1b")
    for at in (text.rfind("\x1b", 0, max(last, 0)), last):
        if at >= 0 and re.compile(_BEGUN).match(text, at):
            return at
    return len(text)


CUT = "…"
"""The sign that tools put where they shortened a line."""
SHORTEST_SECRET = 8
LONGEST_HELD_BACK = 64 * 1024
"""A number of characters. No key is longer; a longer run that looks like one is let through."""

_SHORTEST_STEM = 12
_LINE = r"[^\r\n]+"
_BASE64_LINE = 76
_LONGEST_CONTEXT = 1024
_PASSWORD_IN_ADDRESS = r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@"


class Redactor:
    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        values: Iterable[str] = (),
        names: Iterable[str] = (),
        key: Callable[[], bytes] = lambda: secrets.token_bytes(32),
    ) -> None:
        """`values` are secret whatever their names are. From `environ` come the values whose names
        say so or match the globs in `names`, and passwords in addresses. `key` returns the key of
        the tokens."""
        self._tokens: Tokens | ByteTokens
        self._tokens = self._own_tokens = Tokens(key)
        known = {*values, *_find_secrets(environ, tuple(names))}
        long = (secret for secret in known if len(secret) >= SHORTEST_SECRET)
        self._look_for({form for secret in long for form in _list_disguises(secret)})

    def learn(self, secret: str) -> None:
        """Mask this secret, too, from now on."""
        if len(secret) >= SHORTEST_SECRET and secret not in self._forms:
            self._look_for({*self._forms, *_list_disguises(secret)})

    def _look_for(self, forms: set[str]) -> None:
        self._forms = sorted(forms, key=len, reverse=True)
        self._beginnings = {
            form[:size] for form in self._forms for size in range(1, SHORTEST_SECRET)
        }

    def mask(self, text: str) -> str:
        if len(text) < SHORTEST_SECRET:
            return text
        return self.mask_span(text, start=0, stop=len(text), shown=strip_controls(text))[0]

    def mask_known(self, text: str) -> str:
        """Mask the known values only, not what merely looks like a secret."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, self._hide(form))
        return text

    def find_hidden(self, text: str) -> Mapping[str, str]:
        """Return the values that are hidden wherever the text is shown, by their tokens."""
        found = self._find_spans(text, 0, shown=strip_controls(text))
        lines = (line for a, b in found for line in re.findall(_LINE, text[a:b]))
        return {self._tokens.hide(line): line for line in lines}

    def reveal(self, token: str) -> str | None:
        """Return the value of a token that this process has shown, or of a known secret."""
        for form in self._forms:
            self._own_tokens.hide(form)  # a token is known once its value was hidden
        return self._own_tokens.reveal(token)

    def open_stream(self) -> "RedactedStream":
        return RedactedStream(self)

    def open_bytes_stream(self) -> "RedactedBytes":
        return RedactedBytes(self._build_byte_twin().open_stream())

    def mask_span(
        self, text: str, *, start: int, stop: int, shown: StrippedText | None
    ) -> tuple[str, int]:
        """Mask the text from `start` up to `stop`, or up to a secret that extends beyond it.

        Return the masked text and where it ends.
        """
        pieces: list[str] = []
        position = start
        for begin, end in self._find_spans(text, start, shown=shown):
            if end > stop:
                stop = min(stop, begin)
                break
            pieces += [text[position:begin], self._hide(text[begin:end])]
            position = end
        if not pieces and start == 0 and stop == len(text):
            return text, stop
        return "".join([*pieces, text[position:stop]]), stop

    def _hide(self, value: str) -> str:
        """Hide line by line, so that the result is the same for tools that show single lines."""
        return re.sub(_LINE, lambda line: self._tokens.hide(line[0]), value)

    def open_from(self, text: str) -> int:
        """Return where an incomplete secret may begin; the text's length if there is none."""
        return min(self._open_value(text), find_open_secret(text))

    def _build_byte_twin(self) -> "Redactor":
        """Return the same redactor for text in which every character stands for a byte."""
        twin = Redactor(environ={})
        twin._tokens = ByteTokens(self._own_tokens)
        encoded = (form.encode("utf-8", "surrogatepass") for form in self._forms)
        twin._look_for({form.decode("latin-1") for form in encoded})
        return twin

    def _find_spans(self, text: str, start: int, *, shown: StrippedText | None) -> list[Span]:
        found = [*self._iter_places(text, start)]
        if CUT in text:
            found += self._iter_cut_values(text, start)
        if shown:
            first = shown.locate_position(start)
            found += (shown.locate_span(*span) for span in self._iter_places(shown.text, first))
        return _merge_spans(found) if found else found

    def _iter_places(self, text: str, start: int) -> Iterator[Span]:
        yield from self._iter_values(text, start)
        yield from find_spans(text, start)

    def _iter_values(self, text: str, start: int) -> Iterator[Span]:
        for form in self._forms:
            for at in _find_positions(form, text, start=start):
                yield at, at + len(form)

    def _iter_cut_values(self, text: str, start: int) -> Iterator[Span]:
        """Yield what is left of a secret beside `CUT`, where a tool has shortened a line.

        Otherwise two calls could reveal both halves."""
        for form in self._forms:
            for at in _find_positions(form[:SHORTEST_SECRET], text, start=start):
                end = at + _count_shared_chars(form, text[at : at + len(form)])
                if text.startswith(CUT, end):
                    yield at, end
            for at in _find_positions(form[-SHORTEST_SECRET:], text, start=start):
                end = at + SHORTEST_SECRET
                before = text[max(0, end - len(form)) : end]
                begin = end - _count_shared_chars(form[::-1], before[::-1])
                if text.endswith(CUT, 0, begin):
                    yield begin, end

    def _open_value(self, text: str) -> int:
        """Return where an incomplete known value may begin.

        No form is shorter than SHORTEST_SECRET: more of one is found by that many characters.
        """
        shortest = range(1, min(SHORTEST_SECRET, len(text) + 1))
        begun = [len(text) - size for size in shortest if text[-size:] in self._beginnings]
        for form in self._forms:
            beginning = form[:SHORTEST_SECRET]
            at = text.find(beginning, max(0, len(text) - len(form) + 1))
            while at >= 0 and not form.startswith(text[at:]):
                at = text.find(beginning, at + 1)
            if at >= 0:
                begun.append(at)
        return min(begun, default=len(text))


class RedactedStream:
    """Text that arrives in pieces. `close` returns what `feed` held back."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._given = 0
        """The length of the part of `_held` that is out already and kept only as context."""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        shown = strip_controls(text)
        stop = self._redactor.open_from(text)
        if shown:
            stop = min(stop, self._open_when_shown(shown, find_open_sequence(text)))
        if len(text) - stop > LONGEST_HELD_BACK:
            stop = len(text)
        return self._give(text, stop, shown=shown)

    def _open_when_shown(self, shown: StrippedText, stop: int) -> int:
        """Return where an incomplete secret may begin in what is shown up to `stop`."""
        text = shown.text[: shown.locate_position(stop)]
        begun = self._redactor.open_from(text)
        return shown.locate_origin(begun) if begun < len(text) else stop

    def close(self) -> str:
        rest = self._give(self._held, len(self._held), shown=strip_controls(self._held))
        self._held, self._given = "", 0
        return rest

    def _give(self, text: str, stop: int, *, shown: StrippedText | None) -> str:
        given, end = self._redactor.mask_span(
            text, start=self._given, stop=max(stop, self._given), shown=shown
        )
        before = shown.step_back(end, CONTEXT_CHARS) if shown else end - CONTEXT_CHARS
        before = max(before, end - _LONGEST_CONTEXT, 0)
        self._given, self._held = end - before, text[before:]
        return given


class RedactedBytes:
    """The same for bytes, whatever their encoding."""

    def __init__(self, stream: RedactedStream) -> None:
        self._stream = stream

    def feed(self, chunk: bytes) -> bytes:
        return self._stream.feed(chunk.decode("latin-1")).encode("latin-1")

    def close(self) -> bytes:
        return self._stream.close().encode("latin-1")


def _count_shared_chars(one: str, other: str) -> int:
    """Return the length of the longest beginning that both texts share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _find_positions(form: str, text: str, *, start: int) -> Iterator[int]:
    # Looking for one character first costs nothing, and many texts lack it.
    at = text.find(form, start) if form[0] in text else -1
    while at >= 0:
        yield at
        at = text.find(form, at + 1)


def _find_secrets(environ: Mapping[str, str], names: tuple[str, ...]) -> Iterator[str]:
    for name, value in environ.items():
        is_named = any(fnmatchcase(name, wanted) for wanted in names)
        if is_named or (is_secret_name(name) and not is_ordinary(value) and not _is_path(value)):
            yield value
        if "://" in value:
            found = re.findall(_PASSWORD_IN_ADDRESS, value)
            yield from (password for password in found if not is_ordinary(password))


def _merge_spans(spans: list[Span]) -> list[Span]:
    """Return the spans sorted, with overlapping ones merged."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _is_path(value: str) -> bool:
    """Return whether it is an existing path. The path of a key file is no secret and is needed."""
    try:
        return value.startswith("/") and Path(value).exists()
    except (OSError, ValueError):
        return False


def _list_disguises(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield from (line for line in secret.splitlines() if len(line) >= _SHORTEST_STEM)
    yield from _list_percent_encodings(raw)
    yield from _list_json_escapes(secret)
    yield from _list_html_escapes(secret)
    yield from (raw.hex(), raw.hex().upper())
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode().rstrip("=")
        yield whole
        stems = [whole[at : at + _BASE64_LINE] for at in range(0, len(whole), _BASE64_LINE)]
        for offset, first in ((0, 0), (1, 2), (2, 3)):
            # In a longer text that contains the secret, these characters are always the same.
            encoded = encode(bytes(offset) + raw).decode()
            stems.append(encoded[first : (offset + len(raw)) // 3 * 4])
        yield from (stem for stem in stems if len(stem) >= _SHORTEST_STEM)


def _list_percent_encodings(raw: bytes) -> Iterator[str]:
    everything = "".join(f"%{byte:02X}" for byte in raw)
    for text in (quote(raw, safe=""), quote(raw), quote_plus(raw), everything):
        yield text
        yield _change_digits(text, "%", size=2, change=str.lower)


def _list_json_escapes(secret: str) -> Iterator[str]:
    """Yield the secret as encoders of several languages write it in a string."""
    for text in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        for slashed in (text, text.replace("/", "\\/")):  # as PHP does
            for signs in ("", "&<>", "&'+<>"):  # as Go and Rails do, and .NET
                escaped = slashed.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in signs})
                yield escaped
                yield _change_digits(escaped, "\\u", size=4, change=str.upper)


def _change_digits(text: str, mark: str, *, size: int, change: Callable[[str], str]) -> str:
    """Return the text with small or capital letters in the digits after each mark."""
    first, *rest = text.split(mark)
    return mark.join([first, *(change(part[:size]) + part[size:] for part in rest)])


_HTML_SIGNS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def _list_html_escapes(secret: str) -> Iterator[str]:
    for apostrophe in ("'", "&#x27;", "&#39;"):
        signs = _HTML_SIGNS | {"'": apostrophe}
        yield "".join(signs.get(letter, letter) for letter in secret)
