"""The session behind the screen: loaded while the user types, replaced when they ask for it."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.types.deltas import CommandEnded
from agentcli.types.errors import AgentError, Exit
from agentcli.types.events import CallFinished, Event, ModelReplied, Undone
from agentcli.types.tools import Diff, ToolResult
from agentcli.ui.repl.answers import Answers
from agentcli.ui.repl.commands.registry import switch_session
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.input_history import InputHistory
from agentcli.ui.repl.state import ReplState
from agentcli.ui.repl.terminal import Terminal

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.session.session import Session
    from agentcli.ui.repl.commands.registry import CommandRegistry
    from agentcli.ui.repl.renderer import TranscriptRenderer

ENDED_NOTICE_S = 5.0


class SessionManager:
    """Sets `session`, `renderer` and `registry` of the state."""

    def __init__(
        self,
        state: ReplState,
        *,
        answers: Answers,
        composer: Composer,
        input_history: InputHistory,
        terminal: Terminal,
    ) -> None:
        self._state = state
        self._answers = answers
        self._composer = composer
        self._input_history = input_history
        self._terminal = terminal
        self._ready: asyncio.Task[None] | None = None
        self._is_status_running = False

    def begin(self) -> None:
        self._ready = asyncio.ensure_future(self._load_session())
        self._ready.add_done_callback(self._finish_loading)

    async def wait_for_session(self) -> "tuple[Session, TranscriptRenderer]":
        """Wait for the session. Raise AgentError, already reported, if it cannot be opened."""
        assert self._ready is not None
        if self._ready.done() and self._ready.exception() is not None:
            self.begin()
        await asyncio.shield(self._ready)
        assert self._state.session is not None
        assert self._state.renderer is not None
        return self._state.session, self._state.renderer

    async def wait_for_registry(self) -> "CommandRegistry":
        """Wait for the commands, which are available even if the session cannot be opened."""
        assert self._ready is not None
        if self._state.registry is None:
            await asyncio.wait([self._ready])
        assert self._state.registry is not None
        return self._state.registry

    async def renew(self, *, resume: "SessionPaths | None") -> None:
        """Open another session. Raise AgentError if that fails; then the current one stays."""
        before, renderer = await self.wait_for_session()
        session = self._open_session(renderer, resume=resume)
        self._state.session = session
        await switch_session(session, previous=before, transcript=renderer.transcript)
        self._finish_opening()

    async def close(self, exit_code: Exit) -> None:
        if self._ready is not None:
            await asyncio.wait([self._ready])
        if self._state.session is not None:
            await self._state.session.close(exit_code)

    def refresh_branch(self) -> None:
        """Look for changed files again, after a turn or a change."""
        if not self._state.count_background():  # one could change what git runs
            self._terminal.run_task(self._refresh_branch())

    async def _refresh_branch(self) -> None:
        await self._state.options.branch.refresh()
        self._terminal.redraw()

    def refresh_own_status(self) -> None:
        """Run the user's command for the toolbar again, if there is one."""
        if self._state.settings.statusline and not self._is_status_running:
            self._terminal.run_task(self._refresh_own_status(self._state.settings.statusline))

    async def _refresh_own_status(self, command: str) -> None:
        from agentcli.ui.repl.status_command import build_status_input, run_status_command

        state = self._state
        if state.session is None or state.renderer is None:
            return
        transcript = state.renderer.transcript
        given = build_status_input(
            state.session, transcript.tally, context_tokens=transcript.context_tokens
        )
        self._is_status_running = True
        try:
            state.own_status = await asyncio.to_thread(
                run_status_command, command, state.settings.workspace, given
            )
        except AgentError as error:
            state.own_status = ""
            state.settings = replace(state.settings, statusline=None)
            state.renderer.say(f"warning: {error}; it is not run again", "warning")
        finally:
            self._is_status_running = False
        self._terminal.redraw()

    def report_history_fault(self) -> None:
        """Say once why the input history cannot be used, if there is a reason."""
        renderer = self._state.renderer
        if renderer and (complaint := self._input_history.take_complaint()):
            renderer.say(f"warning: {complaint}", "warning")

    async def _load_session(self) -> None:
        await asyncio.to_thread(_import_late)
        from agentcli.ui.repl.renderer import build_renderer

        state = self._state
        state.renderer = renderer = state.renderer or build_renderer(
            state.settings,
            background=state.options.background,
            color=state.options.color,
            display=self._terminal,
            status=self._state.status,
        )
        resume, state.options = state.options.resume, replace(state.options, resume=None)
        try:
            session = self._open_session(renderer, resume=resume)
        except AgentError as error:
            renderer.transcript.add_error(str(error), error.hint)
            raise
        if resume is not None:
            renderer.transcript.load_session(session.facts)
        if state.first_mode != session.gate.mode:
            session.set_mode(state.first_mode)
        state.session = session

    def _open_session(
        self, renderer: "TranscriptRenderer", *, resume: "SessionPaths | None"
    ) -> "Session":
        """Open a session with the current commands.

        The commands are available even if no session can be opened.
        """
        from agentcli.session.builder import open_session
        from agentcli.ui.repl.commands.table import build_registry

        settings = self._state.settings
        self._state.registry = registry = build_registry(settings)
        session = open_session(
            settings,
            listeners=(self._on_event, renderer.transcript),
            ask_user=self._answers,
            resume=resume,
        )
        for problem in registry.problems:
            renderer.transcript.say(renderer.apply_style(f"warning: {problem}", "warning"))
        return session

    def _finish_loading(self, ready: "asyncio.Task[None]") -> None:
        """End the session after a bug. Errors the user can act on were reported before."""
        error = None if ready.cancelled() else ready.exception()
        if error is not None and not isinstance(error, AgentError):
            self._terminal.fail(error)
        self._finish_opening()

    def _finish_opening(self) -> None:
        self._composer.complete_slash()
        self.report_history_fault()
        self.refresh_own_status()
        self._terminal.redraw()

    def _on_event(self, event: Event) -> None:
        match event:
            case ModelReplied(message=message):
                self._state.calls = tuple(message.tool_calls)
            case Undone() | CallFinished(result=ToolResult(change=Diff())):
                self.refresh_branch()
            case CommandEnded(pid=pid, how=how):
                ended = how.replace("exit code", "exit")
                self._terminal.show_notice(
                    f"Background command finished ({ended}), pid {pid}", seconds=ENDED_NOTICE_S
                )
            case _:
                pass
        self._terminal.redraw()


def _import_late() -> None:
    """Import what lays out text and runs a session, beside the event loop that takes keys."""
    import agentcli.session.builder
    import agentcli.ui.repl.commands.table
    import agentcli.ui.repl.renderer  # noqa: F401
