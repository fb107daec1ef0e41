"""The transports to servers. A local one is our process: its stderr is kept, and how it ended."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from agentcli.features.mcp.connection import Transport
from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.faults import SAID, FaultContext
from agentcli.features.mcp.stdio import Launch, ServerEnd, stdio_transport
from agentcli.features.mcp.tokens import REFUSED, StoredLogin
from agentcli.system.output import BoundedOutput, FilteredSink, OutputFilter
from agentcli.system.process import signal_of_death

LAST_LINES = 8
LAST_WORDS_CHARS = 200


class LocalMcpServer:
    def __init__(
        self, launch: Launch, *, log_path: Path, clean: Callable[[], OutputFilter]
    ) -> None:
        """`clean` removes from its output what may not be stored."""
        self._launch = launch
        self._log_path = log_path
        self._clean = clean
        self._demise = ServerEnd()
        self._said: BoundedOutput | None = None

    def transport(self) -> Transport:
        self._demise = ServerEnd()
        self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._said = BoundedOutput(self._log_path, handle)
        log = FilteredSink(self._said, self._clean())
        return stdio_transport(self._launch, log=log, demise=self._demise)

    @property
    def witness(self) -> FaultContext:
        return FaultContext(last_words=self.last_words, is_lost=self.is_lost)

    def is_lost(self) -> bool:
        return self._demise.is_silent

    def last_words(self) -> str:
        """Return how it ended and where its stderr is, to follow a sentence."""
        code = self._demise.returncode
        if code is None:
            how = ""
        elif signal := signal_of_death(code):
            how = f" (killed by {signal})"
        else:
            how = f" (exit code {code})"
        remarks = "".join(f"; {remark.rstrip('.')}" for remark in self._demise.remarks)
        return f"{how}{remarks}{self._on_stderr()}"

    def _on_stderr(self) -> str:
        if not self._has_spoken:
            return ""
        last = self.said.rstrip().rpartition("\n")[2].strip()[:LAST_WORDS_CHARS]
        return f"; {SAID}{last!r}, all of it is in {self._log_path}"

    @property
    def said(self) -> str:
        """Return the last lines of its stderr, for the user."""
        return self._said.last_lines(LAST_LINES) if self._said else ""

    @property
    def _has_spoken(self) -> bool:
        return self._said is not None and self._said.size_bytes > 0


# A remote server over Streamable HTTP, and its last refusal


EVENT_BYTES = 32 * 1024 * 1024
SILENCE_S = 300.0

_SINCE = {
    403: "the credentials do not permit that",
    404: "there is nothing at this address",
}


class RemoteServer:
    def __init__(self, entry: ServerEntry, login: StoredLogin | None = None) -> None:
        self._entry = entry
        self._login = login
        self._has_login = False
        self._refused = 0

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        self._refused = 0
        self._has_login = self._login is not None and self._login.load()
        timeout = httpx2.Timeout(self._entry.start_timeout_s, read=SILENCE_S)
        async with (
            httpx2.AsyncClient(
                headers=dict(self._entry.headers),
                auth=self._login if self._has_login else None,
                timeout=timeout,
                event_hooks={"response": [self._note]},
            ) as client,
            streamable_http_client(
                self._entry.url, http_client=client, max_sse_event_size=EVENT_BYTES
            ) as streams,
        ):
            yield streams

    @property
    def witness(self) -> FaultContext:
        return FaultContext(last_words=self._last_words, refusal=self._refusal)

    def _last_words(self) -> str:
        """Return the status of its last answer if that was a refusal, to follow a sentence."""
        if not self._refused:
            return ""
        since = f": {_SINCE[self._refused]}" if self._refused in _SINCE else ""
        return f" (HTTP status {self._refused}{since})"

    def _refusal(self) -> str:
        """Return what the user can do about it, as a sentence. Empty if it is not about a login."""
        if self._refused != REFUSED:
            return ""
        name = self._entry.name
        if self._entry.brings_key:
            return f"The MCP server {name} rejected the Authorization header."
        again = " again (your login expired)" if self._has_login else ""
        return f"The MCP server {name} needs you to log in{again}: agentcli mcp login {name}"

    async def _note(self, response: httpx2.Response) -> None:
        is_message = "text/event-stream" in response.request.headers.get("Accept", "")
        if response.request.method == "POST" and is_message:  # and not for a login itself
            self._refused = response.status_code if response.is_error else 0
