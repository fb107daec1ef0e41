"""MCP servers on the command line: the list, the tools they offer, and their cost in tokens."""

import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from agentcli.features.mcp.approvals import OfferedTool, compare_tools
from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.faults import ServerFault
from agentcli.features.mcp.login import LoginBrowser, LoginError, log_in
from agentcli.features.mcp.render_server import (
    NO_SERVERS,
    describe_terms,
    format_tool_cost,
    shorten_description,
)
from agentcli.features.mcp.server_files import open_approvals, open_trials
from agentcli.features.mcp.server_list import (
    NewServer,
    add_server,
    find_entry,
    load_entries,
    open_server,
    remove_server,
)
from agentcli.features.mcp.servers import Servers
from agentcli.features.mcp.tokens import ServerLoginStore, forget_logins
from agentcli.session.project import Project, load_project
from agentcli.session.secrets import build_redactor
from agentcli.settings import load_settings
from agentcli.system.browser import is_page, open_page, parse_host
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.types.settings import Settings
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import format_age
from agentcli.ui.repl.external import LineReader
from agentcli.ui.report import print_line


def add(name: str, new: NewServer) -> Exit:
    path = add_server(name, new)
    print_line(f"added {name} to {path}; test it: agentcli mcp test {name}")
    return Exit.DONE


def remove(name: str) -> Exit:
    path = remove_server(name)
    forget_logins(name)
    print_line(f"removed {name} from {path}")
    return Exit.DONE


def show_servers(workspace: Path, *, config: str | None) -> Exit:
    settings, project = load_settings_and_project(workspace, config)
    found = load_entries(settings, project)
    mask = build_redactor(settings).mask
    for entry in found.servers:
        accepted = open_approvals().find(entry)
        tools = _describe_trial(entry) if accepted is None else format_tool_cost(entry, accepted)
        print_line(mask(f"{entry.name}  {entry.shown}\n  {tools}; {describe_terms(entry)}"))
    for problem in found.problems:
        print_line(f"problem: {problem}")
    if project and project.warning:
        print_line(project.warning)
    if not found.servers and not found.problems:
        print_line(NO_SERVERS)
    return Exit.SETTINGS if found.problems else Exit.DONE


def test_servers(names: list[str], workspace: Path, *, config: str | None) -> Exit:
    """Test the named servers, one after the other, or all of them if no name is given."""
    settings, project = load_settings_and_project(workspace, config)
    found = load_entries(settings, project)
    wanted = [find_entry(name, found) for name in names] or list(found.servers)
    if not wanted:
        raise UsageError("no servers to test", hint="agentcli mcp add --help")
    results = [asyncio.run(_test_server(settings, entry)) for entry in wanted]
    return Exit.DONE if all(results) else Exit.PROVIDER


def approve(name: str, workspace: Path, *, config: str | None, yes: bool) -> Exit:
    settings, project = load_settings_and_project(workspace, config)
    entry = find_entry(name, load_entries(settings, project))
    listed = asyncio.run(_list_tools(settings, entry))
    if listed is None:
        return Exit.PROVIDER
    tools, instructions = listed
    approvals = open_approvals()
    difference = compare_tools(approvals.find(entry) or (), tools)
    is_said_anew = instructions != approvals.find_instructions(entry)
    if not difference and not is_said_anew:
        print_line(f"{name} is already approved: {format_tool_cost(entry, tools)}")
        return Exit.DONE
    for tool in tools:
        if tool.name in difference.added + difference.changed:
            print_line(
                f"{'changed' if tool.name in difference.changed else 'new    '}  "
                f"{_format_tool(tool)}"
            )
    for removed in difference.removed:
        print_line(f"removed  {removed}")
    if is_said_anew:
        print_line(f"new instructions for the model:\n{instructions or '(none)'}")
    if not yes and not _confirm(f"Approve the tools of {name}?"):
        print_line("not approved")
        return Exit.DENIED
    approvals.store(entry, tools, instructions=instructions)
    print_line(f"approved {format_tool_cost(entry, tools)}")
    return Exit.DONE


async def _test_server(settings: Settings, entry: ServerEntry) -> bool:
    began = time.monotonic()
    async with open_server(settings, entry) as servers:
        try:
            tools = await servers.list_tools(entry)
        except ServerFault as fault:
            print_line(build_redactor(settings).mask(f"{entry.name}: {fault}"))
            _say_log(servers, entry)
            _store_trial(entry, None)
            return False
        took_ms = (time.monotonic() - began) * 1000
        protocol = servers.connect(entry).protocol
        remarks = servers.connect(entry).remarks
    for tool in tools:
        print_line(f"  {_format_tool(tool)}")
    accepted = open_approvals().find(entry)
    difference = compare_tools(accepted, tools) if accepted is not None else None
    print_line(
        f"{entry.name}: {format_tool_cost(entry, tools)}, protocol {protocol}, ready in "
        f"{took_ms:.0f} ms"
    )
    _say_remarks(remarks)
    if difference:
        print_line(f"  changed since approval ({difference}): agentcli mcp approve {entry.name}")
    _store_trial(entry, len(tools))
    return True


def _store_trial(entry: ServerEntry, tools: int | None) -> None:
    try:
        open_trials().store(entry, tools)
    except SettingsError as error:
        print_line(f"  result not saved: {error}")


def _describe_trial(entry: ServerEntry) -> str:
    """Describe a server whose tools were not accepted yet."""
    trial = open_trials().find(entry)
    if trial is None:
        return "not tested yet"
    if trial.tools is None:
        return f"test failed {format_age(trial.at)}"
    return f"tested {format_age(trial.at)}: {pluralize(trial.tools, 'tool')}, not approved yet"


async def _list_tools(
    settings: Settings, entry: ServerEntry
) -> tuple[tuple[OfferedTool, ...], str] | None:
    """Return the tools and the instructions of a server, or None if it fails."""
    async with open_server(settings, entry) as servers:
        try:
            tools = await servers.list_tools(entry)
        except ServerFault as fault:
            print_line(build_redactor(settings).mask(f"{entry.name}: {fault}"))
            _say_log(servers, entry)
            return None
        _say_remarks(servers.connect(entry).remarks)
        return tools, servers.connect(entry).instructions


def _say_remarks(remarks: Iterable[str]) -> None:
    for remark in remarks:
        print_line(f"  warning: {remark}")


def _say_log(servers: Servers, entry: ServerEntry) -> None:
    for line in servers.read_stderr(entry).splitlines():
        print_line(f"  | {line}")


def load_settings_and_project(
    workspace: Path, config: str | None
) -> tuple[Settings, Project | None]:
    settings = load_settings({"mcp_config": config}, workspace=workspace)
    return settings, load_project(settings.workspace)


def _format_tool(tool: OfferedTool) -> str:
    return f"{tool.name}  {shorten_description(tool)}".rstrip()


def _confirm(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("approving needs a terminal", hint="agentcli mcp approve NAME --yes")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# Login from the command line: show the address to open, and wait for the way back


def login(name: str, workspace: Path, *, config: str | None, opens_browser: bool) -> Exit:
    """Log in to a server. Raise AgentError if that fails."""
    entry = _find_remote_server(name, workspace, config=config)
    if entry.brings_key:
        raise UsageError(
            f"{name} uses the Authorization header in {entry.where}, so it cannot use a login",
            hint=f"remove the header from {entry.where}",
        )
    try:
        granted = asyncio.run(
            log_in(entry, _build_browser(entry, workspace, opens_browser=opens_browser))
        )
    except LoginError as error:
        raise SettingsError(
            f"login to {name} failed: {error}", hint=f"agentcli mcp login {name}"
        ) from None
    if granted is None:
        _say_now(f"{name} needs no login")
        return Exit.DONE
    store = ServerLoginStore(entry)
    store.write(granted)
    open_trials().forget(entry)  # it may have failed because of the missing login alone
    _say_now(f"logged in to {name}; saved in {store.location}")
    return Exit.DONE


def logout(name: str, workspace: Path, *, config: str | None) -> Exit:
    was_there = ServerLoginStore(_find_remote_server(name, workspace, config=config)).forget()
    _say_now(f"logged out of {name}" if was_there else f"you were not logged in to {name}")
    return Exit.DONE


def _build_browser(entry: ServerEntry, workspace: Path, *, opens_browser: bool) -> LoginBrowser:
    reader = LineReader(sys.stdin.fileno()) if sys.stdin.isatty() else None

    async def read_pasted_url() -> str | None:
        return await reader.read_line() if reader else None

    def show(text: str) -> None:
        if not is_page(text):
            _say_now(text)
            return
        _say_now(f"log in to {entry.name} at {parse_host(text)}:\n\n{text}\n")
        if opens_browser and open_page(text, workspace=workspace):
            _say_now("(opened in your browser)")
        if reader is not None:
            _say_now(
                "If your browser runs on another machine, the last page will not load. Paste the"
            )
            _say_now("address of that page here:")

    return LoginBrowser(show=show, pasted=read_pasted_url)


def _find_remote_server(name: str, workspace: Path, *, config: str | None) -> ServerEntry:
    settings, project = load_settings_and_project(workspace, config)
    entry = find_entry(name, load_entries(settings, project))
    if not entry.is_remote:
        raise UsageError(
            f"{name} runs on this machine and needs no login",
            hint=f"agentcli mcp test {name}",
        )
    return entry


def _say_now(text: str) -> None:
    sys.stdout.write(show_controls(text) + "\n")
    sys.stdout.flush()
