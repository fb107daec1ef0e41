"""Memories as text: a list, one in full, and what is said when one is changed or deleted."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agentcli.features.recall.store import MemoryEntry, MemoryStore, get_memory_path
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, UsageError
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import format_age, shorten_middle

LINE_CHARS = 70
HINT = "agentcli recall list"


def format_entry(entry: MemoryEntry) -> str:
    """Return an entry in full. What would act on a terminal is made visible."""
    head = f"memory {entry.id}, " if entry.id else ""
    parts = [f"[{head}session {entry.session}, {entry.at}]", f"asked: {entry.asked}"]
    if entry.files:
        parts.append(f"files: {', '.join(entry.files.splitlines())}")
    if entry.learned:
        parts.append(f"learned: {entry.learned}")
    return "\n".join(show_controls(line) for part in parts for line in part.splitlines())


def format_line(entry: MemoryEntry) -> str:
    """Return an entry on one line: its id, its age, what was asked, and how many files."""
    asked = shorten_middle(show_controls(" ".join(entry.asked.split())), LINE_CHARS)
    files = pluralize(len(entry.files.splitlines()), "file") if entry.files else ""
    learned = "learned" if entry.learned else ""
    more = ", ".join(part for part in (files, learned) if part)
    return f"{entry.id:>5}  {format_age(entry.at):>8}  {asked}" + (f"  ({more})" if more else "")


def show_entries(words: str | None, workspace: Path | None, *, as_json: bool) -> Exit:
    """Print the entries of a workspace, or of all if it is None; with words, those that match."""
    if words is not None and not words.strip():
        raise UsageError("nothing to search for", hint="agentcli recall search 'login test'")
    store, where = MemoryStore(get_memory_path()), str(workspace) if workspace else None
    found = (
        store.list_entries(workspace=where)
        if words is None
        else store.search(words, workspace=where)
    )
    if as_json:
        sys.stdout.write(json.dumps([asdict(one) for one in found]) + "\n")
        return Exit.DONE
    if not found:
        sys.stderr.write("nothing is remembered\n" if words is None else "no matches\n")
    for one in found:
        sys.stdout.write(f"{format_line(one)}\n")
    return Exit.DONE


def show_entry(entry_id: int, *, as_json: bool) -> Exit:
    entry = MemoryStore(get_memory_path()).find(entry_id)
    shown = json.dumps(asdict(entry)) if as_json else format_entry(entry)
    sys.stdout.write(f"{shown}\n")
    return Exit.DONE


def change_entry(entry_id: int, *, asked: str | None, learned: str | None) -> Exit:
    if asked is None and learned is None:
        raise UsageError("nothing to change", hint="agentcli recall edit --help")
    sys.stderr.write(f"{edit_entry(entry_id, asked=asked, learned=learned)}\n")
    return Exit.DONE


def edit_entry(entry_id: int, *, asked: str | None = None, learned: str | None = None) -> str:
    """Change an entry, and return a line about it. None leaves a text as it is."""
    store = MemoryStore(get_memory_path())
    entry = store.find(entry_id)
    store.change(
        entry_id,
        asked=entry.asked if asked is None else asked,
        learned=entry.learned if learned is None else learned,
    )
    return f"changed memory {entry_id}"


def delete_entries(entry_ids: Sequence[int], *, everything: bool) -> Exit:
    store = MemoryStore(get_memory_path())
    if everything:
        entry_ids = [one.id for one in store.list_entries(workspace=None)]
    elif not entry_ids:
        raise UsageError("name the memories to delete, or --all", hint=HINT)
    for entry_id in entry_ids:
        store.find(entry_id)
    count = store.delete(entry_ids)
    sys.stderr.write(f"deleted {pluralize(count, 'memory', many='memories')}\n")
    return Exit.DONE
