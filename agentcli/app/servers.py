"""The MCP servers of a session: from the person's files to tools, each started when it is needed.

Where no server is written down nothing is loaded. A server whose tools were accepted before costs
nothing until one of them is called; the others are asked for theirs together, before the first
request. Whatever goes wrong with one is a warning, and the others are as they were.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.toolset import Load
from agentcli.app.boundary import Boundary
from agentcli.app.server_entries import approvals
from agentcli.app.server_library import ServerLibrary
from agentcli.app.server_links import ServerLinks
from agentcli.app.server_menu import ServerMenu
from agentcli.app.server_questions import ServerQuestions
from agentcli.machine.plain import visible
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Warned
from agentcli.types.record import dataclass
from agentcli.types.tools import Tool, ToolSpec

if TYPE_CHECKING:
    from agentcli.app.server_sampling import ServerSampling
    from agentcli.mcp.approved import Change
    from agentcli.mcp.content import Keeping
    from agentcli.mcp.entries import ServerEntry
    from agentcli.mcp.link import Link
    from agentcli.mcp.offered import Offered

WARNING_CHARS = 1_000

Offers = Iterator[tuple[ToolSpec, Load]]
KeepStates = Callable[[Iterable[tuple[ToolSpec, Load]]], Offers]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """How things stand with a server, for people."""

    entry: "ServerEntry"
    words: str
    tools: "tuple[Offered, ...]"
    """As far as they are known."""
    log_path: Path | None
    """Of what its process says besides; None: it has none, or was not started."""


class Servers:
    def __init__(
        self,
        entries: "Sequence[ServerEntry]",
        settings: Settings,
        *,
        boundary: Boundary,
        place: SessionPlace,
        tell: Emit,
        takes_images: Callable[[], bool] = lambda: True,
        keep_states: KeepStates = iter,
        problems: Sequence[str] = (),
    ) -> None:
        """`keep_states`: around tools that may change the workspace."""
        self.entries = entries
        self.warnings = [Warned(code="mcp.entry", message=problem) for problem in problems]
        self._boundary = boundary
        self._place = place
        self._tell = tell
        self._takes_images = takes_images
        self._keep_states = keep_states
        self._approvals = approvals()
        self._questions = ServerQuestions(boundary, tell=tell, warn=self._warn)
        self._links = ServerLinks(
            settings,
            boundary=boundary,
            directory=place.directory / "mcp",
            fill_in=self._questions.fill_in,
        )
        self._one_review_at_a_time = asyncio.Lock()
        self._listed: dict[str, Mapping[str, Offered]] = {}
        """What each server has offered last."""
        self._reviews: set[str] = set()
        """Lists of tools that the person was asked about, or warned of: once is enough."""
        self.library = ServerLibrary(self, boundary, tell=tell)
        self.menu = ServerMenu(self)
        self.admit: Callable[[Offers], None] = _nowhere
        """Takes the tools that a person has accepted in the middle of a session."""
        self._offered: dict[str, tuple[Offered, ...]] = {}
        self._warned: set[str] = set()
        for entry in entries:
            if (accepted := self._approvals.of(entry)) is not None:
                self._offered[entry.name] = accepted

    def offers(self) -> Offers:
        """The tools that are known by now."""
        for entry in self.entries:
            yield from self._offers_of(entry)

    def _offers_of(self, entry: "ServerEntry") -> Offers:
        offers = (
            (tool.spec(entry.name), partial(self._tool, entry, tool))
            for tool in self._offered.get(entry.name, ())
        )
        return offers if entry.is_remote else self._keep_states(offers)

    def reading(self) -> set[str]:
        """The tools that only read: their server says so, and so does the person."""
        return {
            tool.spec(entry.name).name
            for entry in self.entries
            for tool in self._offered.get(entry.name, ())
            if tool.says_read_only and entry.only_reads(tool.name)
        }

    async def ask_new(self) -> Offers:
        """Asks all servers whose tools are not known, at once; their tools are accepted as told."""
        unknown = [entry for entry in self.entries if entry.name not in self._offered]
        ended = await asyncio.gather(*map(self._ask, unknown), return_exceptions=True)
        for entry, fault in zip(unknown, ended, strict=True):
            if isinstance(fault, Exception):  # nothing that a server does may end the session
                self._offered[entry.name] = ()
                self._warn("mcp.failed", f"the MCP server {entry.name} cannot be used: {fault!r}")
        names = {entry.name for entry in unknown}
        return (one for one in self.offers() if one[0].source.removeprefix("mcp ") in names)

    async def listed(self, entry: "ServerEntry") -> "tuple[Offered, ...]":
        """What a server offers now. Raises ServerFault."""
        tools = await self.link(entry).tools()
        self._warn_of_list(entry)
        return tuple(tools.values())

    def states(self) -> list[ServerState]:
        return [self._state(entry) for entry in self.entries]

    def _state(self, entry: "ServerEntry") -> ServerState:
        link = self._links.made(entry)
        if link is not None and (link.fault or link.is_starting or link.is_up):
            words = f"failed: {link.fault}" if link.fault else "ready" if link.is_up else "starting"
        else:
            is_known = bool(self._offered.get(entry.name))
            words = "is started when a tool of it is called" if is_known else "not asked yet"
        log_path = self._links.log_path(entry)
        return ServerState(
            entry=entry,
            words=words,
            tools=self._offered.get(entry.name, ()),
            log_path=log_path if log_path.exists() else None,
        )

    async def ask_again(self, entry: "ServerEntry") -> Offers:
        """Starts it anew, whatever came of it before. Raises ServerFault."""
        await self.link(entry).start_over()
        tools = await self.link(entry).tools()
        self._warn_of_list(entry)
        if self._offered.get(entry.name):
            await self._reviewed(entry, tools)
        else:
            self._accept(entry, tools)
        return self._offers_of(entry)

    def said(self, entry: "ServerEntry") -> str:
        """The last lines of its stderr, for people."""
        return self._links.said(entry)

    def sample_by(self, sampling: "ServerSampling") -> None:
        """Lets servers ask the model, as far as their entries say so."""
        self._links.sampling = sampling

    async def close(self) -> None:
        await self._links.close()

    async def _ask(self, entry: "ServerEntry") -> None:
        from agentcli.mcp.faults import ServerFault

        try:
            tools = await self.listed(entry)
            self._approvals.store(entry, tools)
        except (ServerFault, SettingsError) as error:
            tools = ()
            self._warn("mcp.failed", str(error))
        self._offered[entry.name] = tools

    def link(self, entry: "ServerEntry") -> "Link":
        return self._links.to(entry)

    def named(self, name: str) -> "ServerEntry | None":
        return next((entry for entry in self.entries if entry.name == name), None)

    def keeping(self) -> "Keeping":
        from agentcli.mcp.content import Keeping

        return Keeping(directory=self._place.out, takes_images=self._takes_images)

    def _tool(self, entry: "ServerEntry", tool: "Offered") -> Tool:
        from agentcli.mcp.tool import ServerTool

        return ServerTool(
            tool, self.link(entry), keeping=self.keeping(), review=partial(self._reviewed, entry)
        )

    async def _reviewed(
        self, entry: "ServerEntry", now: "Mapping[str, Offered]"
    ) -> "Mapping[str, Offered]":
        """What is accepted of a server, once the person was asked about what has changed."""
        async with self._one_review_at_a_time:
            if self._listed.get(entry.name) is not now:
                self._warn_of_list(entry)
                await self._review(entry, now)
                self._listed[entry.name] = now
            return {tool.name: tool for tool in self._offered.get(entry.name, ())}

    async def _review(self, entry: "ServerEntry", now: "Mapping[str, Offered]") -> None:
        from agentcli.mcp.approved import change, described

        before = self._offered.get(entry.name, ())
        difference = change(before, now.values())
        then, new = described(before), described(now.values())
        if not difference or new in self._reviews:
            return
        if not self._boundary.can_ask:
            self._warn_of(entry, difference)
        elif await self._questions.accepts(entry, difference, before=then, now=new):
            self._accept(entry, now)
            self.admit(self._offers_of(entry))
        self._reviews.add(new)

    def _accept(self, entry: "ServerEntry", tools: "Mapping[str, Offered]") -> None:
        """Where it cannot be stored it holds for this session."""
        self._offered[entry.name] = tuple(tools.values())
        try:
            self._approvals.store(entry, self._offered[entry.name])
        except SettingsError as error:
            self._warn("mcp.failed", str(error))

    def _warn_of(self, entry: "ServerEntry", difference: "Change") -> None:
        self._warn(
            "mcp.changed",
            f"the MCP server {entry.name} offers other tools than were accepted "
            f"({difference}); look at them with agentcli mcp approve {entry.name}",
        )

    def _warn_of_list(self, entry: "ServerEntry") -> None:
        for remark in self.link(entry).remarks:
            self._warn("mcp.listed", f"the MCP server {entry.name}: {remark}")

    def _warn(self, code: str, message: str) -> None:
        shown = visible(message)[:WARNING_CHARS]
        if shown not in self._warned:
            self._warned.add(shown)
            self._tell(Warned(code=code, message=shown))


def _nowhere(offers: Offers) -> None:
    """Outside of a session nobody calls them."""
