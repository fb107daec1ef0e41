"""The branch of the workspace, with a star when something in it is changed.

Its name is read from the repository at once, the changes are asked of git and not waited for, and
none of the programs that the repository's own settings name is run.
"""

import asyncio
from pathlib import Path
from threading import Thread

from agentcli.machine.worktree import Changes, branch_of

PATIENCE_S = 0.05
"""How long the first line of a session waits for git."""
_UNTRACKED = "??"


class Branch:
    """`name` is empty where there is no repository."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.name = _name(workspace)
        self._asking = Thread(target=self._find_out, daemon=True)
        if self.name:
            self._asking.start()

    def settle(self) -> None:
        """Takes what git has said by now, or says very soon."""
        if self.name:
            self._asking.join(PATIENCE_S)

    async def refresh(self) -> None:
        await asyncio.to_thread(self._find_out)

    def _find_out(self) -> None:
        name = _name(self._workspace)
        changes = Changes(self._workspace)
        if name:
            changes.find_out()
        is_changed = any(not path.startswith(_UNTRACKED) for path in changes.known or ())
        self.name = f"{name}*" if is_changed else name


def _name(workspace: Path) -> str:
    """Without the word before it."""
    return branch_of(workspace).partition(" ")[2]
