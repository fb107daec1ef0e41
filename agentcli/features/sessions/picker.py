"""A list to choose the session to continue from, shown before anything is drawn."""

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from agentcli.log.sessions import SessionSummary, list_sessions
from agentcli.system.parsing import parse_whole_number
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import UsageError
from agentcli.ui.repl.status import shorten_end

LISTED = 15


def pick_session(workspace: Path) -> str:
    """Return the id of the chosen session.

    Raise UsageError if there is none, or none was chosen.
    """
    found = [one for one in list_sessions(workspace=workspace.resolve()) if one.turns]
    if not found:
        raise UsageError(
            f"no sessions in {workspace.resolve()}", hint="agentcli sessions list --all"
        )
    shown, more = found[:LISTED], len(found[LISTED:])
    width = shutil.get_terminal_size().columns - 1
    for index, one in enumerate(shown, start=1):
        sys.stdout.write(shorten_end(f"{index:>3}  {format_session_row(one)}", width) + "\n")
    if more:
        sys.stdout.write(
            f"     and {more} older: agentcli sessions list, then agentcli --resume ID\n"
        )
    return shown[_ask_number(len(shown)) - 1].id


def _ask_number(most: int) -> int:
    """Ask until there is a valid number: a key the terminal does not edit with is no choice."""
    try:
        while True:
            number = parse_whole_number(input(f"Which session? [1-{most}] ").strip() or "1") or 0
            if 1 <= number <= most:
                return number
            sys.stdout.write(f"Type a number from 1 to {most}, or Ctrl+D to cancel.\n")
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        raise UsageError("no session was chosen", hint="agentcli --resume ID") from None


def format_session_row(one: SessionSummary) -> str:
    turns = f"{one.turns} {'turn' if one.turns == 1 else 'turns'}"
    return f"{format_age(one.last):>8}  {turns:<9} {show_controls(one.title)}"


def format_age(at: str, now: datetime | None = None) -> str:
    """Return the age, as in `5m ago`; empty if the time cannot be parsed."""
    try:
        seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for size_s, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size_s:
            return f"{int(seconds // size_s)}{unit} ago"
    return "just now"
