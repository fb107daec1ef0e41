"""A server's tool as a tool of ours: the same dispatch, guard and record as any other.

It runs only as it was accepted: a tool whose description or arguments have changed since does not
run until a person has looked at it.
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
    """As the server calls it, whatever name models know it by."""
    arguments: dict[str, Any]


Review: TypeAlias = Callable[[Mapping[str, OfferedTool]], Awaitable[Mapping[str, OfferedTool]]]
"""From what a server offers now to what is accepted of it; a person may be asked on the way."""


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
        """Whether the values are right is for the server to say: its schema is its own."""
        if not isinstance(raw, dict):
            raise _invalid("the arguments must be one JSON object")
        missing = [name for name in _list_required(self._offered.schema) if name not in raw]
        if missing:
            raise _invalid(f"{', '.join(missing)} missing")
        return ForeignCall(server_tool=self._offered.name, arguments=raw)

    def effect(self, args: ForeignCall) -> Effect:
        """What a server says of its own harmlessness counts only where the person says so, too."""
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
        """The model called the tool that it was told of: no other one runs in its place."""
        name, server = self._offered.name, self._link.entry.name
        if name not in now:
            raise ToolError(f"The MCP server {server} has no tool {name} any more.")
        if now[name].fingerprint == self._offered.fingerprint:
            return
        if name not in accepted or accepted[name].fingerprint != now[name].fingerprint:
            raise ToolError(
                f"The MCP server {server} has changed its tool {name} since it was accepted, so it "
                "was not run. It can be used again when a person has run: "
                f"agentcli mcp approve {server}",
                kind=ErrorKind.NOT_RUN,
            )
        self._offered = now[name]
        raise ToolError(
            f"Not run: the MCP server {server} has changed its tool {name}, and the person has "
            f"accepted that. Call it again if it still does what is needed. It is now: "
            f"{self._offered.description}\nArguments: {json.dumps(self._offered.schema)}",
            kind=ErrorKind.NOT_RUN,
        )


def _list_required(schema: Json) -> Sequence[str]:
    """Some servers also list what they have a default for: they fill it in themselves."""
    match schema:
        case {"required": list(required), "properties": dict(properties)}:
            names = (name for name in required if isinstance(name, str))
            return [name for name in names if not _has_default(properties.get(name))]
        case _:
            return []


def _has_default(field: Json) -> bool:
    return isinstance(field, dict) and "default" in field


def _make_failure(fault: ServerFault) -> Output:
    """As text of the server's where it quotes the server, and else as words of our own."""
    kind = ErrorKind.TIMEOUT if fault.timed_out else ErrorKind.FAILED
    if fault.quotes_server:
        return Output.of(str(fault), error=kind)
    raise ToolError(str(fault), kind=kind) from fault


def _invalid(message: str) -> ToolError:
    return ToolError(f"Invalid input: {message}.", kind=ErrorKind.INVALID_INPUT)
