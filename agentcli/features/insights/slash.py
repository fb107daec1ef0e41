"""Slash commands that take something out of the session: its cost, its transcript."""

from pathlib import Path

from agentcli.features.insights.cost import (
    break_down_cost,
    list_agent_rows,
    list_tool_rows,
    list_turn_rows,
)
from agentcli.system.files import expand_home
from agentcli.types.errors import UsageError
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import format_elapsed
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments


async def run_cost(host: CommandHost, rest: str) -> None:
    tally = host.renderer.transcript.tally
    usage, broken_off = tally.usage, tally.spending.broken_off
    cached = 100 * usage.cache_read_tokens / usage.prompt_tokens if usage.prompt_tokens else 0
    host.print_table(
        [
            ("requests", str(tally.spending.requests)),
            *([("broken off", pluralize(broken_off, "attempt"))] if broken_off else []),
            ("tokens in", f"{usage.prompt_tokens} ({cached:.0f} % cached)"),
            ("tokens out", f"{usage.output_tokens} ({usage.reasoning_tokens} thinking)"),
            ("model time", format_elapsed(tally.model_s)),
            ("cost", tally.spending.cost_text),
        ]
    )
    found = break_down_cost(host.session.facts)
    for title, rows in (
        ("By turn", list_turn_rows(found)),
        ("By tool", list_tool_rows(found)),
        ("By agent", list_agent_rows(found) if len(found.agents) > 1 else ()),
    ):
        if shown := list(rows):
            host.say(title, "dim")
            host.print_table(shown)


async def run_export(host: CommandHost, rest: str) -> None:
    if not rest:
        raise WrongArguments
    try:
        path = _write_new(
            host.settings.workspace, rest, text=host.renderer.transcript.render_plain()
        )
    except FileExistsError:
        raise UsageError(f"{rest} already exists", hint="/export another-file.md") from None
    except OSError as error:
        raise UsageError(f"cannot write {rest}: {error.strerror}") from None
    host.say(f"Written to {path}", "dim")


def _write_new(workspace: Path, named: str, *, text: str) -> Path:
    path = workspace / expand_home(named)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return path
