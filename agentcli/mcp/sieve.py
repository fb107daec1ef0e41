"""A stream of messages with a look at each on its way: it goes on as it is, changed, or not at all.

The library reads whatever comes through, so that what it could not stand never gets there.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, TypeAlias

from mcp.shared.message import SessionMessage

Incoming: TypeAlias = SessionMessage | Exception


class MessageStream(Protocol):
    """As far as a stream is needed here."""

    async def receive(self) -> Incoming: ...
    async def __anext__(self) -> Incoming: ...
    async def aclose(self) -> None: ...


Look: TypeAlias = Callable[[Incoming], Awaitable[Incoming | None]]
"""None: it goes no further."""


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
