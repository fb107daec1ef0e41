"""The client of an official SDK as a socket, for platforms whose signing and routing it does best.

The SDK sends our body unchanged and returns the events as they came: its types, retries and
accumulation are not used. Only `sdk_anthropic` and `sdk_openai` import the SDKs.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from agentcli.providers.errors import find_request_id
from agentcli.providers.http.sockets import (
    ACCEPTED,
    Body,
    ConnectionBroken,
    HttpError,
    OnSent,
    Timeouts,
)
from agentcli.providers.http.sse import Event
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass


class SdkResponse(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...


class SdkAnswer(Protocol):
    """The events of an answer, as the SDKs hand them out."""

    @property
    def response(self) -> SdkResponse: ...

    def __aiter__(self) -> AsyncIterator[object]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkSocket:
    """A `Socket` that sends through the client of an SDK."""

    post: Callable[[str, Any], Awaitable[SdkAnswer]]
    shut: Callable[[], Awaitable[None]]
    errors: tuple[type[Exception], ...]
    """The exceptions that the SDK raises."""
    translate: Callable[[Exception], HttpError | ConnectionBroken | Event]
    """Converts them to our exceptions, or back to the event that the SDK raised them for."""

    async def exchange(
        self,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body,
        on_sent: OnSent = lambda: None,
    ) -> AsyncGenerator[Sequence[Event], None]:
        """See `Socket`. `headers` are not used: the SDK sends its own, with its own credentials."""
        read: asyncio.Queue[Sequence[Event] | None] = asyncio.Queue()
        reader = asyncio.create_task(self._read(path, json.loads(b"".join(body)), read))
        on_sent()
        try:
            while (events := await read.get()) is not None:
                yield events
            await reader
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(
        self, path: str, body: Any, read: "asyncio.Queue[Sequence[Event] | None]"
    ) -> None:
        """Put the events in the queue, then None.

        This is a separate task, because the SDKs' iterators end properly in only two ways: at the
        end of the answer, and cancelled while they wait for more of it."""
        try:
            answer = await self.post(path, body)
            request_id = find_request_id(answer.response.headers)
            read.put_nowait(({"type": ACCEPTED, "request_id": request_id},) if request_id else ())
            async for event in answer:
                if isinstance(event, dict):
                    read.put_nowait((event,))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            message = f"The reply holds an event that is not JSON: {error}"
            raise ConnectionBroken(message, kind=ProviderErrorKind.CUT) from None
        except self.errors as error:
            ours = self.translate(error)
            if not isinstance(ours, dict):
                raise ours from None
            read.put_nowait((ours,))
        finally:
            read.put_nowait(None)

    async def prepare(self) -> None:
        """Do nothing: the SDKs open their connections with the first request."""

    async def close(self) -> None:
        await self.shut()


def choose_timeout_s(timeouts: Timeouts | None) -> float:
    """Return the limit for every read, the longer of ours: the SDKs have only one."""
    given = timeouts or Timeouts()
    return max(given.first_byte_s, given.stall_s)


def describe_cause(error: Exception) -> str:
    """Return the text of the cause, or its type name: not every exception has a text."""
    cause = error.__cause__ or error
    return str(cause) or type(cause).__name__
