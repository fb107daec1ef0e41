"""The interactive session: input goes to the model, events go to the screen.

The first paint needs only prompt-toolkit. Everything else is loaded while the user types. Messages
sent before that wait for it.

Each part is given the parts that it uses, all of which are made before it. What several parts need
to know is in `ReplState`.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, Filter, is_searching, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import DynamicStyle

from agentcli.types.errors import Exit
from agentcli.types.settings import Settings
from agentcli.types.verdicts import Mode
from agentcli.ui.render.wording import is_ascii
from agentcli.ui.repl.actions import Actions, SlashCommandRunner
from agentcli.ui.repl.answer_table import ANSWERS_BY_KEY, DIGITS
from agentcli.ui.repl.answers import AnswerKeys, Answers
from agentcli.ui.repl.approval import ApprovalPrompt
from agentcli.ui.repl.completion import InputCompleter, WorkspaceFiles
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.external import Handover
from agentcli.ui.repl.input_history import InputHistory
from agentcli.ui.repl.key_table import KeyRow, build_table, list_key_labels
from agentcli.ui.repl.live_view import LiveView
from agentcli.ui.repl.picker import PickerRows, pick_row
from agentcli.ui.repl.screen import LiveScreen
from agentcli.ui.repl.session_manager import SessionManager
from agentcli.ui.repl.state import ReplOptions, ReplState
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.terminal import FRAME_S, InlineApplication, Terminal
from agentcli.ui.repl.turns import Turns

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.session.session import Session
    from agentcli.ui.repl.renderer import TranscriptRenderer


T = TypeVar("T")

DRAFT_NOTICE_S = 10.0
STOP_KEYS = ("escape", "c-c", "<sigint>")


class Repl:
    """The parts of the session, put together. Implements `CommandHost`."""

    def __init__(self, settings: Settings, options: ReplOptions, *, terminal: Terminal) -> None:
        keys = build_table(settings.keys)
        self._state = state = ReplState(
            settings=settings,
            options=options,
            keys=keys,
            status=Status(is_ascii=is_ascii(), stop_key=keys["escape"].hint),
            first_mode=settings.mode,
        )
        self._terminal = terminal
        self._handover = handover = Handover(terminal, settings.workspace)
        self._input_history = InputHistory(state)
        self._composer = composer = Composer(
            history=self._input_history.history,
            completer=InputCompleter(state, WorkspaceFiles(settings.workspace), host=self),
        )
        approvals = ApprovalPrompt(state, composer, terminal=terminal)
        self._view = view = LiveView(state, approvals, composer=composer, terminal=terminal)
        screen = LiveScreen(state, composer, view=view, terminal=terminal)
        answers = Answers(
            state,
            approvals,
            composer=composer,
            screen=screen,
            terminal=terminal,
            handover=handover,
        )
        self._sessions = sessions = SessionManager(
            state,
            answers=answers,
            composer=composer,
            input_history=self._input_history,
            terminal=terminal,
        )
        self._turns = turns = Turns(
            state,
            sessions=sessions,
            answers=answers,
            composer=composer,
            terminal=terminal,
        )
        self._actions = Actions(
            state,
            composer=composer,
            screen=screen,
            approvals=approvals,
            answers=answers,
            sessions=sessions,
            turns=turns,
            slash=SlashCommandRunner(
                self, sessions=sessions, composer=composer, turns=turns, terminal=terminal
            ),
            terminal=terminal,
            handover=handover,
        )
        self._app = self._build_application(approvals, answers, view=view, screen=screen)
        self._stopped = 0
        """The number of commands that were still running at the end."""

    def _build_application(
        self, approvals: ApprovalPrompt, answers: Answers, *, view: LiveView, screen: LiveScreen
    ) -> InlineApplication:
        app = InlineApplication(
            self._terminal,
            layout=screen.layout,
            key_bindings=build_bindings(
                self._actions, answers, state=self._state, approvals=approvals
            ),
            style=DynamicStyle(view.find_style),
            full_screen=False,
            erase_when_done=True,
            min_redraw_interval=FRAME_S,
            terminal_size_polling_interval=None,
            include_default_pygments_style=False,
            mouse_support=False,
            color_depth=view.find_color_depth,
            editing_mode=_to_editing_mode(self.settings.editing),
        )
        app.ttimeoutlen, app.timeoutlen = 0.05, 0.2
        app.before_render += lambda _: screen.prepare()
        app.after_render += lambda _: approvals.note_shown()
        app.key_processor.before_key_press += lambda _: approvals.note_key()
        return app

    async def run(self) -> Exit:
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        self._sessions.begin()
        if self._input_history.offer_draft(self._composer):
            self._terminal.show_notice("↑ restores your unsent draft", seconds=DRAFT_NOTICE_S)
        drafts = asyncio.ensure_future(self._input_history.save_drafts(self._composer))
        countdown = asyncio.ensure_future(self._view.count_down())
        code = Exit.DONE
        try:
            code = await self._terminal.run(self._app, pre_run=self._handle_signals)
        finally:
            drafts.cancel()
            countdown.cancel()
            if code is Exit.HANGUP and self._turns.is_running and self._state.session:
                # No user is left to see a command end politely.
                self._state.session.builtin_tools.kill_awaited()
            await self._turns.close()
            self._input_history.save_draft(self._composer)
            self._stopped = self._state.count_background()
            await self._sessions.close(code)
        return code

    def render_summary(self, seconds: float) -> list[str]:
        """Return the closing summary, at most four lines. Empty if there was no conversation."""
        session, renderer = self._state.session, self._state.renderer
        if session is None or renderer is None:
            return []
        return renderer.render_exit_summary(session, seconds, stopped=self._stopped)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._terminal.leave, Exit(128 + number))
        loop.add_signal_handler(signal.SIGCONT, self._terminal.resume)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self._terminal.fail(error)

    # For slash commands

    @property
    def settings(self) -> Settings:
        return self._state.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._state.settings = settings

    @property
    def session(self) -> "Session":
        assert self._state.session is not None
        return self._state.session

    @property
    def has_session(self) -> bool:
        return self._state.session is not None

    @property
    def renderer(self) -> "TranscriptRenderer":
        assert self._state.renderer is not None
        return self._state.renderer

    @property
    def is_busy(self) -> bool:
        return self._turns.is_running

    @property
    def mode(self) -> Mode:
        return self._state.mode

    def set_mode(self, mode: Mode) -> None:
        self._state.set_mode(mode)
        self._terminal.redraw()

    def say(self, text: str, style: str = "") -> None:
        self.renderer.say(text, style)

    def print(self, ansi: str) -> None:
        self.renderer.transcript.say(ansi)

    def print_table(self, rows: Sequence[tuple[str, str]]) -> None:
        self.renderer.transcript.print_table(rows)

    def fail(self, message: str, hint: str) -> None:
        self.renderer.transcript.add_error(message, hint)

    def apply_theme(self) -> None:
        self._terminal.redraw()

    def list_keys(self) -> list[tuple[str, str]]:
        return list_key_labels(self._state.keys)

    @property
    def editing(self) -> str:
        return "vi" if self._app.editing_mode is EditingMode.VI else "emacs"

    def set_editing(self, editing: str) -> None:
        self._app.editing_mode = _to_editing_mode(editing)

    def send(self, text: str) -> None:
        self._turns.send(text, text)

    def set_input(self, text: str) -> None:
        self._composer.prepend_text(text)
        self._terminal.redraw()

    async def decide_on_plan(self) -> None:
        self._turns.decide_on_plan()

    async def wait_for(self, verb: str, work: Coroutine[Any, Any, T]) -> T:
        return await self._turns.wait_for(verb, work)

    async def ask(self, question: str, *, hidden: bool = False) -> str:
        return await self._handover.ask(question, hidden=hidden)

    async def choose(self, title: str, rows: PickerRows, *, selected: int = 0) -> int | None:
        self._terminal.repaint()  # earlier output stays above the list
        return await self._terminal.hand_over(
            lambda: pick_row(
                title,
                rows,
                terminal=self._terminal,
                selected=selected,
                styles=self.renderer.build_live_styles(),
                color_depth=self._view.find_color_depth(),
            )
        )

    async def edit(self) -> None:
        await self._actions.edit_in_editor()

    async def page(self, text: str, *, line: int = 1) -> None:
        await self._handover.page(text, line=line)

    async def renew(self, *, resume: "SessionPaths | None" = None) -> None:
        await self._turns.close()
        await self._sessions.renew(resume=resume)

    def leave(self) -> None:
        self._terminal.leave()

    def write_to_terminal(self, sequence: str) -> bool:
        self._terminal.write_raw(sequence)
        return True


def _to_editing_mode(editing: str) -> EditingMode:
    return EditingMode.VI if editing == "vi" else EditingMode.EMACS


# Keys


def build_bindings(
    actions: Actions, answers: Answers, *, state: ReplState, approvals: ApprovalPrompt
) -> KeyBindings:
    bound, by_name = KeyBindings(), actions.list_actions()
    is_answering = Condition(lambda: state.is_answering)
    takes_answers = Condition(lambda: approvals.takes_keys) & ~is_answering
    composing = ~takes_answers & ~is_searching & ~is_answering
    for row in state.keys.values():
        for keys in row.keys:
            # prompt-toolkit binds some of them itself, and a question takes every other key.
            bound.add(*keys, filter=_build_filter(row, composing), eager=row.is_always)(
                _make_handler(by_name[row.action])
            )
    _bind_answers(bound, actions, answer_keys=answers.keys, takes_answers=takes_answers)
    _bind_answer_line(bound, answers, is_answering=is_answering)
    bound.add("backspace", filter=composing & Condition(actions.is_bare_shell))(
        _make_handler(actions.leave_shell)
    )

    @bound.add(Keys.BracketedPaste, eager=True)
    def _(event: KeyPressEvent) -> None:
        actions.paste(event.data)

    return bound


def _build_filter(row: KeyRow, composing: Filter) -> Filter:
    if row.action == "escape":
        # In vi insert mode, vi's own Esc comes first.
        return composing & ~vi_insert_mode
    return ~is_searching if row.is_always else composing


def _make_handler(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    def act(event: KeyPressEvent) -> None:
        action()

    return act


def _bind_answers(
    bound: KeyBindings, actions: Actions, *, answer_keys: AnswerKeys, takes_answers: Filter
) -> None:
    for key in (*ANSWERS_BY_KEY, *DIGITS, "up", "down", "enter"):
        bound.add(key, filter=takes_answers, eager=True)(
            _make_handler(partial(answer_keys.press, key))
        )
    for key in STOP_KEYS:
        bound.add(key, filter=takes_answers, eager=True)(_make_handler(actions.refuse))

    @bound.add(Keys.Any, filter=takes_answers, eager=True)
    def _(event: KeyPressEvent) -> None:
        """Take any other key, which is no answer."""
        answer_keys.type(event.data)


def _bind_answer_line(bound: KeyBindings, answers: Answers, *, is_answering: Filter) -> None:
    bound.add("enter", filter=is_answering)(_make_handler(answers.submit_answer_line))
    for key in STOP_KEYS:
        bound.add(key, filter=is_answering)(_make_handler(answers.leave_answer_line))
