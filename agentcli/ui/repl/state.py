"""The state of an interactive session, which its parts share.

Parts read it whenever they draw or act, and only the part that owns a field changes it.
"""

import asyncio
from dataclasses import field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from agentcli.system.repository import UncommittedChanges, find_branch
from agentcli.types.errors import Exit
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.settings import Settings
from agentcli.types.verdicts import Mode

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.session.session import Session
    from agentcli.ui.render.theme import ColorWhen
    from agentcli.ui.repl.approval import PendingApproval, PendingPlan
    from agentcli.ui.repl.commands.registry import CommandRegistry
    from agentcli.ui.repl.key_table import KeyTable
    from agentcli.ui.repl.renderer import TranscriptRenderer
    from agentcli.ui.repl.status import Status

PATIENCE_S = 0.05
"""The longest time that the first line of a session waits for git."""
_UNTRACKED = "??"


class GitBranch:
    """The branch of the workspace, with a star if a tracked file has changed.

    The name is read at once, and is empty without a repository. Git lists the changes in the
    background. No program that the repository's own settings name is run.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplOptions:
    """The options with which a session begins."""

    model: str
    """The model's name, as far as known before anything is loaded."""
    branch: GitBranch
    color: "ColorWhen" = "auto"
    resume: "SessionPaths | None" = None
    background: str = ""
    """The background colour as the terminal reports it, or empty if it does not."""
    typed: str = ""
    """What the user typed before there was a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplEnd:
    """The end of a session on the screen."""

    exit_code: Exit
    settings: Settings
    """The settings at the end. In another workspace, the session continues there."""
    session: "SessionPaths | None" = None
    """The session; None if none could be opened."""


@dataclass(slots=True, kw_only=True)
class ReplState:
    settings: Settings
    options: ReplOptions
    keys: "KeyTable"
    status: "Status"
    first_mode: Mode
    """The mode until there is a session, which then has its own."""
    session: "Session | None" = None
    """The session in use, or None while it is loaded or if it cannot be opened."""
    renderer: "TranscriptRenderer | None" = None
    registry: "CommandRegistry | None" = None
    calls: tuple[ToolCall, ...] = ()
    """The calls of the model's last reply."""
    task: "asyncio.Task[None] | None" = None
    """The turn, shell command or slow slash command that runs."""
    interrupts: int = 0
    """How often the task was interrupted."""
    gave_up: bool = False
    """True if the user did not want to wait until a request is sent again."""
    pending: "PendingApproval | PendingPlan | None" = None
    """The question to the user, whether it is open yet or waits."""
    queue: list[str] = field(default_factory=list)
    """The messages sent while a turn was running. They wait for its end."""
    pasted: dict[str, bytes] = field(default_factory=dict)
    """Images from the clipboard, by the names of their mentions."""
    own_status: str = ""
    """What the user's own command says for the toolbar."""
    shell_output: str = ""
    """The latest output of the user's own shell command."""

    @property
    def mode(self) -> Mode:
        return self.session.gate.mode if self.session else self.first_mode

    def set_mode(self, mode: Mode) -> None:
        self.first_mode = mode
        if self.session is not None:
            self.session.set_mode(mode)

    def interrupt(self) -> None:
        """Interrupt what runs, if anything does."""
        if self.task is not None:
            self.interrupts += 1
            self.gave_up = self.gave_up or self.status.is_waiting_to_retry
            self.task.cancel()

    @property
    def is_answering(self) -> bool:
        """True while the user types an answer on a line of its own."""
        return self.pending is not None and self.pending.being_typed is not None

    def count_background(self) -> int:
        """Return the number of commands that run in the background."""
        return len(self.session.builtin_tools.list_background()) if self.session else 0

    def mask_secrets(self, text: str) -> str:
        """Return the text as it may be stored permanently."""
        return self.session.clean(text) if self.session else text

    def take_queue(self) -> str:
        """Return all waiting messages as one, and empty the queue."""
        text = "\n".join(self.queue)
        self.queue.clear()
        return text
