"""The user's list of servers: add, remove, look up and try them without a session."""

import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.features.mcp.entries import (
    Entries,
    EntryError,
    ServerEntry,
    check_name,
    parse_entries,
)
from agentcli.features.mcp.server_files import read_entries
from agentcli.features.mcp.servers import Servers
from agentcli.log.paths import SessionPaths
from agentcli.session.configuration import load_configuration
from agentcli.session.permission_gate import PermissionGate
from agentcli.session.plugins import load_plugins
from agentcli.session.project import Project
from agentcli.session.sandbox_host import SandboxHost
from agentcli.session.secrets import build_redactor
from agentcli.settings import SERVERS_FILE, get_user_directory
from agentcli.system.files import read_regular, resolve_directory, write_private
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import Event
from agentcli.types.settings import Settings

TABLE = "mcpServers"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServer:
    """A server as given on the command line."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    unconfined: bool = False
    no_network: bool = False
    writable: tuple[Path, ...] = ()

    def build_entry(self) -> dict[str, Any]:
        """Return the entry for the file. Raise UsageError if the options do not fit together."""
        if bool(self.command) == bool(self.url):
            raise UsageError(
                "give either a command or a --url",
                hint="agentcli mcp add NAME -- COMMAND ARGS   or: agentcli mcp add NAME --url URL",
            )
        entry: dict[str, Any] = (
            {"type": "http", "url": self.url}
            if self.url
            else {"command": self.command[0], "args": list(self.command[1:])}
        )
        if env := _parse_pairs(self.env, "="):
            entry["env"] = env
        if headers := _parse_pairs(self.headers, ":"):
            entry["headers"] = headers
        if self.unconfined:
            entry["sandbox"] = False
        if self.no_network:
            entry["network"] = False
        if self.writable:
            here = resolve_directory(Path())
            entry["writable"] = [str(here / path) for path in self.writable]
        return entry


def add_server(name: str, new: NewServer) -> Path:
    """Add a server and return the file that it is now in. Raise AgentError if that fails."""
    try:
        check_name(name)
    except EntryError as error:
        raise UsageError(f"{name!r}: {error}", hint="agentcli mcp add --help") from None
    document = _read_document()
    table = document[TABLE]
    if name in table:
        raise UsageError(
            f"a server {name} already exists", hint=f"agentcli mcp remove {name}, then add it"
        )
    table[name] = new.build_entry()
    checked = parse_entries(
        json.dumps({TABLE: {name: table[name]}}), where="the command line", environ=os.environ
    )
    for problem in checked.problems:
        raise UsageError(problem, hint="agentcli mcp add --help")
    return _write_document(document)


def remove_server(name: str) -> Path:
    """Remove a server and return the file that it was in. Raise AgentError if that fails."""
    document = _read_document()
    if document[TABLE].pop(name, None) is None:
        raise UsageError(
            f"no server {name} in {get_user_directory() / SERVERS_FILE}", hint="agentcli mcp list"
        )
    return _write_document(document)


def load_entries(settings: Settings, project: Project | None) -> Entries:
    return read_entries(settings, project, plugins=load_plugins().plugins) or Entries()


def find_entry(name: str, found: Entries) -> ServerEntry:
    """Return the entry with this name. Raise UsageError if there is none."""
    for entry in found.servers:
        if entry.name == name:
            return entry
    why = next((problem for problem in found.problems if repr(name) in problem), "")
    raise UsageError(why or f"there is no server {name}", hint="agentcli mcp list")


@asynccontextmanager
async def open_server(settings: Settings, entry: ServerEntry) -> AsyncIterator[Servers]:
    """Open one server outside a session. Its other output is deleted with its directory."""
    with tempfile.TemporaryDirectory(prefix="agentcli-mcp-") as directory:
        paths = SessionPaths(id="visit", directory=Path(directory))
        paths.out.mkdir()
        configuration = load_configuration(settings, uses_project=False)
        settings = configuration.settings
        gate = PermissionGate(
            configuration,
            SandboxHost(configuration, paths, emit=_ignore_event),
            redactor=build_redactor(settings),
        )
        servers = Servers([entry], settings, gate=gate, emit=_ignore_event)
        try:
            yield servers
        finally:
            await servers.close()
            gate.close()


def _ignore_event(event: Event) -> None:
    """Drop an event: there is no session to record it in."""


def _read_document() -> dict[str, Any]:
    path = get_user_directory() / SERVERS_FILE
    try:
        document = json.loads(read_regular(path).decode("utf-8-sig"))
    except FileNotFoundError:
        document = {}
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"cannot read {path}: {error}", hint=f"edit {path}") from error
    if not isinstance(document, dict) or not isinstance(document.setdefault(TABLE, {}), dict):
        raise SettingsError(f'{path} must be an object with the key "{TABLE}"', hint=f"edit {path}")
    return document


def _write_document(document: Mapping[str, Any]) -> Path:
    """Write the file, readable by its owner only: it may contain keys."""
    path = get_user_directory() / SERVERS_FILE
    write_private(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path


def _parse_pairs(texts: tuple[str, ...], separator: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition(separator)
        if not found or not name.strip():
            raise UsageError(
                f"{text!r} is not NAME{separator}VALUE", hint="agentcli mcp add --help"
            )
        pairs[name.strip()] = value.strip() if separator == ":" else value
    return pairs
