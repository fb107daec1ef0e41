"""The branch of the workspace, with a star if something in it has changed.

The name is read from the repository at once. Git lists the changes in the background. No program
that the repository's own settings name is run.
"""

import asyncio
from pathlib import Path
from threading import Thread

from agentcli.system.worktree import UncommittedChanges, find_branch

PATIENCE_S = 0.05
"""The longest time that the first line of a session waits for git."""
_UNTRACKED = "??"


class GitBranch:
    """The name of the branch. `name` is empty if there is no repository."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.name = _read_name(workspace)
        self._refresh_thread = Thread(target=self._refresh_now, daemon=True)
        if self.name:
            self._refresh_thread.start()

    def wait_briefly(self) -> None:
        """Wait a moment for git. Use what it has reported by then."""
        if self.name:
            self._refresh_thread.join(PATIENCE_S)

    async def refresh(self) -> None:
        await asyncio.to_thread(self._refresh_now)

    def _refresh_now(self) -> None:
        name = _read_name(self._workspace)
        changes = UncommittedChanges(self._workspace)
        if name:
            changes.load()
        is_changed = any(not path.startswith(_UNTRACKED) for path in changes.known or ())
        self.name = f"{name}*" if is_changed else name


def _read_name(workspace: Path) -> str:
    """Return the branch name without the word before it."""
    return find_branch(workspace).partition(" ")[2]
