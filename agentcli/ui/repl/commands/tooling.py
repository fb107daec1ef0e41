"""Commands about what the model can call: its tools, and the servers some of them come from."""

from agentcli.app.project import open_project
from agentcli.app.servers import ServerState
from agentcli.types.errors import UsageError
from agentcli.ui.lines import short_path
from agentcli.ui.render.escape import escape
from agentcli.ui.repl.desk import Desk, SlashCommand
from agentcli.ui.server_words import NO_SERVERS, cost, described, terms
from agentcli.ui.tools import sums, tool_rows


def commands() -> list[SlashCommand]:
    return [
        SlashCommand(name="tools", usage="", help="what the model can call", run=_tools),
        SlashCommand(
            name="mcp",
            usage="[NAME | retry NAME]",
            help="MCP servers, the tools of one, or start one anew",
            run=_mcp,
            complete=lambda desk: [
                ("retry", "start one anew"),
                *((one.entry.name, one.words) for one in _states(desk)),
            ],
        ),
    ]


async def _tools(desk: Desk, rest: str) -> None:
    toolset = desk.session.catalogue.toolset
    desk.table(tool_rows(toolset))
    desk.say("\n".join(sums(toolset)), "dim")


async def _mcp(desk: Desk, rest: str) -> None:
    match rest.split():
        case []:
            _list_servers(desk)
        case ["retry"]:
            raise UsageError("start which server anew?", hint="/mcp lists them")
        case ["retry", name]:
            await _retry(desk, _named(desk, name))
        case [name]:
            _list_tools(desk, _named(desk, name))
        case _:
            raise UsageError("which server?", hint="/mcp lists them")


def _list_servers(desk: Desk) -> None:
    states = _states(desk)
    desk.table([(one.entry.name, _described(one)) for one in states])
    servers = desk.session.catalogue.servers
    for warned in servers.warnings if servers else ():
        desk.say(escape(f"problem: {warned.message}"), "dim")
    settings = desk.session.settings
    project = open_project(settings.workspace, trust_project=settings.trust_project)
    if project and project.warning:
        desk.say(escape(project.warning), "dim")
    if not states:
        desk.say(NO_SERVERS, "dim")


def _list_tools(desk: Desk, server: ServerState) -> None:
    tools = [(tool.name, described(tool)) for tool in server.tools]
    desk.table([(server.entry.name, _described(server)), *tools])


def _described(server: ServerState) -> str:
    tools = f"; {cost(server.entry, server.tools)}" if server.tools else ""
    log = [f"log {short_path(server.log_path)}"] if server.log_path else []
    state = server.words.rstrip(".")
    return "\n".join([f"{state}{tools}", server.entry.shown, terms(server.entry), *log])


async def _retry(desk: Desk, server: ServerState) -> None:
    starting = desk.session.catalogue.ask_again(server.entry)
    await desk.wait_for(f"Starting {server.entry.name}", starting)
    _list_tools(desk, _named(desk, server.entry.name))


def _states(desk: Desk) -> list[ServerState]:
    servers = desk.session.catalogue.servers
    return servers.states() if servers else []


def _named(desk: Desk, name: str) -> ServerState:
    for state in _states(desk):
        if state.entry.name == name:
            return state
    raise UsageError(f"there is no MCP server {name}", hint="/mcp lists them")
