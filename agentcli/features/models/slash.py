"""The slash command that shows or switches the model."""

from dataclasses import replace

from agentcli.agent.history import build_messages
from agentcli.features.models.render import check_swap, render_swap
from agentcli.providers.catalog import ALIASES, list_model_names
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost


def list_model_arguments(host: CommandHost) -> list[tuple[str, str]]:
    return [*ALIASES.items(), *((name, "") for name in list_model_names())]


async def run_model(host: CommandHost, rest: str) -> None:
    if not rest:
        host.say(f"Model: {host.session.model.name} (/model NAME switches)", "dim")
        return
    if rest.endswith("--check"):
        wanted = replace(host.settings, model=rest.removesuffix("--check").strip())
        checking = check_swap(build_messages(host.session.facts), wanted)
        found = await host.wait_for("Checking", checking)
        host.say("\n".join(map(escape, render_swap(found))), "dim")
        return
    await host.session.model_switch.use(rest)
    host.settings = replace(host.settings, model=rest)
    host.say(f"Model: {host.session.model.name}, from the next request on", "dim")
