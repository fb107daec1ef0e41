"""The origin of a tool's text, if it is not the workspace. Such text is labelled.

Labelled are tools of servers, commands that could reach the network or did reach a host of it,
files outside the workspace, and the stored output of any of these. It is a label and no proof: what
a command saved in the workspace yesterday is a file of the workspace today.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentcli.system.lazy import compile_later
from agentcli.types.events import CallFinished, Fact, FileAttached, ModelReplied
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.sandbox import TemporaryFiles
from agentcli.types.tools import Command, FileView, Matches, Output, PreparedCall, WebPage

NETWORK = "the network"
OUTSIDE = "outside the workspace"

_FETCHERS = compile_later(
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
        is_confined: Callable[[], bool],
        facts: Iterable[Fact] = (),
        find_temporary: Callable[[], TemporaryFiles | None] = lambda: None,
        added: Callable[[], Grants] = lambda: NO_GRANTS,
    ) -> None:
        """`own` are the session's stored outputs, and files that the user put there for the model.
        `is_confined` returns whether commands run in a sandbox. `facts` are the earlier events of
        the session. `find_temporary` returns the temporary files that sandboxed commands made.
        `added` returns the directories that belong to the workspace by now."""
        self._workspace = workspace
        self._own = own
        self._added = added
        self._is_confined = is_confined
        self._find_temporary = find_temporary
        self._logs: dict[str, str] = {}
        self._fetching: set[str] = set()
        """The calls whose commands were let through to a host."""
        self._callers: dict[str, str] = {}
        """The calls that started commands, by the logs of their output."""
        self._is_untrusted = False
        for fact in facts:
            if isinstance(fact, FileAttached) or _has_searched(fact):
                self._is_untrusted = True
            if isinstance(fact, CallFinished) and fact.result.origin:
                self._is_untrusted = True
                if isinstance(fact.result.details, Command):
                    self._logs[fact.result.details.log_path] = fact.result.origin
                elif isinstance(fact.result.details, WebPage):
                    self._logs[fact.result.details.path] = fact.result.origin

    @property
    def is_untrusted(self) -> bool:
        """True if the model has seen any text from outside the workspace."""
        return self._is_untrusted

    def mark_untrusted(self) -> None:
        """Record that foreign text entered the conversation by another way than a result."""
        self._is_untrusted = True

    def mark_fetching(self, call_id: str) -> None:
        """Record that the command of a call was let through to a host of the network."""
        self._fetching.add(call_id)

    def __call__(self, prepared: PreparedCall, output: Output) -> str:
        """Return the origin of a result; empty if it is the workspace."""
        origin = (
            output.origin
            or _name_server_origin(prepared.tool.spec.source)
            or self._find_details_origin(prepared, output)
        )
        if origin and isinstance(output.details, WebPage) and output.details.path:
            self._logs[output.details.path] = origin
        if origin and isinstance(output.details, Command):
            self._logs[output.details.log_path] = origin
            if _is_unseen(output.details):
                return ""
        self._is_untrusted = self._is_untrusted or bool(origin)
        return origin

    def _find_details_origin(self, prepared: PreparedCall, output: Output) -> str:
        match output.details:
            case Command(command=command, log_path=log_path):
                # What a command prints on a terminal comes with later calls, too.
                caller = self._callers.setdefault(log_path, prepared.call.id)
                if caller in self._fetching:
                    return NETWORK
                return self._logs.get(log_path) or self._find_command_origin(command, prepared)
            case FileView(path=path) | Matches(path=path):
                return self._find_path_origin(path)
            case _:
                return ""

    def _find_command_origin(self, command: str, prepared: PreparedCall) -> str:
        grants = prepared.grants
        is_free = grants.outside or not self._is_confined()
        is_fetcher = is_free and _FETCHERS.search(command) is not None
        if grants.network or is_fetcher or prepared.call.id in self._fetching:
            return NETWORK
        return next((origin for log, origin in self._logs.items() if log and log in command), "")

    def _find_path_origin(self, path: str) -> str:
        """Return the origin by the path as given. A link out of the workspace is never followed."""
        full_path = self._workspace / path
        added = self._added()
        roots = (self._workspace, *added.writable, *added.readable)
        if any(full_path.is_relative_to(root) for root in roots):
            return ""
        temporary = self._find_temporary()
        names = temporary.names if temporary else ()
        if not any(full_path.is_relative_to(own) for own in (*self._own, *names)):
            return OUTSIDE
        within = (
            origin for log, origin in self._logs.items() if Path(log).is_relative_to(full_path)
        )
        return next(within, "")


def _is_unseen(ran: Command) -> bool:
    """Return whether the model has seen nothing of the output yet."""
    return ran.background_pid is not None and not ran.was_moved and ran.terminal is None


def _has_searched(fact: Fact) -> bool:
    """Return whether a provider read pages of the web for a reply."""
    return isinstance(fact, ModelReplied) and any(
        call.tool in ("web_search", "web_fetch") for call in fact.message.hosted
    )


def _name_server_origin(source: str) -> str:
    kind, _, server = source.partition(" ")
    return f"the MCP server {server}" if kind == "mcp" else ""
