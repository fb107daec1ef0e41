"""The interactive session: input goes to the model, events go to the screen.

The first paint needs only prompt-toolkit. Everything else is loaded while the user types. Messages
sent before that wait for it.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.styles import DynamicStyle

from agentcli.session.features import PromptMenu
from agentcli.settings import Settings
from agentcli.types.errors import Exit
from agentcli.types.verdicts import Mode
from agentcli.ui.render.wording import is_ascii
from agentcli.ui.repl.actions import Actions, SlashCommandRunner
from agentcli.ui.repl.answer_actions import apply_plan_answer, get_proposed_plan
from agentcli.ui.repl.answer_keys import AnswerKeys, Rhythm
from agentcli.ui.repl.approval import ApprovalPrompt, PendingApproval
from agentcli.ui.repl.completion import ServerCompletions
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.external import ask_line
from agentcli.ui.repl.input_history import InputHistory
from agentcli.ui.repl.keys import build_bindings, build_table, list_key_labels
from agentcli.ui.repl.live_view import NOTICE_S, LiveView
from agentcli.ui.repl.mentions import WorkspaceFiles
from agentcli.ui.repl.screen import LiveScreen, ScreenSources
from agentcli.ui.repl.session_manager import LateImports, ReplOptions, SessionManager
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.terminal import (
    FRAME_S,
    InlineApplication,
    Terminal,
    open_input,
    open_output,
)
from agentcli.ui.repl.turns import Turns, send_steering

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.session.session import Session
    from agentcli.ui.repl.renderer import TranscriptRenderer


T = TypeVar("T")


class Repl:
    """The parts of the session, put together. Implements `CommandHost`."""

    def __init__(
        self, settings: Settings, options: ReplOptions, *, load: Callable[[], LateImports]
    ) -> None:
        self.settings = settings
        self._options = options
        self._keys = build_table(settings.keys)
        self._exit: Exit = Exit.DONE
        self._line: asyncio.Future[Any] | None = None
        """The line that the user is asked for, on the terminal itself."""
        self._stopped = 0
        """The number of commands that were still running at the end."""
        self.slash = SlashCommandRunner(self)
        self._input_history = InputHistory(settings.workspace, mask=self._mask_secrets)
        self.composer = Composer(
            history=self._input_history.history,
            menu=self.slash,
            files=WorkspaceFiles(settings.workspace),
            server_completions=ServerCompletions(self._get_server_menu),
            rhythm=Rhythm(),
        )
        self.status = Status(is_ascii=is_ascii())
        self.approvals = self._build_approvals()
        self.screen = LiveScreen(self.composer, self._build_sources())
        self.actions = Actions(self)
        self.answer_keys = self._new_answer_keys()
        self._app = self._build_application()
        self.terminal = Terminal(self._app)
        self.sessions = self._build_session_manager(load)
        self.turns = self._build_turns()
        self.view = LiveView(
            sessions=self.sessions,
            turns=self.turns,
            approvals=self.approvals,
            composer=self.composer,
            status=self.status,
            terminal=self.terminal,
            options=options,
        )

    async def run(self) -> Exit:
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        self.sessions.begin()
        if self._input_history.offer_draft(self.composer):
            self.show_notice("up: the message that was not sent last time", seconds=10)
        drafts = asyncio.ensure_future(self._input_history.save_drafts(self.composer))
        try:
            await self.terminal.run(pre_run=self._handle_signals)
        except EOFError:
            self._exit = Exit.HANGUP
        finally:
            drafts.cancel()
            if self._exit is Exit.HANGUP and self.turns.is_running and self.sessions.session:
                self.kill_running()  # no user is left to see a command end politely
            await self.turns.close()
            self._input_history.save_draft(self.composer)
            self._stopped = self.sessions.count_background()
            await self.sessions.close(self._exit)
        return self._exit

    def render_summary(self, seconds: float) -> list[str]:
        """Return the closing summary, at most four lines. Empty if there was no conversation."""
        session, stage = self.sessions.session, self.sessions.renderer
        if session is None or stage is None:
            return []
        return stage.render_exit_summary(session, seconds, stopped=self._stopped)

    # For commands and actions

    @property
    def session(self) -> "Session":
        assert self.sessions.session is not None
        return self.sessions.session

    @property
    def renderer(self) -> "TranscriptRenderer":
        assert self.sessions.renderer is not None
        return self.sessions.renderer

    @property
    def is_busy(self) -> bool:
        return self.turns.is_running

    @property
    def mode(self) -> Mode:
        return self.sessions.mode

    def set_mode(self, mode: Mode) -> None:
        self.sessions.set_mode(mode)
        self.terminal.redraw()

    def say(self, text: str, style: str = "") -> None:
        self.renderer.transcript.say(self.renderer.render_prose(text, style))

    def print(self, ansi: str) -> None:
        self.renderer.transcript.say(ansi)

    def print_table(self, rows: Sequence[tuple[str, str]]) -> None:
        self.renderer.transcript.print_table(rows)

    def fail(self, message: str, hint: str) -> None:
        self.renderer.transcript.add_error(message, hint)

    def show_notice(self, text: str, *, seconds: float = NOTICE_S) -> None:
        self.view.show_notice(text, seconds=seconds)

    def apply_theme(self) -> None:
        self.view.apply_theme()

    def list_keys(self) -> list[tuple[str, str]]:
        return list_key_labels(self._keys)

    @property
    def editing(self) -> str:
        return "vi" if self._app.editing_mode is EditingMode.VI else "emacs"

    def set_editing(self, editing: str) -> None:
        self._app.editing_mode = _to_editing_mode(editing)

    def send(self, text: str) -> None:
        self.turns.send(text, text)

    async def decide_on_plan(self) -> None:
        self.turns.decide_on_plan()

    async def wait_for(self, verb: str, work: Coroutine[Any, Any, T]) -> T:
        return await self.turns.wait_for(verb, work)

    async def ask(self, question: str) -> str:
        self.terminal.repaint()  # earlier output stays above the question
        self._line = asyncio.ensure_future(self.terminal.hand_over(lambda: ask_line(question)))
        await asyncio.wait([self._line])
        return "" if self._line.cancelled() else str(self._line.result())

    def cancel_question(self) -> bool:
        """Cancel the question. Return whether there was one."""
        return self._line is not None and self._line.cancel()

    async def edit(self) -> None:
        await self.actions.edit_in_editor()

    async def page(self, text: str) -> None:
        await self.actions.page_text(text)

    async def renew(self, *, resume: "SessionPaths | None" = None) -> None:
        await self.turns.close()
        await self.sessions.renew(self.settings, resume=resume)

    def leave(self, exit_code: Exit = Exit.DONE) -> None:
        self._exit = exit_code
        self.terminal.leave()

    def write_to_terminal(self, sequence: str) -> bool:
        self.terminal.write_raw(sequence)
        return True

    def kill_running(self) -> None:
        self.session.builtin_tools.kill_awaited()

    def store_rules(self, pending: PendingApproval) -> None:
        for rule in pending.offer.rules:
            self.session.gate.store_rule(rule)
            self.say(f"saved: allow {rule}", "dim")

    def is_answering(self) -> bool:
        return self.approvals.pending is not None and self.approvals.pending.instead

    # Events

    async def _ask_about_plan(self) -> str:
        """Ask the user about the plan, if there is one. Return what to send to the model."""
        plan = get_proposed_plan(self)
        if not plan:
            return ""
        answer, plan = await self.approvals.ask_about_plan(plan)
        return apply_plan_answer(self, plan, answer)

    def _on_ready(self) -> None:
        self.view.apply_theme()
        if self.composer.buffer.text.startswith("/"):
            self.composer.buffer.start_completion()
        self._report_history_fault()

    def _on_turn_end(self) -> None:
        self._on_files_changed()
        self._report_history_fault()

    def _on_files_changed(self) -> None:
        if not self.sessions.count_background():  # one could change what git runs
            self.actions.run_task(self._refresh_branch())

    async def _refresh_branch(self) -> None:
        await self._options.branch.refresh()
        self.terminal.redraw()

    def _report_history_fault(self) -> None:
        if self.sessions.renderer and (complaint := self._input_history.take_complaint()):
            self.say(f"warning: {complaint}", "warning")

    def _on_question_changed(self) -> None:
        if self.approvals.pending is None:
            self.actions.answer_actions.rescue_answer_line()
            self.status.set_verb("Waiting for model")
        elif self.settings.notify == "bell" and self.approvals.is_waiting:
            self.terminal.ring_bell()
        self.terminal.redraw()

    def _get_server_menu(self) -> PromptMenu | None:
        features = self.sessions.session.features.values() if self.sessions.session else ()
        return next((feature.menu for feature in features if feature.menu), None)

    def _mask_secrets(self, text: str) -> str:
        return self.sessions.session.clean(text) if self.sessions.session else text

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave, Exit(128 + number))
        loop.add_signal_handler(signal.SIGCONT, self.terminal.resume)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.terminal.leave(error)

    # The parts. Each knows no more of the others than it needs.

    def _build_approvals(self) -> ApprovalPrompt:
        return ApprovalPrompt(
            is_composing=lambda: self.composer.is_used,
            measure_quiet_s=self.composer.rhythm.quiet_s,
            build_offer=lambda question: self.sessions.build_offer(question),
            find_position=lambda question: self.sessions.find_position(question),
            on_change=self._on_question_changed,
        )

    def _new_answer_keys(self) -> AnswerKeys:
        return AnswerKeys(
            self.approvals,
            alone_s=self.composer.rhythm.alone_s,
            answer=self.actions.answer_actions.answer_key,
            write=self.actions.answer_actions.start_message,
            changed=lambda: self.terminal.redraw(),
        )

    def _build_sources(self) -> ScreenSources:
        return ScreenSources(
            count_rows=lambda: self.terminal.size.rows,
            count_columns=lambda: self.terminal.size.columns,
            render_live=lambda rows: self.view.render_live(rows),
            render_toolbar=lambda: self.view.render_toolbar(),
            is_answering=self.is_answering,
        )

    def _build_session_manager(self, load: Callable[[], LateImports]) -> SessionManager:
        return SessionManager(
            self.settings,
            self._options,
            load=load,
            terminal=self.terminal,
            status=self.status,
            ask_user=self.approvals,
            on_ready=self._on_ready,
            show_notice=lambda text: self.show_notice(text, seconds=5),
            on_files_changed=self._on_files_changed,
        )

    def _build_turns(self) -> Turns:
        return Turns(
            self.settings,
            wait_for_session=self.sessions.wait_for_session,
            terminal=self.terminal,
            composer=self.composer,
            status=self.status,
            on_turn_end=self._on_turn_end,
            steer=partial(send_steering, self),
            ask_about_plan=self._ask_about_plan,
        )

    def _build_application(self) -> InlineApplication:
        app = InlineApplication(
            layout=self.screen.layout,
            key_bindings=build_bindings(
                self.actions.list_actions(),
                approvals=self.approvals,
                paste=self.actions.paste,
                answer_keys=self.answer_keys,
                is_answering=self.is_answering,
                is_bare_shell=lambda: self.composer.shell_mode and self.composer.is_empty,
                rows=self._keys,
            ),
            style=DynamicStyle(lambda: self.view.style),
            full_screen=False,
            erase_when_done=True,
            min_redraw_interval=FRAME_S,
            terminal_size_polling_interval=None,
            include_default_pygments_style=False,
            mouse_support=False,
            color_depth=lambda: self.view.find_color_depth(),
            editing_mode=_to_editing_mode(self.settings.editing),
            input=open_input(sys.stdin, typed_before=self._options.terminal_reply.typed),
            output=open_output(sys.stdout),
        )
        app.ttimeoutlen, app.timeoutlen = 0.05, 0.2
        app.before_render += lambda _: self.screen.prepare()
        app.after_render += lambda _: self.approvals.note_shown()
        app.key_processor.before_key_press += lambda _: self.actions.note_key()
        app.key_processor.after_key_press += lambda _: self.terminal.draw_soon()
        return app


def _to_editing_mode(editing: str) -> EditingMode:
    return EditingMode.VI if editing == "vi" else EditingMode.EMACS
