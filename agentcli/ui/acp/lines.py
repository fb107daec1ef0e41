"""The messages on two pipes, one on each line, as a transport of the SDK.

Only what is a message goes on to the SDK, which ends at anything else. What is none is answered
here, as JSON-RPC has it, and the next line is read.
"""

import asyncio
import json
from typing import Any, NoReturn

from acp import RequestError

Message = dict[str, Any]


class NoMessage(Exception):
    def __init__(self, error: RequestError, *, to: str | int | None = None) -> None:
        super().__init__(str(error))
        self.answer: Message = {"jsonrpc": "2.0", "id": to, "error": error.to_error_obj()}


class Lines:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Message | None:
        """None: the other end has closed."""
        while True:
            try:
                line = await self._line()
                if not line:
                    return None
                if line.strip() and (message := message_on(line)):
                    return message
            except NoMessage as error:
                await self.send(error.answer)

    async def send(self, message: Message) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        # Everybody who waits for room waits for one future, which nobody's cancellation may end.
        await asyncio.shield(self._writer.drain())

    async def close(self) -> None:
        """There is nothing to end: the pipes are the program's own."""

    async def _line(self) -> bytes:
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
            raise NoMessage(_invalid(f"a line of {size_bytes} bytes is longer than can be read"))


def message_on(line: bytes) -> Message | None:
    """None: an answer that fits no request. NoMessage where it is none at all."""
    try:
        message = json.loads(line.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise NoMessage(RequestError.parse_error({"details": str(error)})) from None
    if not isinstance(message, dict):
        raise NoMessage(_invalid("a message is one object; there are no batches"))
    if "method" in message:
        return _call(message)
    if "id" in message:
        return _answer(message)
    raise NoMessage(_invalid("a message has a method or an id"))


def _call(message: Message) -> Message:
    identity = message.get("id")
    if not isinstance(identity, str | int | None):
        raise NoMessage(_invalid("an id is a string or an integer"))
    if not isinstance(message["method"], str):
        raise NoMessage(_invalid("a method is a string"), to=identity)
    if not isinstance(message.get("params"), dict | list | None):
        raise NoMessage(_invalid("params are an object"), to=identity)
    return message


def _answer(message: Message) -> Message | None:
    """Whoever waits for it is told that it failed, where it says so in a shape of its own."""
    if not isinstance(message["id"], str | int):
        return None
    if not isinstance(message.get("error"), dict | None):
        return {**message, "error": RequestError.internal_error(message["error"]).to_error_obj()}
    return message


def _invalid(details: str) -> RequestError:
    return RequestError.invalid_request({"details": details})


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")
