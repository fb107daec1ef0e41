"""The slash command for the goal: a command that must pass before a turn is done."""

from agentcli.agent.completion import ROUNDS_MAX
from agentcli.types.errors import UsageError
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost

OFF = ("off", "none", "clear")


async def run_goal(host: CommandHost, rest: str) -> None:
    goal = host.session.goal
    if not rest:
        shown = "\n".join(map(escape, goal.commands))
        host.say(f"Goal: {shown}" if shown else "No goal. /goal CMD sets one.", "dim")
    elif rest in OFF:
        goal.change()
        host.say("No goal any more.", "dim")
    elif not host.session.gate.host.may_run_commands:
        raise UsageError(
            "a goal needs a sandbox, and none works here (see /doctor)",
            hint="run commands without a sandbox: agentcli --sandbox off",
        )
    else:
        goal.change(rest)
        host.say(
            f"Goal: {escape(rest)}\nIt runs when a turn is done. If it fails, its output goes back "
            f"to the model, up to {ROUNDS_MAX} times a turn. /goal off drops it.",
            "dim",
        )
