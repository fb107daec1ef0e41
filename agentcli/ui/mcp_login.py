"""Logging in to a server from the command line: an address to open, and the way back from there."""

import asyncio
import sys
from pathlib import Path

from agentcli.app.server_list import entries, entry_named
from agentcli.app.server_logins import StoredLogins
from agentcli.machine.browser import host_of, is_page, open_page
from agentcli.machine.plain import visible
from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.login import Browser, LoginError, log_in
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.ui.mcp import surroundings
from agentcli.ui.repl.line_reader import LineReader


def login(name: str, workspace: Path, *, config: str | None, opens_browser: bool) -> Exit:
    """Raises AgentError."""
    entry = _remote(name, workspace, config)
    if entry.brings_key:
        raise UsageError(
            f"{name} gets an Authorization header in {entry.where}, so no login is used",
            hint=f"take the header out of {entry.where}",
        )
    try:
        granted = asyncio.run(log_in(entry, _browser(entry, workspace, opens=opens_browser)))
    except LoginError as error:
        raise SettingsError(
            f"no login at {name}: {error}", hint=f"agentcli mcp login {name}"
        ) from None
    if granted is None:
        _say(f"{name} wants no login")
        return Exit.DONE
    store = StoredLogins(entry)
    store.write(granted)
    _say(f"logged in to {name}; the login is in {store.where}")
    return Exit.DONE


def logout(name: str, workspace: Path, *, config: str | None) -> Exit:
    was_there = StoredLogins(_remote(name, workspace, config)).forget()
    _say(f"logged out of {name}" if was_there else f"there was no login at {name}")
    return Exit.DONE


def _browser(entry: ServerEntry, workspace: Path, *, opens: bool) -> Browser:
    reader = LineReader(sys.stdin.fileno()) if sys.stdin.isatty() else None

    async def pasted() -> str | None:
        return await reader.line() if reader else None

    def show(text: str) -> None:
        if not is_page(text):
            _say(text)
            return
        _say(f"log in to {entry.name} at {host_of(text)}:\n\n{text}\n")
        if opens and open_page(text, beside=workspace):
            _say("(opened in your browser)")
        if reader is not None:
            _say("If that browser runs on another machine: its last page will not load. Paste the")
            _say("address of that page here:")

    return Browser(show=show, pasted=pasted)


def _remote(name: str, workspace: Path, config: str | None) -> ServerEntry:
    settings, project = surroundings(workspace, config)
    entry = entry_named(name, entries(settings, project))
    if not entry.is_remote:
        raise UsageError(
            f"{name} is a process on this machine, which takes no login",
            hint=f"agentcli mcp test {name}",
        )
    return entry


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()
