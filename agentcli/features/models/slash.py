"""The slash command that shows or switches the model."""

from dataclasses import replace

from agentcli.agent.history import build_messages
from agentcli.features.models.render import (
    check_key,
    check_swap,
    format_limits,
    format_name,
    format_price,
    render_swap,
)
from agentcli.providers.catalog import ALIASES, list_model_names, resolve
from agentcli.types.errors import UsageError
from agentcli.types.provider import EFFORTS
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost
from agentcli.ui.repl.picker import PickerRow


def list_model_arguments(host: CommandHost) -> list[tuple[str, str]]:
    return [*ALIASES.items(), *((name, "") for name in list_model_names())]


async def run_model(host: CommandHost, rest: str) -> None:
    if not rest:
        names = [*ALIASES, *list_model_names()]
        rows = [_build_picker_row(name) for name in names]
        current = host.session.model.name
        selected = names.index(current) if current in names else 0
        chosen = await host.choose(f"Model (now {current})", rows, selected=selected)
        if chosen is None:
            host.say(f"Model: {current}", "dim")
            return
        rest = names[chosen]
    if rest.endswith("--check"):
        wanted = replace(host.settings, model=rest.removesuffix("--check").strip())
        checking = check_swap(build_messages(host.session.facts), wanted)
        found = await host.wait_for("Checking", checking)
        host.say("\n".join(map(escape, render_swap(found))), "dim")
        return
    await host.session.model_switch.use(rest)
    host.settings = replace(host.settings, model=rest)
    host.say(f"Model: {host.session.model.name}, from the next request on", "dim")


DEFAULT = "default"


def list_effort_arguments(host: CommandHost) -> list[tuple[str, str]]:
    return [(effort, "") for effort in EFFORTS] + [(DEFAULT, "the model's own")]


async def run_effort(host: CommandHost, rest: str) -> None:
    model = host.session.model
    if not rest:
        choices = " | ".join((*EFFORTS, DEFAULT))
        host.say(f"Effort: {escape(model.effort or DEFAULT)} (/effort {choices})", "dim")
        return
    if rest not in (*EFFORTS, DEFAULT):
        raise UsageError(f"no effort {rest}", hint=f"/effort {' | '.join((*EFFORTS, DEFAULT))}")
    host.session.model_switch.use_effort(None if rest == DEFAULT else rest)
    thinks = model.get_info is None or model.get_info().thinking
    unsure = "" if thinks else f"; {model.name} is not known to have this choice"
    host.say(f"Effort: {rest}, from the next request on{unsure}", "dim")


def _build_picker_row(name: str) -> PickerRow:
    """Return a model for the list to choose from, by its name or its alias."""
    model = resolve(name)
    status, why = check_key(model)
    label = name if name == format_name(model) else f"{name} = {format_name(model)}"
    facts = " · ".join((format_limits(model).strip(), format_price(model).strip(), why))
    return PickerRow(label=f"{status}  {label}", preview=facts)
