"""Slash commands that store an API key, or remove one."""

from agentcli.features.login.engine import (
    KEY_QUESTION,
    choose_provider,
    find_providers_with_key,
    forget_key,
    guess_provider,
    list_logins,
    store_tested_key,
)
from agentcli.providers.catalog import Provider
from agentcli.types.errors import UsageError
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost


def list_login_arguments(host: CommandHost) -> list[tuple[str, str]]:
    known = find_providers_with_key(host.settings)
    return [(name, f"stored as {one.key_env[0]}") for name, one in known.items()]


def list_logout_arguments(host: CommandHost) -> list[tuple[str, str]]:
    return [(name, "") for name in list_logins(host.settings)]


async def run_login(host: CommandHost, rest: str) -> None:
    chosen = choose_provider(rest, host.settings, command="/login") if rest else None
    key = (await host.ask(KEY_QUESTION, hidden=True)).strip()
    if not key:
        host.say("No key was given.", "dim")
        return
    provider = chosen or await _ask_provider(host, key)
    host.say(f"Testing the key with {provider.name} …", "dim")
    host.say("\n".join(map(escape, await store_tested_key(provider, key))), "dim")
    if host.has_session:
        host.session.gate.redactor.learn(key)
        await _use_new_key(host, provider)


async def _ask_provider(host: CommandHost, key: str) -> Provider:
    name, known = guess_provider(key), find_providers_with_key(host.settings)
    if name not in known:
        name = (await host.ask(f"Which provider is this key for? ({', '.join(known)})")).lower()
    return choose_provider(name, host.settings, command="/login")


async def _use_new_key(host: CommandHost, provider: Provider) -> None:
    """Open the model again if it is one that this key is for."""
    model = host.session.model.name
    used = find_providers_with_key(host.settings).get(model.partition("/")[0])
    if used is not None and set(used.key_env) & set(provider.key_env):
        await host.session.model_switch.use(model)


async def run_logout(host: CommandHost, rest: str) -> None:
    stored = list_logins(host.settings)
    if not rest and not stored:
        host.say("No stored keys.", "dim")
        return
    if not rest and len(stored) > 1:
        raise UsageError("which key?", hint=f"/logout {' | '.join(stored)}")
    name = rest or stored[0]
    provider = choose_provider(name, host.settings, command="/logout", names=stored)
    lines = forget_key(provider)
    host.say("\n".join(map(escape, lines)), "dim")
