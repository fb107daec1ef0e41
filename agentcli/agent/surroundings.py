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

from agentcli.machine.worktree import Changes, branch_of, shortened
from agentcli.types.deltas import CallDelta, TextDelta, ThinkingDelta
from agentcli.types.events import CallJudged, Compacted, Event, Fact, ModelReplied, Told, Why
from agentcli.types.tools import Effect

"""Why it is told."""
PATHS_SHOWN = 10
DIRECTORY_CHARS = 500
_HERE = "[Environment: "


class Surroundings:
    """Listens to a session, so that it knows when a request is under way."""

    def __init__(self, workspace: Path, past: Iterable[Fact] = ()) -> None:
        """`past`: of a session that is resumed; its work tree is no news any more."""
        self._workspace = workspace
        self._told = ""
        self._changes: Changes | None = Changes(workspace)
        """None: they were told, or must not be told any more."""
        self._is_asked = False
        for fact in past:
            self._changes = None
            if isinstance(fact, Told) and fact.text.startswith(_HERE):
                self._told = fact.text

    def __call__(self, event: Event) -> None:
        match event:
            case Compacted():
                self._told = ""
            case TextDelta() | ThinkingDelta() | CallDelta() | ModelReplied():
                self._ask()
            case CallJudged(effect=effect) if effect is not Effect.READ:
                if self._changes is not None and self._changes.known is None:
                    self.close()
            case _:
                pass

    def at_start(self) -> Sequence[Told]:
        self._told = here(self._workspace)
        return [Told(text=self._told, why=Why.ENVIRONMENT)]

    def notices(self) -> Sequence[Told]:
        """What has become known or different since it was last told."""
        told = [] if here(self._workspace) == self._told else [*self.at_start()]
        if self._changes is not None and self._changes.known is not None:
            told.append(Told(text=described(self._changes.known), why=Why.ENVIRONMENT))
            self._changes = None
        return told

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _ask(self) -> None:
        if self._is_asked or self._changes is None:
            return
        self._is_asked = True
        if branch_of(self._workspace):
            self._changes.ask()


def here(workspace: Path) -> str:
    machine = os.uname().machine if hasattr(os, "uname") else ""
    parts = (
        f"today is {date.today():%A, %Y-%m-%d}",
        f"working directory {shortened(str(workspace), DIRECTORY_CHARS)}",
        f"{sys.platform} {machine}".strip(),
        f"git {branch}" if (branch := branch_of(workspace)) else "no git repository",
    )
    return f"{_HERE}{'; '.join(parts)}]"


def described(changes: Sequence[str]) -> str:
    """Of `git status`: two letters and a path each."""
    if not changes:
        return "[Work tree as the session found it: clean]"
    new = sum(change.startswith("??") for change in changes)
    counts = [f"{len(changes) - new} changed", f"{new} untracked"]
    shown = [f"\n{change[:3]}{shortened(change[3:])}" for change in changes[:PATHS_SHOWN]]
    left_out = len(changes) - len(shown)
    more = f"\n... and {left_out} more" if left_out else ""
    return f"[Work tree as the session found it: {', '.join(counts)}:{''.join(shown)}{more}]"
