"""The session's end of a program: receives its calls one by one, and answers each.

Only the program's own time counts, not the time of its calls or of the user's decisions. Whatever a
program sends is a call like a model's, or it ends the program.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Dispatch, ErrorKind

CALL_LIMIT_BYTES = 16 * 1024 * 1024
CALLS_MAX = 1000

T = TypeVar("T")


class ProgramTimeout(Exception):
    """The program's time is used up."""


class InvalidProgramCall(Exception):
    """The program sent something that is not a call, so no more answers are possible."""


class ProgramChannel:
    def __init__(self, *, dispatch: Dispatch, call_id: str, own_time_s: float) -> None:
        """`call_id` is the call that runs the program, and the caller of all its calls."""
        self._dispatch = dispatch
        self._call_id = call_id
        self._left_s = own_time_s
        self._calls, self.child_stderr = os.pipe()
        self.child_stdin, self._answers = os.pipe()
        self._transports: list[asyncio.BaseTransport] = []
        self._tools: Mapping[str, Sequence[str]] = {}
        self.made = 0
        self.origins: dict[str, None] = {}
        """The origins of text given to the program that is not from the workspace."""

    def close_child_ends(self) -> None:
        os.close(self.child_stderr)
        os.close(self.child_stdin)

    def abandon(self) -> None:
        """Close everything when no child was started, and nothing was opened."""
        self.close_child_ends()
        os.close(self._calls)
        os.close(self._answers)

    async def serve(self, program: str, tools: Mapping[str, Sequence[str]]) -> None:
        """Serve until cancelled.

        Raise ProgramTimeout or InvalidProgramCall if the program must end."""
        self._tools = tools
        reader, writer = await self._open()
        try:
            order: Json = {"program": program, "tools": {it: list(tools[it]) for it in tools}}
            await self._send(writer, order)
            while line := await self._in_own_time(_line(reader)):
                name, given = _call(line)
                await self._send(writer, await self._answer(name, given))
            await self._in_own_time(asyncio.Event().wait())  # no more calls, but it still runs
        except ConnectionError:
            await self._in_own_time(asyncio.Event().wait())  # it has ended, or closed the pipe
        finally:
            for transport in self._transports:
                transport.close()

    async def _answer(self, name: str, given: Json) -> Json:
        if name not in self._tools:
            known = ", ".join(self._tools)
            return {"error": ErrorKind.UNKNOWN_TOOL, "text": f"No {name} here, but {known}."}
        if self.made == CALLS_MAX:
            limit = f"A program may make {CALLS_MAX} calls. Run another one."
            return {"error": ErrorKind.LIMITED, "text": limit}
        self.made += 1
        call_id = f"{self._call_id}.{self.made}"
        result = await self._dispatch(
            ToolCall(id=call_id, name=name, input=given, caller=self._call_id)
        )
        if result.origin:
            self.origins[result.origin] = None
        return {"error": result.error, "text": result.text}

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=CALL_LIMIT_BYTES)
        incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._calls, "rb")
        )
        outgoing, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            os.fdopen(self._answers, "wb"),
        )
        self._transports = [incoming, outgoing]
        return reader, asyncio.StreamWriter(outgoing, protocol, None, loop)

    async def _send(self, writer: asyncio.StreamWriter, message: Json) -> None:
        writer.write(json.dumps(message).encode() + b"\n")
        await self._in_own_time(writer.drain())

    async def _in_own_time(self, work: Awaitable[T]) -> T:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                return await work
        except TimeoutError:
            raise ProgramTimeout from None
        finally:
            self._left_s -= time.monotonic() - began


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError as error:
        raise InvalidProgramCall(f"a call may have {CALL_LIMIT_BYTES} bytes") from error


def _call(line: bytes) -> tuple[str, Json]:
    try:
        match json.loads(line):
            case {"name": str(name), "input": dict(given)}:
                return name, given
    except (ValueError, RecursionError):
        pass
    raise InvalidProgramCall("something was sent that is no call")
