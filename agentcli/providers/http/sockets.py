"""The interface of a connection to a provider: send a body, get event dictionaries.

There are two sockets: `direct`, which is lean and the default, and `sdk`, for the platforms whose
signing and routing only the official clients do well.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from agentcli.providers.http.sse import Event
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json

Body: TypeAlias = Sequence[bytes]
"""The body of a request, in pieces that do not change while they are sent."""
OnSent: TypeAlias = Callable[[], None]

ATTEMPTS = 6
SILENT_ATTEMPTS = 3
"""The number of attempts at a server that stalls. Each costs minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    connect_s: float = 10.0
    first_byte_s: float = 300.0
    """Local models read a long prompt for minutes before they answer."""
    head_s: float = 30.0
    """From the first byte of an answer to the end of its headers."""
    stall_s: float = 120.0
    """Between any two bytes of an answer that has begun."""
    content_s: float = 300.0
    """Between any two pieces of content. Some servers send pings while a model thinks."""

    @staticmethod
    def limit_silence(limit_s: float | None) -> "Timeouts":
        """Return timeouts that allow no silence longer than `limit_s`; the defaults if None."""
        if limit_s is None:
            return Timeouts()
        return Timeouts(
            first_byte_s=limit_s,
            head_s=min(limit_s, Timeouts().head_s),
            stall_s=limit_s,
            content_s=limit_s,
        )


class HttpError(Exception):
    """An answer of the server with a status that is not a success."""

    def __init__(self, status: int, headers: Mapping[str, str], *, body: Json) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        """Names in lower case."""
        self.body = body
        """The body, bounded; a string if it was not JSON."""


ACCEPTED = "agentcli.accepted"


class ConnectionBroken(Exception):
    """A server that did not answer, or not to the end.

    The text is a clause: "...: it was refused".
    """

    def __init__(
        self,
        reason: str,
        *,
        hint: str = "",
        kind: ProviderErrorKind = ProviderErrorKind.UNAVAILABLE,
        max_attempts: int = ATTEMPTS,
    ) -> None:
        super().__init__(reason)
        self.hint = hint
        self.kind = kind
        self.max_attempts = max_attempts
        """The number of attempts worth making; 1 for a failure that will not go away by itself."""


def make_stall_error(who: object, how: str) -> ConnectionBroken:
    """Return the error for a server that is reachable but makes no progress."""
    return ConnectionBroken(
        f"{who} {how}",
        hint="export AGENTCLI_STALL_TIMEOUT=10m",
        kind=ProviderErrorKind.CUT,
        max_attempts=SILENT_ATTEMPTS,
    )


def make_redirect_error(endpoint: object, location: str | None) -> ConnectionBroken:
    """Return the error for a redirect: a conversation goes only where the user sends it."""
    return ConnectionBroken(
        f"{endpoint} redirects to {(location or 'nowhere')[:200]}",
        hint="set that as the base URL, if you trust it",
        kind=ProviderErrorKind.REJECTED,
        max_attempts=1,
    )


class Socket(Protocol):
    async def prepare(self) -> None:
        """Do what can be done before the first request. What fails here fails again then."""
        ...

    def exchange(
        self, path: str, *, headers: Mapping[str, str], body: Body, on_sent: OnSent = ...
    ) -> AsyncGenerator[Sequence[Event], None]:
        """Post the body and yield the events of the answer as they come.

        `on_sent` is called when the body is on its way.
        Events that came together are yielded together. An event of type `ACCEPTED` is ours: it has
        the provider's id of the request. An empty batch means, the first time, that
        the server has accepted the request, and later that nothing has come for a while.
        Raise HttpError and ConnectionBroken. Closing the iterator, or cancelling it, ends the
        exchange at once.
        """
        ...

    async def close(self) -> None: ...
