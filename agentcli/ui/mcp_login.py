"""Logging in to a server from the command line: an address to open, and the way back from there."""

import asyncio
import sys
from pathlib import Path

from agentcli.app.server_list import find_entry, load_entries
from agentcli.app.server_logins import ServerLoginStore
from agentcli.machine.browser import is_page, open_page, parse_host
from agentcli.machine.plain import show_controls
from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.login import LoginBrowser, LoginError, log_in
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.ui.mcp import load_settings_and_project
from agentcli.ui.repl.line_reader import LineReader


def login(name: str, workspace: Path, *, config: str | None, opens_browser: bool) -> Exit:
    """Raises AgentError."""
    entry = _find_remote_server(name, workspace, config)
    if entry.brings_key:
        raise UsageError(
            f"{name} gets an Authorization header in {entry.where}, so no login is used",
            hint=f"take the header out of {entry.where}",
        )
    try:
        granted = asyncio.run(
            log_in(entry, _build_browser(entry, workspace, opens_browser=opens_browser))
        )
    except LoginError as error:
        raise SettingsError(
            f"no login at {name}: {error}", hint=f"agentcli mcp login {name}"
        ) from None
    if granted is None:
        _say_now(f"{name} wants no login")
        return Exit.DONE
    store = ServerLoginStore(entry)
    store.write(granted)
    _say_now(f"logged in to {name}; the login is in {store.location}")
    return Exit.DONE


def logout(name: str, workspace: Path, *, config: str | None) -> Exit:
    was_there = ServerLoginStore(_find_remote_server(name, workspace, config)).forget()
    _say_now(f"logged out of {name}" if was_there else f"there was no login at {name}")
    return Exit.DONE


def _build_browser(entry: ServerEntry, workspace: Path, *, opens_browser: bool) -> LoginBrowser:
    reader = LineReader(sys.stdin.fileno()) if sys.stdin.isatty() else None

    async def read_pasted_url() -> str | None:
        return await reader.read_line() if reader else None

    def show(text: str) -> None:
        if not is_page(text):
            _say_now(text)
            return
        _say_now(f"log in to {entry.name} at {parse_host(text)}:\n\n{text}\n")
        if opens_browser and open_page(text, beside=workspace):
            _say_now("(opened in your browser)")
        if reader is not None:
            _say_now(
                "If that browser runs on another machine: its last page will not load. Paste the"
            )
            _say_now("address of that page here:")

    return LoginBrowser(show=show, pasted=read_pasted_url)


def _find_remote_server(name: str, workspace: Path, config: str | None) -> ServerEntry:
    settings, project = load_settings_and_project(workspace, config)
    entry = find_entry(name, load_entries(settings, project))
    if not entry.is_remote:
        raise UsageError(
            f"{name} is a process on this machine, which takes no login",
            hint=f"agentcli mcp test {name}",
        )
    return entry


def _say_now(text: str) -> None:
    sys.stdout.write(show_controls(text) + "\n")
    sys.stdout.flush()
