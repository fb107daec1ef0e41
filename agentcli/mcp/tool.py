"""A server's tool as a tool of ours: the same dispatch, guard and record as any other.

It runs only as it was accepted: a tool whose description or arguments have changed since is refused
until a person has looked at it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentcli.mcp.content import Keeping, output_of
from agentcli.mcp.link import Link, ServerFault
from agentcli.mcp.offered import Offered
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Output, ToolContext, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCall:
    server_tool: str
    """As the server calls it, whatever name models know it by."""
    arguments: dict[str, Any]


class ServerTool:
    def __init__(self, offered: Offered, link: Link, *, keeping: Keeping) -> None:
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
        missing = [name for name in _required(self._offered.schema) if name not in raw]
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
            self._check(dict(await self._link.tools()))
            result = await self._link.call(
                self._offered.name, args.arguments, show=context.progress
            )
        except ServerFault as fault:
            kind = ErrorKind.TIMEOUT if fault.timed_out else ErrorKind.FAILED
            return Output.of(str(fault), error=kind)
        return output_of(result, self._keeping)

    def _check(self, now: dict[str, Offered]) -> None:
        name, server = self._offered.name, self._link.entry.name
        if name not in now:
            raise ToolError(f"The MCP server {server} has no tool {name} any more.")
        if now[name].fingerprint != self._offered.fingerprint:
            raise ToolError(
                f"The MCP server {server} has changed its tool {name} since it was accepted. It "
                f"can be used again when a person has run: agentcli mcp approve {server}",
                kind=ErrorKind.DENIED,
            )


def _required(schema: Json) -> Sequence[str]:
    required = schema.get("required") if isinstance(schema, dict) else None
    return (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )


def _invalid(message: str) -> ToolError:
    return ToolError(f"Invalid input: {message}.", kind=ErrorKind.INVALID_INPUT)
