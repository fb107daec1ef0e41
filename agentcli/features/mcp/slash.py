"""The slash command that lists MCP servers and restarts them."""

from agentcli.features.mcp.render_server import (
    NO_SERVERS,
    describe_terms,
    format_tool_cost,
    shorten_description,
)
from agentcli.features.mcp.servers import Servers, ServerState
from agentcli.session.project import load_project
from agentcli.system.files import shorten_home
from agentcli.types.errors import UsageError
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments


def list_mcp_arguments(host: CommandHost) -> list[tuple[str, str]]:
    servers = [(one.entry.name, one.status) for one in _list_states(host)]
    return [("restart", "restart one"), *servers]


async def run_mcp(host: CommandHost, rest: str) -> None:
    match rest.split():
        case []:
            _list_servers(host)
        case ["restart" | "retry"]:
            raise WrongArguments
        case ["restart" | "retry", name]:
            await _restart_server(host, _find_server(host, name))
        case [name]:
            _list_tools(host, _find_server(host, name))
        case _:
            raise WrongArguments


def _list_servers(host: CommandHost) -> None:
    states = _list_states(host)
    host.print_table([(one.entry.name, _describe_server(host, one)) for one in states])
    servers = _find_servers(host)
    for warned in servers.warnings if servers else ():
        host.say(escape(f"Problem: {warned.message}"), "dim")
    settings = host.session.settings
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    if project and project.warning:
        host.say(escape(project.warning), "dim")
    if not states:
        host.say(NO_SERVERS, "dim")


def _list_tools(host: CommandHost, server: ServerState) -> None:
    tools = [(tool.name, shorten_description(tool)) for tool in server.tools]
    host.print_table([(server.entry.name, _describe_server(host, server)), *tools])


def _describe_server(host: CommandHost, server: ServerState) -> str:
    tools = f"; {format_tool_cost(server.entry, server.tools)}" if server.tools else ""
    log = [f"log {shorten_home(server.log_path)}"] if server.log_path else []
    state = server.status.rstrip(".")
    address = host.session.gate.redactor.mask(server.entry.shown)
    return "\n".join([f"{state}{tools}", address, describe_terms(server.entry), *log])


async def _restart_server(host: CommandHost, server: ServerState) -> None:
    servers = _find_servers(host)
    assert servers is not None, "one of them was found"
    starting = servers.restart_server(server.entry)
    await host.wait_for(f"Starting {server.entry.name}", starting)
    _list_tools(host, _find_server(host, server.entry.name))


def _find_servers(host: CommandHost) -> Servers | None:
    servers = host.session.features.get("mcp")
    return servers if isinstance(servers, Servers) else None


def _list_states(host: CommandHost) -> list[ServerState]:
    servers = _find_servers(host)
    return servers.list_states() if servers else []


def _find_server(host: CommandHost, name: str) -> ServerState:
    for state in _list_states(host):
        if state.entry.name == name:
            return state
    raise UsageError(f"no MCP server {name}", hint="/mcp lists them")
