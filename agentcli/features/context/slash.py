"""Slash commands about the context: what fills it, and compacting it."""

from agentcli.features.context.engine import measure_context
from agentcli.features.context.render import render_chart
from agentcli.features.context.tools import list_token_costs, list_tool_rows
from agentcli.types.errors import UsageError
from agentcli.types.events import Compacted
from agentcli.ui.render.wording import format_tokens
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments
from agentcli.ui.report import render_report_line


async def run_context(host: CommandHost, rest: str) -> None:
    session = host.session
    found = measure_context(
        session.facts,
        session=session.paths.id,
        tools=session.catalog.toolset.declared,
        window_tokens=session.model_switch.get_window(),
    )
    paint = host.renderer.paint
    host.print("\n".join(render_report_line(line, paint) for line in render_chart(found)))


async def run_compact(host: CommandHost, rest: str) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="stop it with esc, then try again")
    if rest.startswith("--") and rest != "--undo":
        raise UsageError(f"unknown argument {rest}", hint="/compact --undo")
    if rest == "--undo":
        if not host.session.restore():
            raise UsageError("nothing to restore: the conversation is not compacted")
        host.say("Restored the full conversation.", "dim")
        return
    if not await host.wait_for("Compacting", host.session.model_client.compact(rest)):
        raise UsageError("nothing to compact yet", hint="/context")
    facts = reversed(host.session.facts)
    before = next(fact.tokens_before for fact in facts if isinstance(fact, Compacted))
    host.say(f"Compacted {format_tokens(before)} tokens. /compact --undo restores them.", "dim")


async def run_btw(host: CommandHost, rest: str) -> None:
    if not rest:
        raise WrongArguments
    asking = host.session.model_client.ask_aside(rest)
    answer = await (asking if host.is_busy else host.wait_for("Thinking", asking))
    host.print(host.renderer.render_markdown(answer))
    host.say("An aside: the conversation does not have it.", "dim")


async def run_tools(host: CommandHost, rest: str) -> None:
    toolset = host.session.catalog.toolset
    host.print_table(list_tool_rows(toolset))
    host.say("\n".join(list_token_costs(toolset)), "dim")
