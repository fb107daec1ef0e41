"""The models that can be used now, why the others cannot, and what a switch would drop."""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agentcli.agent.history import build_messages as messages_of
from agentcli.log.sessions import find_session
from agentcli.providers.catalog import ALIASES, PROVIDERS, list_model_names, resolve
from agentcli.providers.dialect import Model
from agentcli.providers.discovery import find_local_servers
from agentcli.providers.transport import find_dialect
from agentcli.session.model import choose_model, fetch_model_info
from agentcli.session.secrets import find_user_key
from agentcli.types.provider import Message
from agentcli.types.settings import Settings
from agentcli.ui.report import ReportLine, wrap_to_terminal, write_report

if TYPE_CHECKING:
    from agentcli.providers.swap import SwapForecast


def show_models(*, local: bool) -> None:
    models = [resolve(name) for name in list_model_names()]
    width = max(len(format_name(model)) for model in models)
    write_report(_render_model(model, width) for model in models)
    aliases = ", ".join(f"{alias} = {name}" for alias, name in ALIASES.items())
    for line in (
        f"Short names: {aliases}",
        f"Other models: PROVIDER/NAME ({', '.join(PROVIDERS)})",
        "To add a key: agentcli login PROVIDER",
    ):
        sys.stdout.write(f"\n{wrap_to_terminal(line)}\n")
    if local:
        _show_local()
    else:
        sys.stdout.write("Local servers: agentcli models --local\n")


def _render_model(model: Model, width: int) -> ReportLine:
    """Return one row. A model that is ready stands out from those without a key."""
    status, why = check_key(model)
    is_ready = status == "ok"
    name = f"{model.name:<{max(0, width - len(model.provider) - 1)}}"
    return [
        ("ok" if is_ready else "dim", f"{status}  "),
        ("dim", f"{model.provider}/"),
        ("strong" if is_ready else "dim", name),
        ("", f"  {format_limits(model)}  " if is_ready else ""),
        ("dim", "" if is_ready else f"  {format_limits(model)}  "),
        ("dim", f"{format_price(model)}  {why}"),
    ]


def _show_local() -> None:
    dialect = find_dialect("openai-chat")
    servers = asyncio.run(find_local_servers(dialect=dialect, environ=os.environ))
    if not servers:
        sys.stdout.write("No local server found on the usual ports.\n")
    for server in servers:
        sys.stdout.write(f"\n{server.provider.name} at {server.base_url}\n")
        for model in server.models:
            sys.stdout.write(f"ok  {format_name(model)}\n")


def format_name(model: Model) -> str:
    return f"{model.provider}/{model.name}"


def check_key(model: Model) -> tuple[str, str]:
    provider = PROVIDERS[model.provider]
    key = find_user_key(provider)
    if key is not None:
        return "ok", f"key from {key.source}"
    return "--", "no key"


def format_limits(model: Model) -> str:
    return (
        f"{_format_thousands(model.window_tokens):>6} in "
        f"{_format_thousands(model.output_tokens):>4} out"
    )


def _format_thousands(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens / 1000:.0f}k"


def format_price(model: Model) -> str:
    if model.price is None:
        return f"{'unknown price':<20}"
    return f"${model.price.input:g} / ${model.price.output:g} per M".ljust(20)


# The effect of a switch to another model on a conversation, found out before it is made.


async def check_swap(messages: Sequence[Message], settings: Settings) -> "SwapForecast":
    """Forecast a switch to the model of the settings.

    Ask its provider if the catalogue lacks it.
    """
    from agentcli.providers.swap import forecast_swap

    model, provider = choose_model(settings)
    known = model if model.known else await fetch_model_info(model, provider)
    return forecast_swap(messages, known)


def check_session_swap(session_name: str, settings: Settings) -> "SwapForecast":
    """Forecast a switch for a stored session: by its id, a prefix of it, or the path of its log."""
    from agentcli.log.reader import read_log

    entries = read_log(find_session(session_name, settings.sessions).log).entries
    return asyncio.run(check_swap(messages_of(entry.fact for entry in entries), settings))


def show_swap(session: str, settings: Settings) -> None:
    for line in render_swap(check_session_swap(session, settings)):
        sys.stdout.write(f"{line}\n")


def render_swap(found: "SwapForecast") -> Iterator[str]:
    name = f"{found.model.provider}/{found.model.name}"
    if found.dropped:
        yield f"{name} would not receive:"
        yield from (f"  - {sentence}" for sentence in found.dropped)
    else:
        yield f"{name} would receive the whole conversation."
    yield f"{_format_size(found)} {_format_cost(found)}"


def _format_size(found: "SwapForecast") -> str:
    tokens = f"The next prompt has about {found.prompt_tokens:,} tokens"
    match found.fits:
        case None:
            return f"{tokens}; the context size of the model is unknown."
        case True:
            return f"{tokens} and fits into the {found.model.window_tokens:,} of the model."
        case False:
            window = f"{found.model.window_tokens:,}"
            return f"{tokens}, more than the {window} of the model: use /compact first."


def _format_cost(found: "SwapForecast") -> str:
    if found.cost_usd is None:
        return "Its price is unknown."
    return f"Sent without a cache, it costs about ${found.cost_usd:.4f}."
