"""The first start without a model: four ways to go on, none of them a dead end."""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace

from agentcli.providers.discovery import LocalModelServer, find_local_servers
from agentcli.providers.transport import find_dialect
from agentcli.session.model import find_default_model
from agentcli.settings import SETTINGS_FILE, get_user_directory
from agentcli.system.strict_json import parse_whole_number
from agentcli.types.errors import AgentError
from agentcli.types.settings import Settings

MENU = """\
agentcli needs a model.
  1  paste an API key    (hidden, stored in the OS keyring, else a 0600 file)
  2  use a local model   ({found})
  3  show me a demo      (scripted, no key, touches nothing)
  4  quit
"""

LogIn = Callable[[Settings], str]
"""Asks for a key, tests and stores it. Returns its provider, or "" without a key."""


def choose_model(
    settings: Settings, *, play_demo: Callable[[], object], log_in: LogIn
) -> Settings | None:
    """Return settings with a usable model, or None if the user quit."""
    servers = asyncio.run(
        find_local_servers(dialect=find_dialect("openai-chat"), environ=os.environ)
    )
    found = ", ".join(f"{one.provider.name} on {_format_address(one)}" for one in servers)
    _say(MENU.format(found=f"found: {found}" if found else "no server found"))
    while True:
        try:
            answer = input("> ").strip()
            if answer in ("4", "q", "quit"):
                return None
            if answer == "3":
                play_demo()
                continue
            chosen = _handle_choice(answer, settings, servers=servers, log_in=log_in)
        except (EOFError, KeyboardInterrupt):
            _say("\n")
            return None
        except AgentError as error:
            _say(f"error: {error}\n" + (f"  fix: {error.hint}\n" if error.hint else ""))
            continue
        if chosen is not None:
            return chosen


def _handle_choice(
    answer: str, settings: Settings, *, servers: list[LocalModelServer], log_in: LogIn
) -> Settings | None:
    match answer:
        case "1":
            return _paste_key(settings, log_in)
        case "2":
            return _use_server(settings, servers)
        case _:
            _say("Type 1, 2, 3 or 4.\n")
    return None


def _paste_key(settings: Settings, log_in: LogIn) -> Settings | None:
    name = log_in(settings)
    if not name:
        return None
    return settings if find_default_model() else _ask_model_name(settings, name)


def _ask_model_name(settings: Settings, provider: str) -> Settings | None:
    model = input(f"Which {provider} model? ").strip()
    return replace(settings, model=f"{provider}/{model}") if model else None


def _use_server(settings: Settings, servers: list[LocalModelServer]) -> Settings | None:
    names = [f"{model.provider}/{model.name}" for server in servers for model in server.models]
    if not names:
        _say("No local model server found. Start one (ollama serve), then choose 2.\n")
        return None
    for index, name in enumerate(names, start=1):
        _say(f"  {index}  {name}\n")
    answer = input(f"Which model? [1-{len(names)}] ").strip() or "1"
    number = parse_whole_number(answer) or 0
    if not 1 <= number <= len(names):
        return None
    name = names[number - 1]
    _store_model(name)
    return replace(settings, model=name)


def _store_model(model: str) -> None:
    """Store the model, but only in a new settings file: a file of the user's stays unchanged."""
    path = get_user_directory() / SETTINGS_FILE
    if path.exists():
        _say(f'To keep this choice, add to {path}: model = "{model}"\n')
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'model = "{model}"\n', encoding="utf-8")
    except OSError as error:
        _say(f"Not saved: {error.strerror}\n")
        return
    _say(f"Saved to {path}\n")


def _format_address(server: LocalModelServer) -> str:
    return server.base_url.removeprefix("http://")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
