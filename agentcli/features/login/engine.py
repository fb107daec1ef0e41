"""Logging in at a provider: a key is tested with a request that costs nothing, then stored."""

import asyncio
import getpass
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from agentcli.providers.catalog import SEARCH_ENGINES, Key, Provider, find_key, require_key
from agentcli.providers.discovery import check_key
from agentcli.providers.transport import find_dialect
from agentcli.session.model import list_providers
from agentcli.session.secrets import drop_key, find_stored_key, store_key
from agentcli.types.errors import ProviderError, ProviderErrorKind, UsageError
from agentcli.types.settings import Settings

KEY_QUESTION = "API key (hidden):"
_KEY_PREFIXES = (
    ("sk-ant-", "anthropic"),
    ("sk-or-", "openrouter"),
    ("AIza", "gemini"),
    ("sk-", "openai"),
)
_REJECTED = (400, 401)
"""The statuses with which providers reject a key. Others, such as 403, are about what it may do."""


def find_providers_with_key(settings: Settings) -> Mapping[str, Provider]:
    """Return the providers and search engines that take a key, by name."""
    known = {**list_providers(settings), **SEARCH_ENGINES}
    return {name: one for name, one in known.items() if one.key_env}


def choose_provider(
    name: str, settings: Settings, *, command: str, names: Sequence[str] = ()
) -> Provider:
    """Return a provider that takes a key. Raise UsageError.

    Its hint is the command with these names, or else with all that it takes."""
    known = find_providers_with_key(settings)
    if name in known:
        return known[name]
    if name in list_providers(settings):
        raise UsageError(f"{name} needs no API key here: its own settings sign you in")
    raise UsageError(f"no provider {name}", hint=f"{command} {' | '.join(names or known)}")


def guess_provider(key: str) -> str:
    """Return the provider whose keys begin like this one, or "" if none is known to."""
    return next((name for begin, name in _KEY_PREFIXES if key.startswith(begin)), "")


async def store_tested_key(provider: Provider, key: str, *, tests: bool = True) -> list[str]:
    """Test a key and store it. Return what the user should know, line by line.

    Raise ProviderError if the provider rejects it or cannot be asked; then nothing is stored."""
    typed = Key(value=key, source="your input", fix=f"agentcli login {provider.name}")
    good = require_key(typed, provider)
    assert good is not None
    doubt = await _test(provider, good) if tests else "The key was not tested."
    where = store_key(provider.key_env[0], good.value)
    lines = [f"{'Stored' if doubt else 'The key works. Stored'} in {where}."]
    return [*lines, *([doubt] if doubt else []), *_warn_of_variable(provider, good.value)]


async def _test(provider: Provider, key: Key) -> str:
    """Return why it is not sure that the key works, or "". Raise ProviderError if it does not."""
    if provider.name in SEARCH_ENGINES:
        return "The first search will test it."
    dialect = find_dialect(provider.protocol)
    try:
        await check_key(provider, dialect=dialect, key=key, environ=os.environ)
    except ProviderError as error:
        is_rejected = error.kind is ProviderErrorKind.CREDENTIALS and error.status in _REJECTED
        if is_rejected or error.kind is ProviderErrorKind.UNAVAILABLE:
            raise ProviderError(
                f"{error}. Nothing was stored",
                kind=error.kind,
                hint=key.fix if is_rejected else f"{key.fix} --no-test",
                status=error.status,
            ) from None
        return f"It could not be tested: {error}."
    return ""


def _warn_of_variable(provider: Provider, key: str) -> Iterator[str]:
    used = find_key(provider, os.environ)
    if used is not None and used.value != key:
        yield f"But {used.source} is set and wins. To use the stored key: unset {used.source}"


def forget_key(provider: Provider) -> list[str]:
    """Remove the stored keys of a provider. Return what the user should know, line by line."""
    locations = [location for location in map(drop_key, provider.key_env) if location]
    lines = [f"Removed the key of {provider.name} from {location}." for location in locations]
    lines = lines or [f"No stored key for {provider.name}."]
    if used := find_key(provider, os.environ):
        lines.append(f"{used.source} is still set. To stop using it: unset {used.source}")
    return lines


def list_logins(settings: Settings) -> list[str]:
    """Return the providers with a stored key. Of those that share a key, only the first."""
    found: dict[str, str] = {}
    for name, one in find_providers_with_key(settings).items():
        if find_stored_key(one) is not None:
            found.setdefault(one.key_env[0], name)
    return list(found.values())


# On a plain terminal, or from a script


def log_in(settings: Settings, *, provider: str = "", tests: bool = True) -> str:
    """Read a key, test it and store it. Return its provider, or "" if no key was given.

    Raise AgentError if the key is not stored."""
    chosen = choose_provider(provider, settings, command="agentcli login") if provider else None
    key = _read_key()
    if not key:
        return ""
    chosen = chosen or _ask_provider(key, settings)
    if tests:
        _say(f"Testing the key with {chosen.name} …")
    for line in asyncio.run(store_tested_key(chosen, key, tests=tests)):
        _say(line)
    return chosen.name


def _read_key() -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"{KEY_QUESTION} ").strip()
    return sys.stdin.readline().strip()


def _ask_provider(key: str, settings: Settings) -> Provider:
    known = find_providers_with_key(settings)
    name = guess_provider(key)
    if name not in known and not sys.stdin.isatty():
        raise UsageError("which provider is this key for?", hint="agentcli login PROVIDER")
    while name not in known:
        name = input(f"Which provider is this key for? ({', '.join(known)}) ").strip().lower()
    return known[name]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
