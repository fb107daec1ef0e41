"""agentcli as an editor starts it: the protocol on stdin and stdout, all else on stderr."""

import asyncio
import json
import logging
import os
import signal
import stat
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

from acp import RequestError, run_agent
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.interfaces import Agent
from acp.stdio import stdio_streams
from pydantic import ValidationError

from agentcli.features.acp.agent import EditorAgent, LoadSettings
from agentcli.system.strict_json import parse_json
from agentcli.types.errors import Exit, UsageError

# Messages on two pipes, one on each line, as a transport for the SDK


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
        """Return the next message, or None if the other end has closed."""
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
        # All writers wait for one future, which no cancellation of one of them may end.
        await asyncio.shield(self._writer.drain())

    async def close(self) -> None:
        """Do nothing: the pipes belong to the program."""

    async def _read_line(self) -> bytes:
        """Return the next line, or an empty one at the end.

        Raise InvalidMessage if it is longer than the reader's limit."""
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
                _build_invalid_request(f"a line of {size_bytes} bytes is too long")
            )


def parse_message(line: bytes) -> Message | None:
    """Return a message. None for an answer that fits no request.

    Raise InvalidMessage if it is not a message at all."""
    try:
        message = parse_json(line.decode())
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
    """Return the response. An error in a form of its own becomes a valid one for the caller.

    None if its id cannot belong to a request."""
    if not isinstance(message["id"], str | int):
        return None
    if not isinstance(message.get("error"), dict | None):
        return {**message, "error": RequestError.internal_error(message["error"]).to_error_obj()}
    return message


def _build_invalid_request(details: str) -> RequestError:
    return RequestError.invalid_request({"details": details})


_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
EDITOR_HINT = 'in the editor: {"command": "agentcli", "args": ["acp"]}'


def serve(load_settings: LoadSettings) -> Exit:
    """Serve until the editor closes stdin. Raise UsageError if stdin or stdout is no pipe."""
    if not (_is_pipe(0) and _is_pipe(1)):
        raise UsageError("agentcli acp must be started by an editor", hint=EDITOR_HINT)
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve_editor(load_settings))
    return Exit.DONE


async def _serve_editor(load_settings: LoadSettings) -> None:
    lines = LineTransport(*await _open_streams())
    _log_to_stderr()
    _stop_on_signals()
    agent = EditorAgent(load_settings)
    try:
        # Without this the SDK leaves out methods that the protocol has: resume and close.
        await run_agent(cast(Agent, agent), lines, use_unstable_protocol=True)
    finally:
        await agent.close()


async def _open_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open the streams. From here on, other output, in Python or below it, goes to stderr."""
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    streams = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    if sys.platform != "win32":  # there the streams look up sys.stdout at every write
        sys.stdout = sys.stderr
    return streams


class _BriefFormatter(logging.Formatter):
    """Leaves out the traceback for an editor's mistake, but not for one of ours."""

    def formatException(self, ei: _ExcInfo) -> str:
        if isinstance(ei[1], RequestError | ValidationError):
            return str(ei[1])
        return super().formatException(ei)


def _log_to_stderr() -> None:
    """Log to stderr, which editors keep for the user."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_BriefFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _stop_on_signals() -> None:
    if sys.platform == "win32":
        return
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
