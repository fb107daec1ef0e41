"""A server's tool as a tool of ours: the same dispatch, permissions and log as any other.

It runs only in the form that was accepted. If its description or arguments have changed, it does
not run until the user has reviewed it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentcli.features.mcp.connection import ServerConnection
from agentcli.features.mcp.content import ContentStore, convert_result
from agentcli.features.mcp.faults import ServerFault
from agentcli.features.mcp.offered import OfferedTool
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Output, ToolContext, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCall:
    server_tool: str
    """The server's own name for it, whatever name models use."""
    arguments: dict[str, Any]


Review: TypeAlias = Callable[[Mapping[str, OfferedTool]], Awaitable[Mapping[str, OfferedTool]]]
"""Takes the tools a server offers now, and returns the accepted ones. It may ask the user."""


class ServerTool:
    def __init__(
        self, offered: OfferedTool, link: ServerConnection, *, keeping: ContentStore, review: Review
    ) -> None:
        self._review = review
        self._offered = offered
        self._link = link
        self._keeping = keeping
        self._spec = offered.spec(link.entry.name)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def parse(self, raw: Json) -> ForeignCall:
        """Check the names only. The server checks the values: its schema is its own."""
        if not isinstance(raw, dict):
            raise _invalid("the arguments must be one JSON object")
        missing = [name for name in _list_required(self._offered.schema) if name not in raw]
        if missing:
            raise _invalid(f"{', '.join(missing)} missing")
        return ForeignCall(server_tool=self._offered.name, arguments=raw)

    def effect(self, args: ForeignCall) -> Effect:
        """Return the effect. A server's claim that it only reads counts only if the user agrees."""
        entry = self._link.entry
        if self._offered.says_read_only and entry.only_reads(self._offered.name):
            return Effect.READ
        return Effect.NETWORK

    async def preview(self, args: ForeignCall, context: ToolContext) -> None:
        return None

    async def run(self, args: ForeignCall, context: ToolContext) -> Output:
        try:
            now = await self._link.tools()
            self._check(now, await self._review(now))
            result = await self._link.call(
                self._offered.name,
                args.arguments,
                show=context.progress,
                call_id=context.call_id,
            )
        except ServerFault as fault:
            return _make_failure(fault)
        return await asyncio.to_thread(convert_result, result, self._keeping)

    def _check(self, now: Mapping[str, OfferedTool], accepted: Mapping[str, OfferedTool]) -> None:
        """Raise ToolError unless the tool is the one that the model saw: no other may run
        instead."""
        name, server = self._offered.name, self._link.entry.name
        if name not in now:
            raise ToolError(f"The MCP server {server} has no tool {name} any more.")
        if now[name].fingerprint == self._offered.fingerprint:
            return
        if name not in accepted or accepted[name].fingerprint != now[name].fingerprint:
            raise ToolError(
                f"The MCP server {server} has changed its tool {name} since it was approved, so it "
                "was not run. It can be used again after the user runs: "
                f"agentcli mcp approve {server}",
                kind=ErrorKind.NOT_RUN,
            )
        self._offered = now[name]
        raise ToolError(
            f"Not run: the MCP server {server} has changed its tool {name}, and the user has "
            f"approved that. Call it again if it still does what is needed. It is now: "
            f"{self._offered.description}\nArguments: {json.dumps(self._offered.schema)}",
            kind=ErrorKind.NOT_RUN,
        )


def _list_required(schema: Json) -> Sequence[str]:
    """Return the required names, without those that have a default.

    Some servers list these, too, and fill them in themselves."""
    match schema:
        case {"required": list(required), "properties": dict(properties)}:
            names = (name for name in required if isinstance(name, str))
            return [name for name in names if not _has_default(properties.get(name))]
        case _:
            return []


def _has_default(field: Json) -> bool:
    return isinstance(field, dict) and "default" in field


def _make_failure(fault: ServerFault) -> Output:
    """Return a fault as the server's text if it quotes the server, or else raise it as our own."""
    kind = ErrorKind.TIMEOUT if fault.timed_out else ErrorKind.FAILED
    if fault.quotes_server:
        return Output.of(str(fault), error=kind)
    raise ToolError(str(fault), kind=kind) from fault


def _invalid(message: str) -> ToolError:
    return ToolError(f"Invalid input: {message}.", kind=ErrorKind.INVALID_INPUT)
