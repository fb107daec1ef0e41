"""MCP servers on the command line: what there are, what they offer, and what that costs."""

import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from agentcli.app.project import Project, load_project
from agentcli.app.server_entries import open_approvals, open_trials
from agentcli.app.server_list import (
    NewServer,
    add_server,
    find_entry,
    load_entries,
    open_server,
    remove_server,
)
from agentcli.app.server_logins import forget_logins
from agentcli.app.servers import Servers
from agentcli.machine.plain import show_controls
from agentcli.mcp.approved import compare_tools
from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.faults import ServerFault
from agentcli.mcp.offered import OfferedTool
from agentcli.settings import Settings, load_settings
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.types.words import pluralize
from agentcli.ui.server_words import (
    NO_SERVERS,
    describe_terms,
    format_tool_cost,
    shorten_description,
)
from agentcli.ui.sessions import format_age


def add(name: str, new: NewServer) -> Exit:
    path = add_server(name, new)
    _say(f"added {name} to {path}; see what it offers: agentcli mcp test {name}")
    return Exit.DONE


def remove(name: str) -> Exit:
    path = remove_server(name)
    forget_logins(name)
    _say(f"removed {name} from {path}")
    return Exit.DONE


def show_servers(workspace: Path, *, config: str | None) -> Exit:
    settings, project = load_settings_and_project(workspace, config)
    found = load_entries(settings, project)
    for entry in found.servers:
        accepted = open_approvals().find(entry)
        tools = _describe_trial(entry) if accepted is None else format_tool_cost(entry, accepted)
        _say(f"{entry.name}  {entry.shown}\n  {tools}; {describe_terms(entry)}")
    for problem in found.problems:
        _say(f"problem: {problem}")
    if project and project.warning:
        _say(project.warning)
    if not found.servers and not found.problems:
        _say(NO_SERVERS)
    return Exit.SETTINGS if found.problems else Exit.DONE


def test_servers(names: list[str], workspace: Path, *, config: str | None) -> Exit:
    """All of them without a name, one after the other."""
    settings, project = load_settings_and_project(workspace, config)
    found = load_entries(settings, project)
    wanted = [find_entry(name, found) for name in names] or list(found.servers)
    if not wanted:
        raise UsageError("there is no server to test", hint="agentcli mcp add --help")
    results = [asyncio.run(_test_server(settings, entry)) for entry in wanted]
    return Exit.DONE if all(results) else Exit.PROVIDER


def approve(name: str, workspace: Path, *, config: str | None, yes: bool) -> Exit:
    settings, project = load_settings_and_project(workspace, config)
    entry = find_entry(name, load_entries(settings, project))
    tools = asyncio.run(_list_tools(settings, entry))
    if tools is None:
        return Exit.PROVIDER
    difference = compare_tools(open_approvals().find(entry) or (), tools)
    if not difference:
        _say(f"{name} offers what was accepted: {format_tool_cost(entry, tools)}")
        return Exit.DONE
    for tool in tools:
        if tool.name in difference.added + difference.changed:
            _say(
                f"{'changed' if tool.name in difference.changed else 'new    '}  "
                f"{_format_tool(tool)}"
            )
    for gone in difference.removed:
        _say(f"gone     {gone}")
    if not yes and not _confirm(f"accept these tools of {name}?"):
        _say("not accepted")
        return Exit.DENIED
    open_approvals().store(entry, tools)
    _say(f"accepted {format_tool_cost(entry, tools)}")
    return Exit.DONE


async def _test_server(settings: Settings, entry: ServerEntry) -> bool:
    began = time.monotonic()
    async with open_server(settings, entry) as servers:
        try:
            tools = await servers.list_tools(entry)
        except ServerFault as fault:
            _say(f"{entry.name}: {fault}")
            _say_log(servers, entry)
            _store_trial(entry, None)
            return False
        took_ms = (time.monotonic() - began) * 1000
        protocol = servers.connect(entry).protocol
        remarks = servers.connect(entry).remarks
    for tool in tools:
        _say(f"  {_format_tool(tool)}")
    accepted = open_approvals().find(entry)
    difference = compare_tools(accepted, tools) if accepted is not None else None
    _say(
        f"{entry.name}: {format_tool_cost(entry, tools)}, protocol {protocol}, ready in "
        f"{took_ms:.0f} ms"
    )
    _say_remarks(remarks)
    if difference:
        _say(f"  other than accepted ({difference}): agentcli mcp approve {entry.name}")
    _store_trial(entry, len(tools))
    return True


def _store_trial(entry: ServerEntry, tools: int | None) -> None:
    try:
        open_trials().store(entry, tools)
    except SettingsError as error:
        _say(f"  not kept for agentcli mcp list: {error}")


def _describe_trial(entry: ServerEntry) -> str:
    """What is known of a server whose tools nobody has accepted."""
    trial = open_trials().find(entry)
    if trial is None:
        return "not asked yet"
    if trial.tools is None:
        return f"failed when tested, {format_age(trial.at)}"
    return (
        f"answered when tested, {format_age(trial.at)}: "
        f"{pluralize(trial.tools, 'tool')}, not accepted yet"
    )


async def _list_tools(settings: Settings, entry: ServerEntry) -> tuple[OfferedTool, ...] | None:
    async with open_server(settings, entry) as servers:
        try:
            tools = await servers.list_tools(entry)
        except ServerFault as fault:
            _say(f"{entry.name}: {fault}")
            _say_log(servers, entry)
            return None
        _say_remarks(servers.connect(entry).remarks)
        return tools


def _say_remarks(remarks: Iterable[str]) -> None:
    for remark in remarks:
        _say(f"  warning: {remark}")


def _say_log(servers: Servers, entry: ServerEntry) -> None:
    for line in servers.read_stderr(entry).splitlines():
        _say(f"  | {line}")


def load_settings_and_project(
    workspace: Path, config: str | None
) -> tuple[Settings, Project | None]:
    settings = load_settings({"mcp_config": config}, workspace=workspace)
    return settings, load_project(settings.workspace)


def _format_tool(tool: OfferedTool) -> str:
    return f"{tool.name}  {shorten_description(tool)}".rstrip()


def _confirm(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here", hint="agentcli mcp approve NAME --yes")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(text: str) -> None:
    sys.stdout.write(show_controls(text) + "\n")
