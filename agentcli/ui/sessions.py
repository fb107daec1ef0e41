"""Sessions on paper: a list with titles, hits of a search; named and deleted."""

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentcli.app.resume import add_fact
from agentcli.machine.plain import visible
from agentcli.record.checkpoint.keep import store_of
from agentcli.record.lock import Lock, is_held
from agentcli.record.place import SessionPlace, fork_tree, sessions_directory
from agentcli.record.search import search
from agentcli.record.sessions import Summary, find_session, list_sessions, summary_of
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.types.events import SessionNamed
from agentcli.types.words import counted

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def show_list(workspace: Path | None, *, as_json: bool) -> None:
    """`workspace` None: of all of them."""
    everything = list_sessions()
    here = str(workspace)
    found = [one for one in everything if workspace is None or one.workspace == here]
    if as_json:
        write_json([row(summary) for summary in found])
        return
    for summary in found:
        sys.stdout.write(list_line(summary) + "\n")
    elsewhere = len(everything) - len(found)
    if elsewhere:
        sys.stderr.write(f"{elsewhere} of other workspaces: agentcli sessions list --all\n")
    elif not found:
        sys.stderr.write("there are no sessions yet\n")


def list_line(summary: Summary) -> str:
    """One line: short id, age, turns, ending, title; also what a picker shows."""
    turns = counted(summary.turns, "turn")
    title = visible(summary.title) or "(nothing was asked)"
    return f"{summary.id[-4:]}  {age(summary.last):>8}  {turns:>9}  {state(summary):<17}  {title}"


def show_hits(words: str) -> Exit:
    if not words.strip():
        raise UsageError("there is nothing to look for", hint="agentcli sessions search 'timeout'")
    found = False
    for summary in list_sessions():
        for hit in search(summary.place, words):
            found = True
            sys.stdout.write(f"{summary.id}  {hit.seq:>5} {hit.fact:<14} {visible(hit.excerpt)}\n")
    if not found:
        sys.stderr.write("nothing found\n")
    return Exit.DONE


def rename(named: str, name: str) -> None:
    if not name.strip():
        raise UsageError("a name needs a letter", hint="agentcli sessions name 7f3a 'the parser'")
    add_fact(find_session(named), SessionNamed(name=" ".join(name.split())))


def delete(named: str, *, sure: bool) -> Exit:
    place = find_session(named)
    if place.directory.parent != sessions_directory().resolve():
        raise UsageError(
            f"{place.directory} is not among the sessions", hint=f"rm -r {place.directory}"
        )
    if not sure and not _confirmed(place):
        return Exit.DONE
    lock = Lock(place.directory)  # nobody may be working in it
    undo = store_of(Path(summary_of(place).workspace), place.directory.parent)
    try:
        shutil.rmtree(place.directory)
        undo.forget(place.id)
        shutil.rmtree(fork_tree(place.id), ignore_errors=True)
    except OSError as error:
        raise SettingsError(
            f"cannot delete {place.directory}: {error.strerror}", hint=f"rm -r {place.directory}"
        ) from error
    finally:
        lock.release()
    sys.stderr.write(f"deleted {place.id}\n")
    return Exit.DONE


def age(at: str) -> str:
    """How long ago, in its largest unit."""
    try:
        then = datetime.fromisoformat(at.replace("Z", "+00:00"))
        seconds = (datetime.now(UTC) - then).total_seconds()
    except (ValueError, TypeError):
        return "?"
    for unit, length_s in (("d", DAY_S), ("h", HOUR_S), ("m", MINUTE_S)):
        if seconds >= length_s:
            return f"{int(seconds // length_s)}{unit} ago"
    return "just now"


def _confirmed(place: SessionPlace) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "nobody is here to be asked", hint=f"agentcli sessions delete {place.id} -y"
        )
    sys.stderr.write(f"{list_line(summary_of(place))}\ndelete it for good? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def state(summary: Summary) -> str:
    if summary.is_closed:
        return summary.ending or "-"
    return "running" if is_held(summary.place.directory) else "cut short"


def row(summary: Summary) -> dict[str, Any]:
    return {
        "session": summary.id,
        "title": summary.title,
        "workspace": summary.workspace,
        "model": summary.model,
        "mode": summary.mode,
        "started": summary.started,
        "last": summary.last,
        "turns": summary.turns,
        "ending": summary.ending,
        "state": state(summary),
        "origin": summary.origin,
        "log": str(summary.place.log),
    }


def write_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")
