"""The session behind the screen: loaded while the user types, replaced when they ask for it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.settings import Settings
from agentcli.types.deltas import CommandEnded
from agentcli.types.errors import AgentError, Exit
from agentcli.types.events import CallFinished, Event, ModelReplied, Undone
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Diff, ToolResult
from agentcli.types.verdicts import AskUser, Mode, Question
from agentcli.ui.repl.approval import EDITABLE, RuleOffer
from agentcli.ui.repl.commands.registry import switch_session
from agentcli.ui.repl.git_branch import GitBranch
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.terminal import Terminal
from agentcli.ui.repl.terminal_colors import TerminalReply

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.session.session import Session
    from agentcli.ui.repl.commands.registry import CommandRegistry
    from agentcli.ui.repl.renderer import TranscriptRenderer


@dataclass(frozen=True, slots=True, kw_only=True)
class LateImports:
    """The functions that are loaded while the user types."""

    open_session: "Callable[..., Session]"
    build_renderer: "Callable[..., TranscriptRenderer]"
    build_registry: "Callable[[Settings], CommandRegistry]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplOptions:
    """The options with which a session begins."""

    model: str
    """The model's name, as far as known before anything is loaded."""
    branch: GitBranch
    terminal_reply: TerminalReply
    color: str = "auto"
    resume: "SessionPaths | None" = None


class SessionManager:
    """The current session. `session`, `renderer` and `registry` are None until they are loaded."""

    def __init__(
        self,
        settings: Settings,
        options: ReplOptions,
        *,
        load: Callable[[], LateImports],
        terminal: Terminal,
        status: Status,
        ask_user: AskUser,
        on_ready: Callable[[], None],
        show_notice: Callable[[str], None],
        on_files_changed: Callable[[], None],
    ) -> None:
        """`on_ready` is called when the session is ready, and also when it could not be opened.

        `show_notice` shows a notice for a moment. `on_files_changed` is called after files of the
        workspace have changed."""
        self._settings = settings
        self._options = options
        self._load = load
        self._terminal = terminal
        self._status = status
        self._ask_user = ask_user
        self._on_ready = on_ready
        self._show_notice = show_notice
        self._on_files_changed = on_files_changed
        self._ready: asyncio.Task[None] | None = None
        self._late_imports: LateImports | None = None
        self._calls: list[ToolCall] = []
        self.mode: Mode = settings.mode
        self.session: Session | None = None
        self.renderer: TranscriptRenderer | None = None
        self.registry: CommandRegistry | None = None

    def begin(self) -> None:
        self._ready = asyncio.ensure_future(self._load_session())
        self._ready.add_done_callback(self._finish_loading)

    async def wait_for_session(self) -> "tuple[Session, TranscriptRenderer]":
        """Wait for the session. Raise AgentError, already reported, if it cannot be opened."""
        assert self._ready is not None
        if self._ready.done() and self._ready.exception() is not None:
            self.begin()
        await asyncio.shield(self._ready)
        assert self.session is not None
        assert self.renderer is not None
        return self.session, self.renderer

    async def wait_for_registry(self) -> "CommandRegistry":
        """Wait for the commands, which are available even if the session cannot be opened."""
        assert self._ready is not None
        if self.registry is None:
            await asyncio.wait([self._ready])
        assert self.registry is not None
        return self.registry

    def set_mode(self, mode: Mode) -> None:
        self.mode = mode
        if self.session is not None:
            self.session.set_mode(mode)

    async def renew(self, settings: Settings, *, resume: "SessionPaths | None") -> None:
        """Open another session. Raise AgentError if that fails; then the current one stays."""
        before, stage = await self.wait_for_session()
        assert self._late_imports is not None
        self._settings = settings
        self.session = self._open_session(self._late_imports, stage, resume=resume)
        await switch_session(self.session, previous=before, transcript=stage.transcript)
        self._on_ready()

    async def close(self, exit_code: Exit) -> None:
        if self._ready is not None:
            await asyncio.wait([self._ready])
        if self.session is not None:
            await self.session.close(exit_code)

    def count_background(self) -> int:
        """Return the number of commands that run in the background."""
        return len(self.session.builtin_tools.list_background()) if self.session else 0

    def build_offer(self, question: Question) -> RuleOffer:
        assert self.session is not None
        found = question.suggestion
        given = question.own_input
        return RuleOffer(
            rules=found.rules,
            session=found.session,
            reason=found.reason,
            uncovered=found.uncovered,
            editable=isinstance(given, dict) and any(name in given for name in EDITABLE),
        )

    def find_position(self, question: Question) -> tuple[int, int]:
        """Return the number of the call and the number of calls in the last reply.

        A call that is not in that reply counts as the only one.
        """
        ids = [call.id for call in self._calls]
        asked = question.call.id
        return (ids.index(asked) + 1, len(ids)) if asked in ids else (1, 1)

    async def _load_session(self) -> None:
        self._late_imports = late = await asyncio.to_thread(self._load)
        self.renderer = self.renderer or late.build_renderer(
            self._settings,
            background=self._options.terminal_reply.colour,
            color=self._options.color,
            commit=self._terminal.commit,
            size=lambda: (self._terminal.size.columns, self._terminal.size.rows),
            status=self._status,
        )
        resume, self._options = self._options.resume, replace(self._options, resume=None)
        try:
            self.session = self._open_session(late, self.renderer, resume=resume)
        except AgentError as error:
            self.renderer.transcript.add_error(str(error), error.hint)
            raise
        if resume is not None:
            self.renderer.transcript.load_session(self.session.facts)
        if self.mode != self.session.gate.mode:
            self.session.set_mode(self.mode)

    def _open_session(
        self,
        late_imports: LateImports,
        renderer: "TranscriptRenderer",
        *,
        resume: "SessionPaths | None",
    ) -> "Session":
        """Open a session with the current commands.

        The commands are available even if no session can be opened.
        """
        self.registry = late_imports.build_registry(self._settings)
        session = late_imports.open_session(
            self._settings,
            listeners=(self._on_event, renderer.transcript),
            ask_user=self._ask_user,
            resume=resume,
        )
        for problem in self.registry.problems:
            renderer.transcript.say(renderer.apply_style(f"warning: {problem}", "warning"))
        return session

    def _finish_loading(self, ready: "asyncio.Task[None]") -> None:
        """End the session after a bug. Errors the user can act on were reported before."""
        error = None if ready.cancelled() else ready.exception()
        if error is not None and not isinstance(error, AgentError):
            self._terminal.leave(error)
        self._on_ready()

    def _on_event(self, event: Event) -> None:
        match event:
            case ModelReplied(message=message):
                self._calls = list(message.tool_calls)
            case Undone() | CallFinished(result=ToolResult(status="ok", details=Diff())):
                self._on_files_changed()
            case CommandEnded(pid=pid, how=how):
                self._show_notice(f"background pid {pid} has ended: {how}")
            case _:
                pass
        self._terminal.redraw()
