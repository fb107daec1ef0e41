"""The homes of commands as a list, and their removal."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from agentcli.log.paths import locate_sessions
from agentcli.sandbox.homes import (
    StoredHome,
    clear_home,
    find_home,
    find_homes_directory,
    list_homes,
)
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, SettingsError
from agentcli.types.words import format_bytes


def show_caches(*, as_json: bool) -> None:
    homes = list_homes(find_homes_directory(locate_sessions()))
    if as_json:
        sys.stdout.write(json.dumps([_as_json(home) for home in homes]) + "\n")
        return
    if not homes:
        sys.stderr.write("no command has kept anything yet\n")
    for home in homes:
        size, where = format_bytes(home.measure_bytes()), show_controls(str(home.workspace))
        sys.stdout.write(f"{size:>9}  {_format_last_use(home)}  {where}\n")


def clear_caches(workspace: Path | None) -> Exit:
    """Remove the home of a workspace's commands, or all homes. Say which are in use."""
    homes = find_homes_directory(locate_sessions())
    found = [find_home(homes, workspace)] if workspace else [*list_homes(homes)]
    is_complete = True
    for home in found:
        if home is not None:
            is_complete = _clear(home) and is_complete
    if not any(found):
        sys.stderr.write("nothing to clear\n")
    return Exit.DONE if is_complete else Exit.SETTINGS


def _clear(home: StoredHome) -> bool:
    shown, size = show_controls(str(home.workspace)), format_bytes(home.measure_bytes())
    try:
        is_cleared = clear_home(home)
    except OSError as error:
        raise SettingsError(
            f"cannot clear {home.directory}: {error.strerror}", hint=f"rm -r {home.directory}"
        ) from error
    words = f"cleared {size}" if is_cleared else "not cleared, a session uses it"
    sys.stderr.write(f"{words}: {shown}\n")
    return is_cleared


def _format_last_use(home: StoredHome) -> str:
    return datetime.fromtimestamp(home.used_at, UTC).astimezone().strftime("%Y-%m-%d")


def _as_json(home: StoredHome) -> dict[str, str | int]:
    return {
        "workspace": str(home.workspace),
        "home": str(home.path),
        "size_bytes": home.measure_bytes(),
        "used_at": datetime.fromtimestamp(home.used_at, UTC).isoformat(timespec="seconds"),
    }
