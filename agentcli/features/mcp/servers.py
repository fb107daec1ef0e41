"""The MCP servers of a session: from the user's files to tools, each started when needed.

If no server is configured, nothing is loaded. A server whose tools were accepted before costs
nothing until one of them is called. The others are asked for their tools together, before the first
request. A failure of one is a warning, and the others are not affected.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agentcli.agent.toolset import Load
from agentcli.features.mcp.attachments import ServerLibrary, ServerMenu
from agentcli.features.mcp.server_files import open_approvals
from agentcli.features.mcp.server_pool import ServerConnections
from agentcli.session.features import SessionFeature
from agentcli.session.permission_gate import PermissionGate
from agentcli.settings import Settings
from agentcli.system import diff
from agentcli.system.browser import is_page, open_page, parse_host
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, ServerAsked, Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image, Json, ToolCall
from agentcli.types.tools import Details, Diff, Effect, Tool, ToolSpec
from agentcli.types.verdicts import (
    FormAnswer,
    FormValues,
    Question,
    RuleSuggestion,
    ServerForm,
    Verdict,
)

if TYPE_CHECKING:
    from agentcli.features.mcp.approvals import OfferedTool, ToolListChange
    from agentcli.features.mcp.connection import ServerConnection
    from agentcli.features.mcp.entries import ServerEntry
    from agentcli.features.mcp.session_sampling import ServerSampling
    from agentcli.features.mcp.tool import ContentStore


# Questions of servers to the user: always with the server's name, never by accident


QUESTIONS_MAX = 30
"""The most questions of one server in one session."""

Warn = Callable[[str, str], None]
"""Takes a code for programs and a sentence for the user."""

_REASONS = {
    "form": "the MCP server {0} asks you; it gets what you type, so enter no passwords or keys",
    "url": "the MCP server {0} wants you to open a page",
    "tools": "the MCP server {0} has changed its tools since you approved them",
}


class ServerQuestions:
    def __init__(self, gate: PermissionGate, *, workspace: Path, emit: Emit, warn: Warn) -> None:
        self._gate = gate
        self._workspace = workspace
        self._emit = emit
        self._warn = warn
        self._count: Counter[str] = Counter()

    async def fill_in(self, form: ServerForm) -> FormAnswer:
        self._count[form.server] += 1
        if self._count[form.server] > QUESTIONS_MAX:
            self._warn(
                "mcp.question", f"the MCP server {form.server} asks too many questions; declined"
            )
            return FormAnswer(action="decline")
        if form.url and not is_page(form.url):
            self._warn(
                "mcp.question", f"the MCP server {form.server} wanted to open {form.url}; declined"
            )
            return FormAnswer(action="decline")
        answer = await self._ask(form, None)
        if form.url and answer.action == "accept":
            await self._open_page(form)
        return answer

    async def ask_to_accept(
        self, entry: "ServerEntry", difference: "ToolListChange", *, before: str, now: str
    ) -> bool:
        """Return whether the user accepts a list of tools that differs from the accepted one.

        `before` and `now` are everything the model sees of these tools."""
        form = ServerForm(server=entry.name, kind="tools", message=str(difference))
        compared = diff.compare(before, now, path=f"the tools of {entry.name}")
        preview = Diff(
            path=f"the tools of {entry.name}",
            unified=compared.unified,
            added=compared.added,
            removed=compared.removed,
        )
        return (await self._ask(form, preview)).action == "accept"

    async def _ask(self, form: ServerForm, preview: Details | None) -> FormAnswer:
        verdict = await self._gate.ask(_build_question(form, preview))
        answer = _parse_answer(verdict, form)
        if verdict.by == "nobody" and form.kind != "tools":
            self._warn(
                "mcp.question",
                f"declined a question of the MCP server {form.server}: {form.message}",
            )
        if verdict.by != "nobody":
            self._emit(
                ServerAsked(
                    server=form.server,
                    kind=form.kind,
                    message=form.message,
                    answer=answer.action,
                    fields=tuple(field.name for field in form.fields),
                )
            )
        return answer

    async def _open_page(self, form: ServerForm) -> None:
        if not await asyncio.to_thread(open_page, form.url, beside=self._workspace):
            self._warn("mcp.page", f"cannot open a browser; open this page yourself: {form.url}")


def _build_question(form: ServerForm, preview: Details | None) -> Question:
    shown: dict[str, Json] = {"asks": form.message}
    if form.url:
        shown = {"wants": form.message, "page": form.url, "host": parse_host(form.url)}
    for field in form.fields:
        about = field.description or field.title or field.kind
        shown[field.name] = f"({about}{'' if field.is_required else ', optional'})"
    return Question(
        call=ToolCall(id=f"mcp-{secrets.token_hex(6)}", name=form.server, input=shown),
        effect=Effect.NETWORK,
        preview=preview,
        verdict=Verdict(decision="ask", by="rule", reason=_REASONS[form.kind].format(form.server)),
        suggestion=RuleSuggestion(reason="questions from a server cannot be saved as rules"),
        form=form,
    )


def _parse_answer(verdict: Verdict, form: ServerForm) -> FormAnswer:
    match verdict.decision:
        case "modify" if isinstance(verdict.input, dict):
            return FormAnswer(action="accept", values=cast("FormValues", verdict.input))
        case "allow" if not form.fields:
            return FormAnswer(action="accept", values={} if form.kind == "form" else None)
        case "ask":
            return FormAnswer(action="cancel")
        case _:
            return FormAnswer(action="decline")


WARNING_CHARS = 1_000

Offers = Iterator[tuple[ToolSpec, Load]]
WrapOffers = Callable[[Iterable[tuple[ToolSpec, Load]]], Offers]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The state of a server, for the user."""

    entry: "ServerEntry"
    status: str
    tools: "tuple[OfferedTool, ...]"
    """The tools that are known so far."""
    log_path: Path | None
    """The log of its process's other output. None if it has no process or was not started."""


class Servers(SessionFeature):
    def __init__(
        self,
        entries: "Sequence[ServerEntry]",
        settings: Settings,
        *,
        gate: PermissionGate,
        emit: Emit,
        takes_images: Callable[[], bool] = lambda: True,
        wrap_offers: WrapOffers = iter,
        admit: Callable[[Offers], None] | None = None,
        sampling: "ServerSampling | None" = None,
        problems: Sequence[str] = (),
    ) -> None:
        """`wrap_offers` wraps tools that may change the workspace. `admit` takes tools that become
        known during a session. `sampling` lets servers ask the model, if their entries allow it."""
        self.entries = entries
        self.warnings = [Warned(code="mcp.entry", message=problem) for problem in problems]
        self._gate = gate
        self._admit = admit
        self._emit = emit
        self._takes_images = takes_images
        self._wrap_offers = wrap_offers
        self._approvals = open_approvals()
        self._questions = ServerQuestions(
            gate, workspace=settings.workspace, emit=emit, warn=self._warn
        )
        self._connections = ServerConnections(
            settings,
            gate=gate,
            directory=gate.host.paths.directory / "mcp",
            fill_in=self._questions.fill_in,
            sampling=sampling,
        )
        self._one_review_at_a_time = asyncio.Lock()
        self._listed: dict[str, Mapping[str, OfferedTool]] = {}
        """The last list of tools of each server."""
        self._reviews: set[str] = set()
        """Lists of tools that the user was asked about or warned of, so that it happens once."""
        self.library = ServerLibrary(self, gate, emit=emit)
        self.menu: ServerMenu = ServerMenu(self)
        self._offered: dict[str, tuple[OfferedTool, ...]] = {}
        self._warned: set[str] = set()
        for entry in entries:
            if (accepted := self._approvals.find(entry)) is not None:
                self._offered[entry.name] = accepted
        self.is_ready = False

    def iter_foreign_offers(self) -> Offers:
        """Yield the tools that are known so far."""
        for entry in self.entries:
            yield from self._iter_server_offers(entry)

    def _iter_server_offers(self, entry: "ServerEntry") -> Offers:
        offers = (
            (_build_spec(entry, tool), partial(self._build_tool, entry, tool))
            for tool in self._offered.get(entry.name, ())
        )
        return offers if entry.is_remote else self._wrap_offers(offers)

    async def prepare(self) -> None:
        """Ask the servers that were never asked for their tools, before the first request."""
        if not self.is_ready:
            self._admit_offers(await self.discover_new())
            self.is_ready = True

    def runs_prompt(self, message: str) -> bool:
        return self.library.runs_prompt(message)

    async def fetch(self, message: str) -> Sequence[str | Image]:
        return await self.library.fetch(message)

    def _admit_offers(self, offers: Offers) -> None:
        if self._admit is not None:
            self._admit(offers)

    async def discover_new(self) -> Offers:
        """Ask all servers whose tools are unknown, in parallel, and accept the tools they name."""
        unknown = [entry for entry in self.entries if entry.name not in self._offered]
        ended = await asyncio.gather(*map(self._discover, unknown), return_exceptions=True)
        for entry, fault in zip(unknown, ended, strict=True):
            if isinstance(fault, Exception):  # nothing that a server does may end the session
                self._offered[entry.name] = ()
                self._warn("mcp.failed", f"the MCP server {entry.name} cannot be used: {fault!r}")
        names = {entry.name for entry in unknown}
        return (
            one for one in self.iter_foreign_offers() if one[0].source.removeprefix("mcp ") in names
        )

    async def list_tools(self, entry: "ServerEntry") -> "tuple[OfferedTool, ...]":
        """Return the tools that a server offers now. Raise ServerFault if it fails."""
        tools = await self.connect(entry).tools()
        self._warn_listing(entry)
        return tuple(tools.values())

    def list_states(self) -> list[ServerState]:
        return [self._build_state(entry) for entry in self.entries]

    def _build_state(self, entry: "ServerEntry") -> ServerState:
        link = self._connections.find(entry)
        if link is not None and (link.fault or link.is_starting or link.is_up):
            words = f"failed: {link.fault}" if link.fault else "ready" if link.is_up else "starting"
        else:
            is_known = bool(self._offered.get(entry.name))
            words = "starts when one of its tools is called" if is_known else "not started yet"
        log_path = self._connections.get_log_path(entry)
        return ServerState(
            entry=entry,
            status=words,
            tools=self._offered.get(entry.name, ()),
            log_path=log_path if log_path.exists() else None,
        )

    async def restart_server(self, entry: "ServerEntry") -> None:
        """Restart a server, and offer the tools it has then. Raise SettingsError if it fails."""
        from agentcli.features.mcp.faults import ServerFault

        try:
            await self.connect(entry).restart()
            tools = await self.connect(entry).tools()
            self._warn_listing(entry)
            if self._offered.get(entry.name):
                await self._review_tools(entry, tools)
            else:
                self._accept(entry, tools)
        except ServerFault as fault:
            raise SettingsError(str(fault), hint=f"agentcli mcp test {entry.name}") from fault
        self._admit_offers(self._iter_server_offers(entry))

    def read_stderr(self, entry: "ServerEntry") -> str:
        """Return the last lines of its stderr, for the user."""
        return self._connections.read_stderr(entry)

    async def close(self) -> None:
        await self._connections.close()

    async def _discover(self, entry: "ServerEntry") -> None:
        from agentcli.features.mcp.faults import ServerFault

        try:
            tools = await self.list_tools(entry)
            self._approvals.store(entry, tools)
        except (ServerFault, SettingsError) as error:
            tools = ()
            self._warn("mcp.failed", str(error))
        self._offered[entry.name] = tools

    def connect(self, entry: "ServerEntry") -> "ServerConnection":
        return self._connections.connect(entry)

    def find_entry(self, name: str) -> "ServerEntry | None":
        return next((entry for entry in self.entries if entry.name == name), None)

    def build_content_store(self) -> "ContentStore":
        from agentcli.features.mcp.tool import ContentStore

        return ContentStore(directory=self._gate.host.paths.out, takes_images=self._takes_images)

    def _build_tool(self, entry: "ServerEntry", tool: "OfferedTool") -> Tool:
        from agentcli.features.mcp.tool import ServerTool

        return ServerTool(
            tool,
            self.connect(entry),
            keeping=self.build_content_store(),
            review=partial(self._review_tools, entry),
        )

    async def _review_tools(
        self, entry: "ServerEntry", now: "Mapping[str, OfferedTool]"
    ) -> "Mapping[str, OfferedTool]":
        """Return the accepted tools of a server, after asking the user about changes."""
        async with self._one_review_at_a_time:
            if self._listed.get(entry.name) is not now:
                self._warn_listing(entry)
                await self._review_change(entry, now)
                self._listed[entry.name] = now
            return {tool.name: tool for tool in self._offered.get(entry.name, ())}

    async def _review_change(self, entry: "ServerEntry", now: "Mapping[str, OfferedTool]") -> None:
        from agentcli.features.mcp.approvals import compare_tools, describe_tools

        before = self._offered.get(entry.name, ())
        difference = compare_tools(before, now.values())
        then, new = describe_tools(before), describe_tools(now.values())
        if not difference or new in self._reviews:
            return
        if not self._gate.can_ask:
            self._warn_change(entry, difference)
        elif await self._questions.ask_to_accept(entry, difference, before=then, now=new):
            self._accept(entry, now)
            self._admit_offers(self._iter_server_offers(entry))
        self._reviews.add(new)

    def _accept(self, entry: "ServerEntry", tools: "Mapping[str, OfferedTool]") -> None:
        """Accept the tools. If they cannot be stored, they count for this session."""
        self._offered[entry.name] = tuple(tools.values())
        try:
            self._approvals.store(entry, self._offered[entry.name])
        except SettingsError as error:
            self._warn("mcp.failed", str(error))

    def _warn_change(self, entry: "ServerEntry", difference: "ToolListChange") -> None:
        self._warn(
            "mcp.changed",
            f"the MCP server {entry.name} has other tools than you approved "
            f"({difference}); review them with agentcli mcp approve {entry.name}",
        )

    def _warn_listing(self, entry: "ServerEntry") -> None:
        for remark in self.connect(entry).remarks:
            self._warn("mcp.listed", f"the MCP server {entry.name}: {remark}")

    def _warn(self, code: str, message: str) -> None:
        shown = show_controls(message)[:WARNING_CHARS]
        if shown not in self._warned:
            self._warned.add(shown)
            self._emit(Warned(code=code, message=shown))


def _build_spec(entry: "ServerEntry", tool: "OfferedTool") -> ToolSpec:
    only_reads = tool.says_read_only and entry.only_reads(tool.name)
    return replace(tool.spec(entry.name), only_reads=only_reads)
