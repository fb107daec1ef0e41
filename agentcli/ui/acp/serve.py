"""agentcli as an editor starts it: the protocol on stdin and stdout, all else on stderr."""

import asyncio
import os
import signal
import stat
import sys
from contextlib import suppress
from typing import cast

from acp import run_agent
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.interfaces import Agent
from acp.stdio import stdio_streams

from agentcli.types.errors import Exit, UsageError
from agentcli.ui.acp.agent import EditorAgent, SettingsOf

HOW = 'in the editor: {"command": "agentcli", "args": ["acp"]}'


def serve(settings_of: SettingsOf) -> Exit:
    """Until the editor closes stdin. Raises UsageError where no editor can be at the other end."""
    if not (_is_pipe(0) and _is_pipe(1)):
        raise UsageError("agentcli acp is for an editor at the other end of its pipes", hint=HOW)
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve(settings_of))
    return Exit.DONE


async def _serve(settings_of: SettingsOf) -> None:
    reader, writer = await _streams()
    _stop_on_signals()
    agent = EditorAgent(settings_of)
    try:
        # Without this the SDK leaves out methods that the protocol has: resume and close.
        await run_agent(cast(Agent, agent), writer, reader, use_unstable_protocol=True)
    finally:
        await agent.close()


async def _streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """What anybody else prints from here on, in Python or below it, goes to stderr."""
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    streams = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    if sys.platform != "win32":  # there the streams look for sys.stdout at every write
        sys.stdout = sys.stderr
    return streams


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
