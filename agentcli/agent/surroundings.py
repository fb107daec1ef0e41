"""Where and when a session works, as the model is told: at its start, and when it has changed.

It is told as facts between messages, so that what was sent before stays as it was, to the byte.
What git says of the work tree is asked while the first reply arrives, and told once, if it was
known before anything of ours could have changed it.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from agentcli.machine.worktree import UncommittedChanges, abbreviate, find_branch
from agentcli.types.deltas import CallDelta, TextDelta, ThinkingDelta
from agentcli.types.events import (
    CallJudged,
    Compacted,
    ContextNote,
    Event,
    Fact,
    ModelReplied,
    NoteReason,
)
from agentcli.types.tools import Effect

"""Why it is told."""
PATHS_SHOWN = 10
DIRECTORY_CHARS = 500
_HEADING = "[Environment: "


class EnvironmentNotes:
    """Listens to a session, so that it knows when a request is under way."""

    def __init__(self, workspace: Path, past: Iterable[Fact] = ()) -> None:
        """`past`: of a session that is resumed; its work tree is no news any more."""
        self._workspace = workspace
        self._last_text = ""
        self._changes: UncommittedChanges | None = UncommittedChanges(workspace)
        """None: they were told, or must not be told any more."""
        self._is_asked = False
        for fact in past:
            self._changes = None
            if isinstance(fact, ContextNote) and fact.text.startswith(_HEADING):
                self._last_text = fact.text

    def __call__(self, event: Event) -> None:
        match event:
            case Compacted():
                self._last_text = ""
            case TextDelta() | ThinkingDelta() | CallDelta() | ModelReplied():
                self._request_changes()
            case CallJudged(effect=effect) if effect is not Effect.READ:
                if self._changes is not None and self._changes.known is None:
                    self.close()
            case _:
                pass

    def build_start_notes(self) -> Sequence[ContextNote]:
        self._last_text = describe_environment(self._workspace)
        return [ContextNote(text=self._last_text, why=NoteReason.ENVIRONMENT)]

    def collect_notes(self) -> Sequence[ContextNote]:
        """What has become known or different since it was last told."""
        told = (
            []
            if describe_environment(self._workspace) == self._last_text
            else [*self.build_start_notes()]
        )
        if self._changes is not None and self._changes.known is not None:
            told.append(
                ContextNote(text=describe_changes(self._changes.known), why=NoteReason.ENVIRONMENT)
            )
            self._changes = None
        return told

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _request_changes(self) -> None:
        if self._is_asked or self._changes is None:
            return
        self._is_asked = True
        if find_branch(self._workspace):
            self._changes.request()


def describe_environment(workspace: Path) -> str:
    machine = os.uname().machine if hasattr(os, "uname") else ""
    parts = (
        f"today is {date.today():%A, %Y-%m-%d}",
        f"working directory {abbreviate(str(workspace), DIRECTORY_CHARS)}",
        f"{sys.platform} {machine}".strip(),
        f"git {branch}" if (branch := find_branch(workspace)) else "no git repository",
    )
    return f"{_HEADING}{'; '.join(parts)}]"


def describe_changes(changes: Sequence[str]) -> str:
    """Of `git status`: two letters and a path each."""
    if not changes:
        return "[Work tree as the session found it: clean]"
    new = sum(change.startswith("??") for change in changes)
    counts = [f"{len(changes) - new} changed", f"{new} untracked"]
    shown = [f"\n{change[:3]}{abbreviate(change[3:])}" for change in changes[:PATHS_SHOWN]]
    left_out = len(changes) - len(shown)
    more = f"\n... and {left_out} more" if left_out else ""
    return f"[Work tree as the session found it: {', '.join(counts)}:{''.join(shown)}{more}]"
