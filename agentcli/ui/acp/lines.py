"""The messages on two pipes, one on each line, as a transport of the SDK.

Only what is a message goes on to the SDK, which ends at anything else. What is none is answered
here, as JSON-RPC has it, and the next line is read.
"""

import asyncio
import json
from typing import Any, NoReturn

from acp import RequestError

Message = dict[str, Any]


class InvalidMessage(Exception):
    def __init__(self, error: RequestError, *, request_id: str | int | None = None) -> None:
        super().__init__(str(error))
        self.answer: Message = {"jsonrpc": "2.0", "id": request_id, "error": error.to_error_obj()}


class LineTransport:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Message | None:
        """None: the other end has closed."""
        while True:
            try:
                line = await self._read_line()
                if not line:
                    return None
                if line.strip() and (message := parse_message(line)):
                    return message
            except InvalidMessage as error:
                await self.send(error.answer)

    async def send(self, message: Message) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        # Everybody who waits for room waits for one future, which nobody's cancellation may end.
        await asyncio.shield(self._writer.drain())

    async def close(self) -> None:
        """There is nothing to end: the pipes are the program's own."""

    async def _read_line(self) -> bytes:
        """Empty: there are no more. NoMessage where it is longer than the reader holds."""
        dropped_bytes = 0
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                line = error.partial
            except asyncio.LimitOverrunError as error:
                dropped_bytes += len(await self._reader.readexactly(error.consumed))
                continue
            if not dropped_bytes:
                return line
            size_bytes = dropped_bytes + len(line)
            raise InvalidMessage(
                _build_invalid_request(f"a line of {size_bytes} bytes is longer than can be read")
            )


def parse_message(line: bytes) -> Message | None:
    """None: an answer that fits no request. NoMessage where it is none at all."""
    try:
        message = json.loads(line.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(RequestError.parse_error({"details": str(error)})) from None
    if not isinstance(message, dict):
        raise InvalidMessage(
            _build_invalid_request("a message is one object; there are no batches")
        )
    if "method" in message:
        return _check_request(message)
    if "id" in message:
        return _check_response(message)
    raise InvalidMessage(_build_invalid_request("a message has a method or an id"))


def _check_request(message: Message) -> Message:
    identity = message.get("id")
    if not isinstance(identity, str | int | None):
        raise InvalidMessage(_build_invalid_request("an id is a string or an integer"))
    if not isinstance(message["method"], str):
        raise InvalidMessage(_build_invalid_request("a method is a string"), request_id=identity)
    if not isinstance(message.get("params"), dict | list | None):
        raise InvalidMessage(_build_invalid_request("params are an object"), request_id=identity)
    return message


def _check_response(message: Message) -> Message | None:
    """Whoever waits for it is told that it failed, where it says so in a shape of its own."""
    if not isinstance(message["id"], str | int):
        return None
    if not isinstance(message.get("error"), dict | None):
        return {**message, "error": RequestError.internal_error(message["error"]).to_error_obj()}
    return message


def _build_invalid_request(details: str) -> RequestError:
    return RequestError.invalid_request({"details": details})


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")
