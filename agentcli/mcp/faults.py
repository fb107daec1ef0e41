"""What went wrong with a server, in one sentence that names it."""

from collections.abc import Callable
from dataclasses import dataclass

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from agentcli.mcp.entries import ServerEntry
from agentcli.types.errors import AgentError

FAULTS = (MCPError, httpx2.HTTPError, OSError, RuntimeError, ValueError, ExceptionGroup)

_GONE = ("Session terminated", "Session not found")
"""All that the library tells of a session that the server has forgotten."""


class ServerFault(Exception):
    """A server did not do what was asked of it. The message is for the model and for people."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class SessionGone(ServerFault):
    """A server elsewhere does not know our session any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What else is known of a server, asked when something has gone wrong."""

    last_words: Callable[[], str] = str
    """Of a process that has ended, or of a server that refused: to be put behind a sentence."""
    is_lost: Callable[[], bool] = lambda: False
    """Whether its process has ended."""
    refusal: Callable[[], str] = str
    """Why it does not let us in, and what a person can do about that; empty: it does."""

    def explained(self, error: BaseException | None, entry: ServerEntry) -> str:
        return self.refusal() or _sentence(error, entry, self.last_words)


def _sentence(
    error: BaseException | None, entry: ServerEntry, last_words: Callable[[], str]
) -> str:
    name = entry.name
    leaves = [one for one in _leaves(error) if not isinstance(one, anyio.BrokenResourceError)]
    first = leaves[0] if leaves else error
    if is_lost(error):
        return f"The MCP server {name} ended the connection{last_words()}."
    match first:
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
            return f"The MCP server {name} gave an answer that cannot be used: {_in_short(first)}"


def _in_short(error: BaseException | None) -> str:
    """One line: what validators say goes on for many."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (str(error).splitlines() or [type(error).__name__])[0]


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error] if error is not None else []


def is_gone(error: BaseException) -> bool:
    return isinstance(error, MCPError) and error.message in _GONE


def is_lost(error: BaseException | None) -> bool:
    return any(
        isinstance(one, anyio.ClosedResourceError | anyio.EndOfStream)
        or (isinstance(one, MCPError) and one.code == CONNECTION_CLOSED)
        for one in _leaves(error)
    )
