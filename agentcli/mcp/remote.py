"""A server that runs elsewhere, over Streamable HTTP, and what it last refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from agentcli.mcp.entries import ServerEntry

EVENT_BYTES = 32 * 1024 * 1024
SILENCE_S = 300.0

_SINCE = {
    401: "it wants to know who you are: give it a key by --header 'Authorization: Bearer ${KEY}'",
    403: "what it was given does not permit that",
    404: "there is nothing at this address",
}


class RemoteServer:
    def __init__(self, entry: ServerEntry) -> None:
        self._entry = entry
        self._refused = 0

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        self._refused = 0
        timeout = httpx2.Timeout(self._entry.start_timeout_s, read=SILENCE_S)
        async with (
            httpx2.AsyncClient(
                headers=dict(self._entry.headers),
                timeout=timeout,
                event_hooks={"response": [self._note]},
            ) as client,
            streamable_http_client(
                self._entry.url, http_client=client, max_sse_event_size=EVENT_BYTES
            ) as streams,
        ):
            yield streams

    def last_words(self) -> str:
        """To be put behind a sentence: the status of its last answer, where that was a refusal."""
        if not self._refused:
            return ""
        since = f": {_SINCE[self._refused]}" if self._refused in _SINCE else ""
        return f" (HTTP status {self._refused}{since})"

    async def _note(self, response: httpx2.Response) -> None:
        if response.request.method == "POST":
            self._refused = response.status_code if response.is_error else 0
