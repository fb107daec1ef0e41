"""The MCP servers of a session: from the person's files to tools, each started when it is needed.

Where no server is written down nothing is loaded. A server whose tools were accepted before costs
nothing until one of them is called; the others are asked for theirs together, before the first
request. Whatever goes wrong with one is a warning, and the others are as they were.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from agentcli.agent.toolset import Load
from agentcli.app.boundary import Boundary
from agentcli.app.project import Project
from agentcli.app.server_entries import approvals, read_entries
from agentcli.machine.plain import visible
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Warned
from agentcli.types.tools import Tool, ToolSpec

if TYPE_CHECKING:
    from agentcli.app.server_process import ServerProcess
    from agentcli.mcp.entries import ServerEntry
    from agentcli.mcp.link import Link
    from agentcli.mcp.local import LocalServer
    from agentcli.mcp.offered import Offered

WARNING_CHARS = 1_000

Offers = Iterator[tuple[ToolSpec, Load]]
KeepStates = Callable[[Iterable[tuple[ToolSpec, Load]]], Offers]


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
        self._settings = settings
        self._boundary = boundary
        self._place = place
        self._directory = place.directory / "mcp"
        self._tell = tell
        self._takes_images = takes_images
        self._keep_states = keep_states
        self._approvals = approvals()
        self._links: dict[str, Link] = {}
        self._locals: dict[str, LocalServer] = {}
        self._processes: list[ServerProcess] = []
        self._offered: dict[str, tuple[Offered, ...]] = {}
        self._warned: set[str] = set()
        for entry in entries:
            if (accepted := self._approvals.of(entry)) is not None:
                self._offered[entry.name] = accepted

    def offers(self) -> Offers:
        """The tools that are known by now."""
        for entry in self.entries:
            offers = (
                (tool.spec(entry.name), partial(self._tool, entry, tool))
                for tool in self._offered.get(entry.name, ())
            )
            yield from offers if entry.is_remote else self._keep_states(offers)

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
        return tuple((await self.link(entry).tools()).values())

    def said(self, entry: "ServerEntry") -> str:
        """The last lines of its stderr, for people."""
        return self._locals[entry.name].said if entry.name in self._locals else ""

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))
        for one in self._processes:
            one.close()

    async def _ask(self, entry: "ServerEntry") -> None:
        from agentcli.mcp.link import ServerFault

        try:
            tools = await self.listed(entry)
            self._approvals.store(entry, tools)
        except (ServerFault, SettingsError) as error:
            tools = ()
            self._warn("mcp.failed", str(error))
        self._offered[entry.name] = tools

    def link(self, entry: "ServerEntry") -> "Link":
        if entry.name not in self._links:
            self._links[entry.name] = self._new_link(entry)
        return self._links[entry.name]

    def _new_link(self, entry: "ServerEntry") -> "Link":
        from agentcli.mcp.link import Link

        new = partial(
            Link,
            entry,
            workspace=self._settings.workspace,
            on_listed=partial(self._compare, entry),
            on_question=partial(self._declined, entry),
        )
        if entry.is_remote:
            from agentcli.mcp.remote import RemoteServer

            remote = RemoteServer(entry)
            return new(open_transport=remote.transport, last_words=remote.last_words)
        from agentcli.app.server_process import ServerProcess
        from agentcli.mcp.local import LocalServer

        process = ServerProcess(
            entry=entry,
            settings=self._settings,
            boundary=self._boundary,
            directory=self._directory,
        )
        self._processes.append(process)
        local = self._locals[entry.name] = LocalServer(
            process.launch,
            log_path=self._directory / f"{entry.name}.log",
            clean=self._boundary.clean_output,
        )
        return new(
            open_transport=local.transport, last_words=local.last_words, is_lost=local.is_lost
        )

    def _tool(self, entry: "ServerEntry", tool: "Offered") -> Tool:
        from agentcli.mcp.content import Keeping
        from agentcli.mcp.tool import ServerTool

        keeping = Keeping(directory=self._place.out, takes_images=self._takes_images)
        return ServerTool(tool, self.link(entry), keeping=keeping)

    def _compare(self, entry: "ServerEntry", now: "Mapping[str, Offered]") -> None:
        from agentcli.mcp.approved import change

        if not self._offered.get(entry.name):
            return
        if difference := change(self._offered[entry.name], now.values()):
            self._warn(
                "mcp.changed",
                f"the MCP server {entry.name} offers other tools than were accepted "
                f"({difference}); look at them with agentcli mcp approve {entry.name}",
            )

    def _declined(self, entry: "ServerEntry", message: str) -> None:
        self._warn(
            "mcp.question", f"the MCP server {entry.name} asked, and was declined: {message}"
        )

    def _warn(self, code: str, message: str) -> None:
        shown = visible(message)[:WARNING_CHARS]
        if shown not in self._warned:
            self._warned.add(shown)
            self._tell(Warned(code=code, message=shown))


def open_servers(
    settings: Settings,
    place: SessionPlace,
    *,
    project: Project | None,
    boundary: Boundary,
    tell: Emit,
    takes_images: Callable[[], bool],
    keep_states: KeepStates,
) -> Servers | None:
    """None: nobody has written any down."""
    entries = read_entries(settings, project)
    if entries is None:
        return None
    return Servers(
        entries.servers,
        settings,
        boundary=boundary,
        place=place,
        tell=tell,
        takes_images=takes_images,
        keep_states=keep_states,
        problems=entries.problems,
    )
