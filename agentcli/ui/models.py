"""Which models can be asked now, and why the others cannot."""

import asyncio
import os
import sys

from agentcli.wire.catalogue import ALIASES, known_names, resolve
from agentcli.wire.dialect import Model
from agentcli.wire.discovery import local_servers
from agentcli.wire.providers import PROVIDERS, key_of
from agentcli.wire.transport import dialect_of


def show(*, local: bool) -> None:
    models = [resolve(name) for name in known_names()]
    width = max(len(_name(model)) for model in models)
    for model in models:
        mark, why = _usable(model)
        facts = "  ".join((_limits(model), _price(model), why))
        sys.stdout.write(f"{mark}  {_name(model):<{width}}  {facts}\n")
    aliases = ", ".join(f"{alias} = {name}" for alias, name in ALIASES.items())
    sys.stdout.write(f"\nShort names: {aliases}\n")
    sys.stdout.write(f"Any other model of a provider: PROVIDER/NAME ({', '.join(PROVIDERS)})\n")
    if local:
        _show_local()
    else:
        sys.stdout.write("Servers on this machine: agentcli models --local\n")


def _show_local() -> None:
    dialect = dialect_of("openai-chat")
    servers = asyncio.run(local_servers(dialect=dialect, environ=os.environ))
    if not servers:
        sys.stdout.write("No server answered on the usual ports of this machine.\n")
    for server in servers:
        sys.stdout.write(f"\n{server.provider.name} at {server.base_url}\n")
        for model in server.models:
            sys.stdout.write(f"ok  {_name(model)}\n")


def _name(model: Model) -> str:
    return f"{model.provider}/{model.name}"


def _usable(model: Model) -> tuple[str, str]:
    provider = PROVIDERS[model.provider]
    key = key_of(provider, os.environ)
    if key is not None:
        return "ok", f"key from {key.source}"
    return "--", f"no key: export {provider.key_env[0]}=…"


def _limits(model: Model) -> str:
    return f"{_thousands(model.window_tokens):>6} in {_thousands(model.output_tokens):>4} out"


def _thousands(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens / 1000:.0f}k"


def _price(model: Model) -> str:
    if model.price is None:
        return f"{'unknown price':<16}"
    return f"${model.price.input:g} / ${model.price.output:g} per M".ljust(16)
