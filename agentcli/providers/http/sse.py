"""Parsing server-sent events from bytes, however the bytes are cut.

A line ends with \\n, \\r\\n or \\r and with nothing else. It is decoded only when it is whole, so
neither a cut inside a character nor an exotic line separator inside a text can break an event.
"""

import json
from typing import TypeAlias

from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json

LIMIT_BYTES = 16 * 1024 * 1024
"""The largest event. No provider sends a larger one."""

DONE = "[DONE]"

Event: TypeAlias = dict[str, Json]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_ENDS = (b"\n", b"\r")

_value_at_start = json.JSONDecoder().raw_decode
"""The core of `json.loads` without its overhead, which counts because events are short."""


class EventStream:
    """The parser of one stream. `feed` takes the bytes read and returns the complete events."""

    def __init__(self) -> None:
        self.fault: ProviderError | None = None
        """Set if an event is broken after others of the same chunk. Those are still returned."""
        self.done = False
        """True if the server has sent `DONE`. That is returned as an event of this type, too."""
        self._pieces: list[bytes] = []
        """The start of a line, in pieces as they came. They are joined once, at its end."""
        self._pieces_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._bare: list[bytes] = []
        """The lines of a JSON document in the place of an event, as some servers send an error.

        Others send it in a field of its own, `error:`, as llama.cpp did until late in 2025."""
        self._is_first_line = True
        self._after_return = False
        """True if the last chunk ended in \\r: a \\n at the start of the next belongs to it."""

    def feed(self, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        try:
            self._feed(chunk, events)
        except ProviderError as fault:
            if not events:
                raise
            self.fault = fault
        return events

    def _feed(self, chunk: bytes, events: list[Event]) -> None:
        for line in self._take_lines(chunk):
            if line.startswith(b"data:"):
                self._add(line[5:].removeprefix(b" "))
            elif line == b"data":
                self._add(b"")
            elif line.startswith(b"error:"):
                self._add_bare(b'{"error":' + line[6:] + b"}")
            elif line:
                self._add_bare(line)
            else:
                events += self._end_event()
        self._check_size()

    def end(self) -> list[Event]:
        """Return a last event that only lacks its empty line. A partial event is dropped."""
        try:
            return self.feed(b"\n\n")
        except ProviderError:
            return []

    def _take_lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their line ends."""
        if not chunk:
            return []
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        lines = chunk.splitlines()  # bytes are split at \n, \r\n and \r only
        rest = b"" if not lines or chunk.endswith(_LINE_ENDS) else lines.pop()
        if lines and self._pieces:
            self._keep(lines[0])
            lines[0] = self._join_pieces()
        if lines and self._is_first_line:
            self._is_first_line = False
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._pieces_bytes += len(piece)

    def _join_pieces(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._pieces_bytes = 0
        return line

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._data_bytes += len(value)

    def _add_bare(self, line: bytes) -> None:
        if self._bare or line.startswith((b"{", b"[")):
            self._bare.append(line)
            self._data_bytes += len(line)

    def _end_event(self) -> list[Event]:
        event = self._dispatch() if self._data else None
        fault = self._take_bare() if self._bare else None
        return [made for made in (event, fault) if made is not None]

    def _take_bare(self) -> Event | None:
        """Return the error that came without a field name, or None."""
        text = b"\n".join(self._bare)
        self._bare.clear()
        self._data_bytes = 0
        try:
            document: Json = json.loads(text)
        except (ValueError, RecursionError):
            return None
        found = next(iter(document), None) if isinstance(document, list) else document
        return found if isinstance(found, dict) and found.get("error") else None

    def _dispatch(self) -> Event | None:
        data = b"\n".join(self._data).decode("utf-8", "replace").strip()
        self._data.clear()
        self._data_bytes = 0
        if data == DONE:
            self.done = True
            return {"type": DONE}
        return _decode_event(data) if data else None

    def _check_size(self) -> None:
        if self._pieces_bytes + self._data_bytes > LIMIT_BYTES:
            raise ProviderError(
                f"The reply holds one event of more than {LIMIT_BYTES >> 20} MB.",
                kind=ProviderErrorKind.REJECTED,
            )


def _decode_event(data: str) -> Event:
    event: Json
    try:
        event, end = _value_at_start(data)
    except (ValueError, RecursionError):
        event, end = None, 0
    if end < len(data) or not isinstance(event, dict):
        raise ProviderError(
            f"The reply holds an event that is not a JSON object: {data[:80]!r}",
            kind=ProviderErrorKind.CUT,
        )
    return event
