"""The branch of the workspace, with a star when something is changed: asked of git, not waited for.

The repository's own settings may name programs that git would run; none of them is.
"""

import asyncio
import subprocess
from pathlib import Path

_COMMAND = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "status",
    "--porcelain=v2",
    "--branch",
    "--untracked-files=no",
    "--ignore-submodules=all",
)
PATIENCE_S = 0.05
"""How long the first line of a session waits for git."""


class Branch:
    """`name` is empty where there is no repository, or none that answered yet."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.name = ""
        self._process = self._started()

    def settle(self) -> None:
        """Takes what git has said by now, or says very soon."""
        if self._process is None:
            return
        try:
            said, _ = self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return
        self.name = parsed(said)
        self._process = None

    async def refresh(self) -> None:
        process = self._process or self._started()
        if process is not None:
            said, _ = await asyncio.to_thread(process.communicate)
            self.name = parsed(said)
        self._process = None

    def _started(self) -> "subprocess.Popen[bytes] | None":
        try:
            return subprocess.Popen(
                _COMMAND,
                cwd=self._workspace,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return None


def parsed(said: bytes) -> str:
    name, is_changed = "", False
    for line in said.decode("utf-8", "replace").splitlines():
        if line.startswith("# branch.head "):
            name = line.removeprefix("# branch.head ")
        elif not line.startswith("#"):
            is_changed = True
    return f"{name}{'*' if is_changed else ''}" if name else ""
