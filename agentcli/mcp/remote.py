"""A server that runs elsewhere, over Streamable HTTP, and what it last refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.faults import FaultContext
from agentcli.mcp.logins import REFUSED, StoredLogin

EVENT_BYTES = 32 * 1024 * 1024
SILENCE_S = 300.0

_SINCE = {
    403: "what it was given does not permit that",
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
        """To be put behind a sentence: the status of its last answer, where that was a refusal."""
        if not self._refused:
            return ""
        since = f": {_SINCE[self._refused]}" if self._refused in _SINCE else ""
        return f" (HTTP status {self._refused}{since})"

    def _refusal(self) -> str:
        """What a person can do about it, as a whole sentence; empty: it was not about them."""
        if self._refused != REFUSED:
            return ""
        name = self._entry.name
        if self._entry.brings_key:
            return f"The MCP server {name} does not accept the Authorization header it was given."
        again = " again, as your login is not valid any more" if self._has_login else ""
        return f"The MCP server {name} wants you to log in{again}: agentcli mcp login {name}"

    async def _note(self, response: httpx2.Response) -> None:
        is_message = "text/event-stream" in response.request.headers.get("Accept", "")
        if response.request.method == "POST" and is_message:  # and nothing of a login's own
            self._refused = response.status_code if response.is_error else 0
