"""Messages over the standard streams of a process that the caller starts, sandboxed or not.

One line is one message. Other output of a server goes to its log and does no more harm. Bytes that
are not UTF-8 are replaced. An endless line closes the connection, not the session.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from subprocess import Popen
from types import TracebackType
from typing import Protocol, TypeAlias

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    jsonrpc_message_adapter,
)

from agentcli.features.mcp.faults import UNUSABLE
from agentcli.system import process
from agentcli.system.process import AFTER_TIMEOUT, Pipe, Sink
from agentcli.system.strict_json import replace_half_characters

# A stream of messages with a filter: each one passes unchanged, changed, or not at all


Incoming: TypeAlias = SessionMessage | Exception


class MessageStream(Protocol):
    """The part of a stream that is used here."""

    async def receive(self) -> Incoming: ...
    async def __anext__(self) -> Incoming: ...
    async def aclose(self) -> None: ...


Look: TypeAlias = Callable[[Incoming], Awaitable[Incoming | None]]
"""Returns None to drop the message."""


class MessageFilter:
    def __init__(self, stream: MessageStream, look: Look) -> None:
        self._stream = stream
        self._look = look

    async def receive(self) -> Incoming:
        while True:
            if (passed := await self._look(await self._stream.receive())) is not None:
                return passed

    def __aiter__(self) -> "MessageFilter":
        return self

    async def __anext__(self) -> Incoming:
        while True:
            if (passed := await self._look(await self._stream.__anext__())) is not None:
                return passed

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> "MessageFilter":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


LINE_LIMIT_BYTES = 64 * 1024 * 1024
STOP_GRACE_S = 2.0
NOISE_BYTES = 500

Streams: TypeAlias = tuple[ObjectReceiveStream[Incoming], ObjectSendStream[SessionMessage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    """The server's ends of its streams."""

    stdin: int
    stdout: int
    stderr: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedServer:
    process: "Popen[bytes]"
    tag: str
    """The tag in the environment of everything that it starts."""
    finish: Callable[[], tuple[str, ...]]
    """Called once after the end, in any thread: cleans up and returns remarks for the user."""
    end_lease: Callable[[], tuple[str, ...]] = tuple
    """Called once after the end, in the loop: cuts its connections and returns more remarks."""


Launch: TypeAlias = Callable[[Handles], Awaitable[StartedServer]]
"""Raises OSError. Takes milliseconds."""


@dataclass(slots=True)
class ServerEnd:
    """The end of a server's process, as far as it is known."""

    has_answered: bool = False
    """True if a message came from it. One that sent none has nothing to finish."""
    is_silent: bool = False
    """True if it has closed its stdout, so that nothing more can come."""
    ran_on: bool = False
    """True if it ran on without its stdout, until it was ended."""
    returncode: int | None = None
    remarks: tuple[str, ...] = ()


@asynccontextmanager
async def open_stdio_transport(
    launch: Launch, *, log: Sink, end: ServerEnd
) -> AsyncIterator[Streams]:
    """Start a server and connect to it. `log` takes its stderr, and is closed in the end."""
    errors = Pipe(log)
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    try:
        handles = Handles(stdin=stdin, stdout=stdout, stderr=errors.writer)
        started = await launch(handles)
    except BaseException:
        os.close(to_server)
        os.close(from_server)
        errors.close()
        raise
    finally:
        os.close(stdin)
        os.close(stdout)
    errors.close_writer()
    try:
        async with _exchange(to_server, from_server, log=log, end=end) as streams:
            yield streams
    finally:
        await process.run_to_completion(_end_process(started, end))
        errors.close()


async def _end_process(started: StartedServer, end: ServerEnd) -> None:
    """End the process. Its closed stdin asks it to exit; if it does not, signals follow."""
    if end.has_answered or end.is_silent:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_GRACE_S):
                end.returncode = await process.wait_for_exit(started.process)
    end.ran_on = end.is_silent and started.process.poll() is None
    await process.end(started.process, tag=started.tag, steps=AFTER_TIMEOUT)
    end.returncode = started.process.poll()
    refused = started.end_lease()
    end.remarks = (*await asyncio.to_thread(started.finish), *refused)


@asynccontextmanager
async def _exchange(
    to_server: int, from_server: int, *, log: Sink, end: ServerEnd
) -> AsyncIterator[Streams]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_LIMIT_BYTES)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb", 0)
    )
    writing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(to_server, "wb", 0)
    )
    writer = asyncio.StreamWriter(writing, protocol, None, loop)
    received, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_receive, reader, received, log, end)
            group.start_soon(_send, to_send, writer, received)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        for stream in (received, incoming, outgoing, to_send):
            stream.close()
        if not writing.is_closing():
            writing.abort()
        reading.close()


async def _receive(
    reader: asyncio.StreamReader,
    received: ObjectSendStream[Incoming],
    log: Sink,
    end: ServerEnd,
) -> None:
    async with received:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while line := await _read_line(reader, log):
                text = line.decode("utf-8", "replace")
                try:
                    message = _parse_message(text)
                except ValueError:
                    log.feed(b"[on stdout, and no message] " + line[:NOISE_BYTES].rstrip() + b"\n")
                    if (failed := _make_error_answer(text)) is None:
                        continue
                    message = failed
                end.has_answered = True
                await received.send(SessionMessage(message))
        end.is_silent = True


def _parse_message(text: str) -> JSONRPCMessage:
    """Return the message. Raise ValueError if it is none."""
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        whole = replace_half_characters(text)
        return jsonrpc_message_adapter.validate_json(whole, by_name=False)


def _make_error_answer(text: str) -> JSONRPCError | None:
    """Return an error for the request that an invalid answer belongs to. None if there is none."""
    try:
        match json.loads(text):
            case {"id": str() | int() as request, "result": _} if not isinstance(request, bool):
                problem = "its result is not an object"
            case {"id": str() | int() as request, "error": _} if not isinstance(request, bool):
                problem = "its error has no code or no message"
            case _:
                return None
    except (ValueError, RecursionError):
        return None
    return JSONRPCError(
        jsonrpc="2.0",
        id=request,
        error=ErrorData(code=PARSE_ERROR, message=problem, data=UNUSABLE),
    )


async def _read_line(reader: asyncio.StreamReader, log: Sink) -> bytes:
    """Return the next line, or an empty one at the end."""
    try:
        return await reader.readline()
    except ValueError:
        log.feed(b"[a line longer than %d bytes: given up]\n" % LINE_LIMIT_BYTES)
        return b""


async def _send(
    to_send: ObjectReceiveStream[SessionMessage],
    writer: asyncio.StreamWriter,
    received: ObjectSendStream[Incoming],
) -> None:
    try:
        async with to_send:
            async for sent in to_send:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode("utf-8", "replace") + b"\n")
                await writer.drain()
    except OSError:
        await received.aclose()  # so that whoever waits for an answer learns that none will come
