"""The slash command for agents beside the session: list, look at one, decide, stop."""

from collections.abc import Sequence

from agentcli.features.children.background import BackgroundAgent, BackgroundAgents
from agentcli.features.children.engine import ChildAgents
from agentcli.system.strict_json import parse_whole_number
from agentcli.types.agents import describe_decision
from agentcli.types.errors import UsageError
from agentcli.types.words import pluralize
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import format_cost, format_tokens
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments
from agentcli.ui.repl.picker import PickerRow

STATE_WORDS = {
    "waiting": "patch waits",
    "merged": "patch merged",
    "refused": "patch refused",
}
"""The words for states whose name alone does not say it."""
WHAT_CHARS = 60
DEEDS = (
    PickerRow(label="show what it was told and has done"),
    PickerRow(label="stop it and its processes", preview="what it did so far is its patch"),
)
SHOW, STOP = range(2)
"""The deeds by their index."""


def list_agents_arguments(host: CommandHost) -> Sequence[tuple[str, str]]:
    agents = _find_agents(host).agents.values()
    return [
        *((str(one.number), f"{one.role} {_format_state(one)}") for one in agents),
        ("stop", "stop one: stop 2, or all of them: stop all"),
    ]


async def run_agents(host: CommandHost, rest: str) -> None:
    agents = _find_agents(host)
    verb, _, named = rest.partition(" ")
    if not rest:
        await _show_all(host, agents)
    elif verb == "stop":
        await _stop(host, agents, named=named.strip())
    elif (number := parse_whole_number(rest)) is not None:
        await _look_at(host, agents, agent=agents.find(number))
    else:
        raise WrongArguments


def _find_agents(host: CommandHost) -> BackgroundAgents:
    children = host.session.features["children"]
    assert isinstance(children, ChildAgents)
    return children.agents


async def _show_all(host: CommandHost, agents: BackgroundAgents) -> None:
    """Show a live list while agents work, and a table otherwise, or where whole lines are read."""
    known = list(agents.agents.values())
    if not known:
        host.say("No agents yet: the model starts one by a role with background: true.", "dim")
    elif host.settings.accessible or not any(one.is_active for one in known):
        host.print_table(list(zip(_format_heads(known), map(_format_what, known), strict=True)))
    else:
        await _watch(host, agents)


async def _watch(host: CommandHost, agents: BackgroundAgents) -> None:
    """Show the agents as they work, until the user chooses one or closes the list."""
    shown: list[BackgroundAgent] = []

    def list_rows() -> list[PickerRow]:
        shown[:] = agents.agents.values()
        return [
            PickerRow(
                label=f"{head}  {_format_what(one)}",
                preview=f"task: {' '.join(one.task.split())}",
            )
            for head, one in zip(_format_heads(shown), shown, strict=True)
        ]

    chosen = await host.choose("Agents", list_rows)
    if chosen is None:
        return
    agent = shown[chosen]
    deed = await host.choose(f"{agent.name} is at work", DEEDS) if agent.is_active else SHOW
    if deed == SHOW:
        await _look_at(host, agents, agent=agent)
    elif deed == STOP:
        await _stop(host, agents, named=str(agent.number))


def _format_heads(agents: Sequence[BackgroundAgent]) -> list[str]:
    """Return number, role, state, tokens and cost of each agent, in columns."""
    cells = [(f"{one.number} {one.role}".strip(), *_format_figures(one)) for one in agents]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        f"{name:<{widths[0]}}  {state:<{widths[1]}}  {used:>{widths[2]}}  {cost:>{widths[3]}}"
        for name, state, used, cost in cells
    ]


def _format_figures(agent: BackgroundAgent) -> tuple[str, str, str]:
    used = agent.spending.usage
    tokens = format_tokens(used.prompt_tokens + used.output_tokens)
    return _format_state(agent), f"{tokens} tok", format_cost(agent.spending)


def _format_state(agent: BackgroundAgent) -> str:
    return STATE_WORDS.get(agent.state, agent.state)


def _format_what(agent: BackgroundAgent) -> str:
    size = ""
    if agent.ended is not None and agent.ended.paths:
        size = f"{pluralize(len(agent.ended.paths), 'file')} +{agent.ended.added} "
        size += f"-{agent.ended.removed}: "
    text = " ".join((agent.doing or agent.task).split())
    return size + (text if len(text) <= WHAT_CHARS else f"{text[: WHAT_CHARS - 1]}…")


async def _stop(host: CommandHost, agents: BackgroundAgents, *, named: str) -> None:
    if named == "all":
        chosen = [one for one in agents.agents.values() if one.is_active]
    else:
        number = parse_whole_number(named)
        if number is None:
            raise WrongArguments
        chosen = [agents.find(number)]
    stopped = [one for one in chosen if one.is_active]
    for one in stopped:
        await agents.stop(one)
    names = ", ".join(one.name for one in stopped)
    host.say(escape(f"Stopped {names}." if stopped else "Nothing to stop."), "dim")


async def _look_at(host: CommandHost, agents: BackgroundAgents, *, agent: BackgroundAgent) -> None:
    lines = [*_format_heads([agent]), f"task: {agent.task}"]
    if agent.ended is not None:
        lines += [agent.ended.message or agent.ended.answer]
    if agent.decided is not None:
        lines += [describe_decision(agent.decided)]
    if agent.worktree and agent.state in ("waiting", "refused"):
        lines += [f"worktree {agent.worktree}"]
    host.say("\n".join(escape(line) for line in lines if line))
    if agent.state != "waiting":
        return
    if host.is_busy:
        raise UsageError("a turn is running", hint="its patch is asked about when the turn ends")
    if agent.is_asked:
        return
    await agents.decide(agent)
