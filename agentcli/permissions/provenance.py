"""Where a tool's text comes from, as far as it is not the workspace: such text is told apart.

What is labelled: the tools of servers, commands that could reach the network, files outside of the
workspace, and the kept output of any of these. It is a label and no proof: what a command saved in
the workspace yesterday is a file of the workspace today.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from agentcli.types.events import CallFinished, Fact, FileAttached
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, FileView, Matches, Output

NETWORK = "the network"
OUTSIDE = "outside the workspace"

NetworkReach = Literal["none", "granted", "unconfined"]
"""What a command could reach of the network: nothing, what a rule gave it, or all, as nothing
confines commands at all."""

_FETCHERS = re.compile(
    r"(?<![\w.-])(?:curl|wget|https?|xh|aria2c|lynx|w3m|e?links|gh|glab|ssh|scp|sftp|ftp|nc|ncat"
    r"|socat|telnet|dig|nslookup|host|whois"
    r"|git(?:\s+-\S+(?:\s+[^-\s]\S*)?)*\s+(?:clone|fetch|pull|ls-remote))(?![\w.-])"
)


class OriginTracker:
    def __init__(
        self,
        *,
        workspace: Path,
        own: Sequence[Path],
        reach: Callable[[str], NetworkReach],
        source: Callable[[str], str],
        facts: Iterable[Fact] = (),
    ) -> None:
        """`own`: the session's kept outputs, and what the person has put there for the model.
        `reach`: of a call, by its id. `source`: of a tool. `facts`: what happened before."""
        self._workspace = workspace
        self._own = own
        self._reach = reach
        self._source = source
        self._logs: dict[str, str] = {}
        self.is_untrusted = False
        """Whether any text from elsewhere has been told to the model."""
        for fact in facts:
            if isinstance(fact, FileAttached):
                self.is_untrusted = True
            if isinstance(fact, CallFinished) and fact.result.origin:
                self.is_untrusted = True
                if isinstance(fact.result.details, Command):
                    self._logs[fact.result.details.log_path] = fact.result.origin

    def __call__(self, call: ToolCall, output: Output) -> str:
        """The origin of a result; empty: the workspace."""
        origin = (
            output.origin or self._origin_of_server(call) or self._origin_of_details(call, output)
        )
        if origin and isinstance(output.details, Command):
            self._logs[output.details.log_path] = origin
            if output.details.background_pid is not None and not output.details.was_moved:
                return ""  # nothing of it has been told yet
        self.is_untrusted = self.is_untrusted or bool(origin)
        return origin

    def _origin_of_server(self, call: ToolCall) -> str:
        kind, _, server = self._source(call.name).partition(" ")
        return f"the MCP server {server}" if kind == "mcp" else ""

    def _origin_of_details(self, call: ToolCall, output: Output) -> str:
        match output.details:
            case Command(command=command):
                return self._origin_of_command(call, command)
            case FileView(path=path) | Matches(path=path):
                return self._origin_of_path(path)
            case _:
                return ""

    def _origin_of_command(self, call: ToolCall, command: str) -> str:
        reach = self._reach(call.id)
        if reach == "granted" or (reach == "unconfined" and _FETCHERS.search(command)):
            return NETWORK
        return next((origin for log, origin in self._logs.items() if log and log in command), "")

    def _origin_of_path(self, path: str) -> str:
        """By the path as it was given: a link in the workspace that leads out is never followed."""
        place = self._workspace / path
        if place.is_relative_to(self._workspace):
            return ""
        if not any(place.is_relative_to(own) for own in self._own):
            return OUTSIDE
        within = (origin for log, origin in self._logs.items() if Path(log).is_relative_to(place))
        return next(within, "")
