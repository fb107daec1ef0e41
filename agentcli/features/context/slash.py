"""Slash commands about the context: what fills it, and compacting it."""

from agentcli.features.context.engine import measure_context
from agentcli.features.context.render import render_chart
from agentcli.features.context.tools import list_token_costs, list_tool_rows
from agentcli.types.errors import UsageError
from agentcli.ui.render.wording import format_tokens
from agentcli.ui.repl.commands.registry import CommandHost


async def run_context(host: CommandHost, rest: str) -> None:
    session = host.session
    found = measure_context(
        session.facts,
        session=session.paths.id,
        tools=session.catalogue.toolset.declared,
        window_tokens=session.get_window(),
    )
    host.say("\n".join(render_chart(found)), "dim")


async def run_compact(host: CommandHost, rest: str) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="wait for its end, or esc")
    if rest and rest != "--undo":
        raise UsageError(f"/compact knows no {rest}", hint="did you mean /compact --undo?")
    if rest:
        if not host.session.restore():
            raise UsageError("there is nothing to undo: the model is told everything in full")
        host.say("the model is told everything in full again", "dim")
        return
    before = host.renderer.transcript.context_tokens
    if not await host.wait_for("Compacting", host.session.compact()):
        raise UsageError("there is nothing to shorten yet", hint="/context")
    host.say(
        f"the conversation until here is a summary now (it was {format_tokens(before)} tokens)",
        "dim",
    )


async def run_tools(host: CommandHost, rest: str) -> None:
    toolset = host.session.catalogue.toolset
    host.print_table(list_tool_rows(toolset))
    host.say("\n".join(list_token_costs(toolset)), "dim")
