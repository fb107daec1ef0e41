"""Which session to continue, chosen from a list before anything is drawn."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from agentcli.machine.numbers import whole_number
from agentcli.machine.plain import visible
from agentcli.record.sessions import Summary, list_sessions
from agentcli.types.errors import UsageError

LISTED = 15


def pick_session(workspace: Path) -> str:
    """The id of a session. Raises UsageError when there is none, or none was chosen."""
    found = [one for one in list_sessions(workspace=workspace.resolve()) if one.turns][:LISTED]
    if not found:
        raise UsageError(f"no session worked in {workspace.resolve()}", hint="agentcli sessions")
    for index, one in enumerate(found, start=1):
        sys.stdout.write(f"{index:>3}  {row(one)}\n")
    try:
        answer = input(f"which? [1-{len(found)}] ").strip() or "1"
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        answer = ""
    number = whole_number(answer) or 0
    if not 1 <= number <= len(found):
        raise UsageError("no session was chosen", hint="agentcli --resume SESSION")
    return found[number - 1].id


def row(one: Summary) -> str:
    turns = f"{one.turns} {'turn' if one.turns == 1 else 'turns'}"
    return f"{age(one.last):>8}  {turns:<9} {visible(one.title)}"


def age(at: str, now: datetime | None = None) -> str:
    """`5m ago`; empty where the time cannot be told."""
    try:
        seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for size_s, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size_s:
            return f"{int(seconds // size_s)}{unit} ago"
    return "just now"
