"""MCP servers on the command line: what there are, what they offer, and what that costs."""

import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from agentcli.app.project import Project, open_project
from agentcli.app.server_entries import approvals, trials
from agentcli.app.server_list import (
    NewServer,
    add_server,
    entries,
    entry_named,
    remove_server,
    visit,
)
from agentcli.app.server_logins import forget_logins
from agentcli.app.servers import Servers
from agentcli.machine.plain import visible
from agentcli.mcp.approved import change
from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.faults import ServerFault
from agentcli.mcp.offered import Offered
from agentcli.settings import Settings, load
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.types.words import counted
from agentcli.ui.server_words import NO_SERVERS, cost, described, terms
from agentcli.ui.sessions import age


def add(name: str, new: NewServer) -> Exit:
    path = add_server(name, new)
    _say(f"added {name} to {path}; see what it offers: agentcli mcp test {name}")
    return Exit.DONE


def remove(name: str) -> Exit:
    path = remove_server(name)
    forget_logins(name)
    _say(f"removed {name} from {path}")
    return Exit.DONE


def show(workspace: Path, *, config: str | None) -> Exit:
    settings, project = surroundings(workspace, config)
    found = entries(settings, project)
    for entry in found.servers:
        accepted = approvals().of(entry)
        tools = _tried(entry) if accepted is None else cost(entry, accepted)
        _say(f"{entry.name}  {entry.shown}\n  {tools}; {terms(entry)}")
    for problem in found.problems:
        _say(f"problem: {problem}")
    if project and project.warning:
        _say(project.warning)
    if not found.servers and not found.problems:
        _say(NO_SERVERS)
    return Exit.SETTINGS if found.problems else Exit.DONE


def test(names: list[str], workspace: Path, *, config: str | None) -> Exit:
    """All of them without a name, one after the other."""
    settings, project = surroundings(workspace, config)
    found = entries(settings, project)
    wanted = [entry_named(name, found) for name in names] or list(found.servers)
    if not wanted:
        raise UsageError("there is no server to test", hint="agentcli mcp add --help")
    results = [asyncio.run(_tested(settings, entry)) for entry in wanted]
    return Exit.DONE if all(results) else Exit.PROVIDER


def approve(name: str, workspace: Path, *, config: str | None, yes: bool) -> Exit:
    settings, project = surroundings(workspace, config)
    entry = entry_named(name, entries(settings, project))
    tools = asyncio.run(_listed(settings, entry))
    if tools is None:
        return Exit.PROVIDER
    difference = change(approvals().of(entry) or (), tools)
    if not difference:
        _say(f"{name} offers what was accepted: {cost(entry, tools)}")
        return Exit.DONE
    for tool in tools:
        if tool.name in difference.added + difference.changed:
            _say(f"{'changed' if tool.name in difference.changed else 'new    '}  {_line(tool)}")
    for gone in difference.removed:
        _say(f"gone     {gone}")
    if not yes and not _agrees(f"accept these tools of {name}?"):
        _say("not accepted")
        return Exit.DENIED
    approvals().store(entry, tools)
    _say(f"accepted {cost(entry, tools)}")
    return Exit.DONE


async def _tested(settings: Settings, entry: ServerEntry) -> bool:
    began = time.monotonic()
    async with visit(settings, entry) as servers:
        try:
            tools = await servers.listed(entry)
        except ServerFault as fault:
            _say(f"{entry.name}: {fault}")
            _say_log(servers, entry)
            _remember(entry, None)
            return False
        took_ms = (time.monotonic() - began) * 1000
        protocol = servers.link(entry).protocol
        remarks = servers.link(entry).remarks
    for tool in tools:
        _say(f"  {_line(tool)}")
    accepted = approvals().of(entry)
    difference = change(accepted, tools) if accepted is not None else None
    _say(f"{entry.name}: {cost(entry, tools)}, protocol {protocol}, ready in {took_ms:.0f} ms")
    _say_remarks(remarks)
    if difference:
        _say(f"  other than accepted ({difference}): agentcli mcp approve {entry.name}")
    _remember(entry, len(tools))
    return True


def _remember(entry: ServerEntry, tools: int | None) -> None:
    try:
        trials().store(entry, tools)
    except SettingsError as error:
        _say(f"  not kept for agentcli mcp list: {error}")


def _tried(entry: ServerEntry) -> str:
    """What is known of a server whose tools nobody has accepted."""
    trial = trials().of(entry)
    if trial is None:
        return "not asked yet"
    if trial.tools is None:
        return f"failed when tested, {age(trial.at)}"
    return (
        f"answered when tested, {age(trial.at)}: {counted(trial.tools, 'tool')}, not accepted yet"
    )


async def _listed(settings: Settings, entry: ServerEntry) -> tuple[Offered, ...] | None:
    async with visit(settings, entry) as servers:
        try:
            tools = await servers.listed(entry)
        except ServerFault as fault:
            _say(f"{entry.name}: {fault}")
            _say_log(servers, entry)
            return None
        _say_remarks(servers.link(entry).remarks)
        return tools


def _say_remarks(remarks: Iterable[str]) -> None:
    for remark in remarks:
        _say(f"  warning: {remark}")


def _say_log(servers: Servers, entry: ServerEntry) -> None:
    for line in servers.said(entry).splitlines():
        _say(f"  | {line}")


def surroundings(workspace: Path, config: str | None) -> tuple[Settings, Project | None]:
    settings = load({"mcp_config": config}, workspace=workspace)
    return settings, open_project(settings.workspace)


def _line(tool: Offered) -> str:
    return f"{tool.name}  {described(tool)}".rstrip()


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here", hint="agentcli mcp approve NAME --yes")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")
