"""Faults of a server, each in one sentence that names it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR
from pydantic import ValidationError

from agentcli.features.mcp.entries import ServerEntry
from agentcli.system.validation import describe_fault
from agentcli.types.errors import AgentError

FAULTS = (MCPError, httpx2.HTTPError, OSError, RuntimeError, ValueError, ExceptionGroup)

UNUSABLE = object()
"""The data of an error that replaces an invalid answer. It cannot come from any server."""
SAID = "it said "
"""The words before a quotation from a server."""

_GONE = ("Session terminated", "Session not found")
"""The only text the library gives for a session that the server has forgotten."""
_CLOSED = ("Connection closed", "SSE stream ")
"""How the library reports a lost connection. Servers use the same code for their own errors."""


class ServerFault(Exception):
    """A server did not do what was asked. The message is for the model and for users."""

    def __init__(
        self, message: str, *, timed_out: bool = False, quotes_server: bool = False
    ) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.quotes_server = quotes_server or SAID in message
        """True if the message quotes the server."""


class SessionGone(ServerFault):
    """A remote server no longer knows our session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """Further facts about a server, looked up when something has gone wrong."""

    last_words: Callable[[], str] = str
    """The last output of an ended process, or of a server that refused, to follow a sentence."""
    forget_words: Callable[[], None] = lambda: None
    """Called before a request to a process that runs: what it has said is not about that."""
    is_lost: Callable[[], bool] = lambda: False
    """Returns true if its process has ended."""
    refusal: Callable[[], str] = str
    """The reason why it refuses us, and what the user can do; empty if it does not."""

    def fault(self, error: BaseException | None, entry: ServerEntry) -> ServerFault:
        kind = SessionGone if is_gone(error) else ServerFault
        if refusal := self.refusal():
            return kind(refusal)
        return kind(
            _describe_error(error, entry, last_words=self.last_words), quotes_server=_quotes(error)
        )


def _describe_error(
    error: BaseException | None, entry: ServerEntry, *, last_words: Callable[[], str]
) -> str:
    name = entry.name
    leaves = [one for one in _list_leaves(error) if not isinstance(one, anyio.BrokenResourceError)]
    first = leaves[0] if leaves else error
    if is_lost(error):
        return f"The MCP server {name} ended the connection{last_words()}."
    match first:
        case MCPError() if first.code == PARSE_ERROR or first.data is UNUSABLE:
            return _describe_unusable(first, name)
        case MCPError():
            status = last_words() if entry.is_remote else ""
            return f"The MCP server {name} answered with an error: {first.message}{status}"
        case AgentError():
            return f"The MCP server {name} cannot be started: {first}"
        case FileNotFoundError() | PermissionError() | NotADirectoryError():
            return f"The MCP server {name} cannot be started: {first.strerror}: {first.filename}"
        case httpx2.HTTPError():
            kind = f"{type(first).__name__}{f': {first}' if str(first) else ''}"
            return f"The MCP server {name} cannot be reached at {entry.shown} ({kind})."
        case _:
            return _describe_unusable(first, name)


def _describe_unusable(error: BaseException | None, name: str) -> str:
    return f"The MCP server {name} sent an invalid answer: {summarize_error(error)}"


def summarize_error(error: BaseException | None) -> str:
    """Return one line for an error. Validators produce many."""
    if isinstance(error, ValidationError):
        return describe_fault(error)
    return (str(error).splitlines() or [type(error).__name__])[0]


def _list_leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _list_leaves(one)]
    return [error] if error is not None else []


def _quotes(error: BaseException | None) -> bool:
    """Return whether the description of this error contains words chosen by the server."""
    return any(
        isinstance(one, RuntimeError | httpx2.ProtocolError)
        or (isinstance(one, MCPError) and one.data is not UNUSABLE and not is_lost(one))
        for one in _list_leaves(error)
    )


def is_gone(error: BaseException | None) -> bool:
    return isinstance(error, MCPError) and error.message in _GONE


def is_lost(error: BaseException | None) -> bool:
    return any(
        isinstance(one, anyio.ClosedResourceError | anyio.EndOfStream)
        or (
            isinstance(one, MCPError)
            and one.code == CONNECTION_CLOSED
            and one.message.startswith(_CLOSED)
        )
        for one in _list_leaves(error)
    )


# The library's own log, kept off the screen: faults of servers are reported elsewhere


LIBRARY = ("mcp", "client", "server")
"""The loggers of the library. Not all of its modules log under its name."""


def silence_library_log() -> None:
    for name in LIBRARY:
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
