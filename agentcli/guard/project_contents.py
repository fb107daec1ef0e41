"""What a project's files would do, in words for the person who is asked to trust them.

Nothing here is used to run anything: a file that cannot be understood is shown as just that.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from agentcli.guard.hooks_file import parse_hooks
from agentcli.guard.project_files import COMMANDS, HOOKS, SERVERS, SETTINGS, ProjectFiles
from agentcli.machine.text import printable
from agentcli.types.errors import SettingsError

_SHOWN_CHARS = 300


def summarize_files(files: ProjectFiles) -> str:
    """On one line: `settings.toml, 2 hooks, 1 server and 3 commands`."""
    counted = (
        (HOOKS, _hooks(files), "hook"),
        (SERVERS, _servers(files), "server"),
        (COMMANDS, [name for name in files.files if name.startswith(f"{COMMANDS}/")], "command"),
    )
    parts = [SETTINGS] if SETTINGS in files.files else []
    for name, found, noun in counted:
        if found:
            parts.append(f"{len(found)} {noun}{'s' if len(found) != 1 else ''}")
        elif name in files.files:
            parts.append(name)
    if not parts:
        parts = [f"{len(files.files)} files"]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def describe_files(files: ProjectFiles) -> Iterator[str]:
    """One line for everything that would be used or run."""
    yield from (f"problem   {problem}" for problem in files.problems)
    yield from (f"setting   {_display(key)} = {_display(value)}" for key, value in _settings(files))
    yield from (f"hook      {line}" for line in _hooks(files))
    yield from (f"server    {line}" for line in _servers(files))
    for name in files.files:
        if name.startswith(f"{COMMANDS}/"):
            yield f"command   {printable(name)}"
    yield from (f"script    {printable(name)}" for name in files.scripts)


def _settings(files: ProjectFiles) -> Iterator[tuple[str, Any]]:
    try:
        yield from tomllib.loads(files.files.get(SETTINGS, b"").decode("utf-8")).items()
    except (ValueError, RecursionError) as error:
        yield SETTINGS, f"cannot be read: {error}"


def _hooks(files: ProjectFiles) -> list[str]:
    text = files.files.get(HOOKS, b"{}").decode("utf-8", "replace")
    try:
        found = parse_hooks(text, files.directory / HOOKS)
    except SettingsError as error:
        return [f"cannot be read: {_display(str(error))}"]
    return [
        f"{hook.event}{f' {hook.matcher}' if hook.matcher else ''}: {_display(hook.command)}"
        for hook in found.hooks
    ]


def _servers(files: ProjectFiles) -> list[str]:
    try:
        document = json.loads(files.files.get(SERVERS, b"{}"))
    except (ValueError, RecursionError) as error:
        return [f"cannot be read: {error}"]
    servers = document.get("mcpServers", document) if isinstance(document, Mapping) else document
    if not isinstance(servers, Mapping):
        return [f"cannot be read: {_display(servers)}"]
    return [f"{_display(name)}: {_display(entry)}" for name, entry in servers.items()]


def _display(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return printable(text[:_SHOWN_CHARS])
