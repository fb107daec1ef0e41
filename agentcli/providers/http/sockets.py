"""The one shape of a connection to a provider: send this body, get event dictionaries.

There are two: `direct`, which is lean and the default, and `sdk`, for the platforms whose signing
and routing the official clients alone do well.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol, TypeAlias

from agentcli.providers.http.sse import Event
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json

Body: TypeAlias = Sequence[bytes]
"""What is posted, in pieces, none of which changes while it is sent."""

ATTEMPTS = 6
SILENT_ATTEMPTS = 3
"""Each costs minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    connect_s: float = 10.0
    first_byte_s: float = 300.0
    """Models that run on the same machine read a long prompt for minutes before they answer."""
    head_s: float = 30.0
    """From the first byte of an answer to the end of its headers."""
    stall_s: float = 120.0
    """Between any two bytes of an answer that has begun."""
    content_s: float = 300.0
    """Between any two pieces of content. Some servers send pings while a model thinks."""

    @staticmethod
    def silent_for(limit_s: float | None) -> "Timeouts":
        """No longer than this at any time, where a limit is given."""
        if limit_s is None:
            return Timeouts()
        return Timeouts(
            first_byte_s=limit_s,
            head_s=min(limit_s, Timeouts().head_s),
            stall_s=limit_s,
            content_s=limit_s,
        )

    @property
    def taken_on_s(self) -> float:
        """From a request to the end of its answer's headers, a new connection included."""
        return self.connect_s + self.first_byte_s + self.head_s


class HttpError(Exception):
    """The server answered, with a status that is no success."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Json) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        """Names in lower case."""
        self.body = body
        """Bounded; a string where it was not JSON."""


class ConnectionBroken(Exception):
    """The server did not answer, or not to the end. The text is a clause: "...: it was refused"."""

    def __init__(
        self,
        reason: str,
        *,
        hint: str = "",
        kind: ProviderErrorKind = ProviderErrorKind.UNAVAILABLE,
        attempts: int = ATTEMPTS,
    ) -> None:
        super().__init__(reason)
        self.hint = hint
        self.kind = kind
        self.attempts = attempts
        """How often trying makes sense at all: 1 for what will not change by itself."""


def make_stall_error(who: object, how: str) -> ConnectionBroken:
    """A server that is there and gets nowhere."""
    return ConnectionBroken(
        f"{who} {how}",
        hint="allow more: export AGENTCLI_STALL_TIMEOUT=10m",
        kind=ProviderErrorKind.CUT,
        attempts=SILENT_ATTEMPTS,
    )


def make_redirect_error(endpoint: object, location: str | None) -> ConnectionBroken:
    """A conversation goes where the person sends it, and nowhere else."""
    return ConnectionBroken(
        f"{endpoint} redirects to {(location or 'nowhere')[:200]}",
        hint="Set that as the base URL, if you trust it.",
        kind=ProviderErrorKind.REJECTED,
        attempts=1,
    )


class Socket(Protocol):
    async def prepare(self) -> None:
        """Does ahead of the first request what can be done. What fails here fails again there."""
        ...

    def exchange(
        self, path: str, *, headers: Mapping[str, str], body: Body
    ) -> AsyncGenerator[Sequence[Event], None]:
        """Posts the body and gives the events of the answer as they come.

        What came together is given together. None at all means, the first time, that the server
        has taken the request on, and later that nothing has come for a while.
        Raises HttpError and Broken. Closing the iterator, or cancelling it, ends the exchange at
        once.
        """
        ...

    async def close(self) -> None: ...
