"""agentcli as an editor starts it: the protocol on stdin and stdout, all else on stderr."""

import asyncio
import logging
import os
import signal
import stat
import sys
from contextlib import suppress
from types import TracebackType
from typing import cast

from acp import RequestError, run_agent
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.interfaces import Agent
from acp.stdio import stdio_streams
from pydantic import ValidationError

from agentcli.mcp.muted import LIBRARY
from agentcli.types.errors import Exit, UsageError
from agentcli.ui.acp.agent import EditorAgent, LoadSettings
from agentcli.ui.acp.lines import LineTransport

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
EDITOR_HINT = 'in the editor: {"command": "agentcli", "args": ["acp"]}'


def serve(load_settings: LoadSettings) -> Exit:
    """Until the editor closes stdin. Raises UsageError where no editor can be at the other end."""
    if not (_is_pipe(0) and _is_pipe(1)):
        raise UsageError(
            "agentcli acp is for an editor at the other end of its pipes", hint=EDITOR_HINT
        )
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
    """What anybody else prints from here on, in Python or below it, goes to stderr."""
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    streams = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    if sys.platform != "win32":  # there the streams look for sys.stdout at every write
        sys.stdout = sys.stderr
    return streams


class _BriefFormatter(logging.Formatter):
    """A mistake of the editor's needs no traceback. One of ours does."""

    def formatException(self, ei: _ExcInfo) -> str:
        if isinstance(ei[1], RequestError | ValidationError):
            return str(ei[1])
        return super().formatException(ei)


def _log_to_stderr() -> None:
    """On stderr, which editors keep for people. What MCP servers do wrong is told elsewhere."""
    told = logging.StreamHandler(sys.stderr)
    told.addFilter(lambda record: record.name.partition(".")[0] not in LIBRARY)
    told.setFormatter(_BriefFormatter())
    logging.basicConfig(handlers=[told], level=logging.WARNING)


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
