"""The interactive session: what is typed goes to the model, what happens goes to the screen.

The first paint needs prompt-toolkit alone. All else is loaded while the person types; what is sent
before it is there waits for it.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.styles import DynamicStyle

from agentcli.settings import Settings
from agentcli.types.errors import Exit
from agentcli.types.verdicts import Mode
from agentcli.ui.render.summary import is_ascii
from agentcli.ui.repl.actions import Actions
from agentcli.ui.repl.answer_keys import AnswerKeys
from agentcli.ui.repl.approval import Approvals, Asked
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.engine import Engine, Late, Opening
from agentcli.ui.repl.foreign import Foreign
from agentcli.ui.repl.kept import Kept
from agentcli.ui.repl.keys import bindings, label_rows, table
from agentcli.ui.repl.mentions import Files
from agentcli.ui.repl.outside import typed
from agentcli.ui.repl.plan_answers import proposed, settle
from agentcli.ui.repl.rhythm import Rhythm
from agentcli.ui.repl.screen import Screen, Sources
from agentcli.ui.repl.slash import Slash
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.steering import steer
from agentcli.ui.repl.terminal import (
    FRAME_S,
    InlineApplication,
    Terminal,
    open_input,
    open_output,
)
from agentcli.ui.repl.turns import Turns
from agentcli.ui.repl.view import NOTICE_S, View

if TYPE_CHECKING:
    from agentcli.app.server_menu import ServerMenu
    from agentcli.app.session import Session
    from agentcli.record.place import SessionPlace
    from agentcli.ui.repl.stage import Stage


T = TypeVar("T")


class Repl:
    """Implements `Desk`, and puts the parts of the session in their places."""

    def __init__(self, settings: Settings, opening: Opening, *, load: Callable[[], Late]) -> None:
        self.settings = settings
        self._opening = opening
        self._keys = table(settings.keys)
        self._exit: Exit = Exit.DONE
        self._line: asyncio.Future[Any] | None = None
        """What the person is asked for, on the terminal itself."""
        self._stopped = 0
        """Commands that were still running at the end."""
        self.slash = Slash(self)
        self._kept = Kept(settings.workspace, mask=self._masked)
        self.composer = Composer(
            history=self._kept.history,
            menu=self.slash,
            files=Files(settings.workspace),
            foreign=Foreign(self._server_menu),
            rhythm=Rhythm(),
        )
        self.status = Status(is_ascii=is_ascii())
        self.approvals = self._new_approvals()
        self.screen = Screen(self.composer, self._sources())
        self.actions = Actions(self)
        self.answer_keys = self._new_answer_keys()
        self._app = self._application()
        self.terminal = Terminal(self._app)
        self.engine = self._new_engine(load)
        self.turns = self._new_turns()
        self.view = View(
            engine=self.engine,
            turns=self.turns,
            approvals=self.approvals,
            composer=self.composer,
            status=self.status,
            terminal=self.terminal,
            opening=opening,
        )

    async def run(self) -> Exit:
        asyncio.get_running_loop().set_exception_handler(self._crashed)
        self.engine.begin()
        if self._kept.offer_draft(self.composer):
            self.notice("up: the message that was not sent last time", seconds=10)
        drafts = asyncio.ensure_future(self._kept.follow(self.composer))
        try:
            await self.terminal.run(pre_run=self._on_signals)
        except EOFError:
            self._exit = Exit.HANGUP
        finally:
            drafts.cancel()
            if self._exit is Exit.HANGUP and self.turns.is_running and self.engine.session:
                self.kill_running()  # nobody is left to see a command end politely
            await self.turns.close()
            self._kept.save(self.composer)
            self._stopped = self.engine.in_background()
            await self.engine.close(self._exit)
        return self._exit

    def summary(self, seconds: float) -> list[str]:
        """The last words, at most four lines; none where nothing was said."""
        session, stage = self.engine.session, self.engine.stage
        if session is None or stage is None:
            return []
        return stage.last_words(session, seconds, stopped=self._stopped)

    # What commands and actions reach

    @property
    def session(self) -> "Session":
        assert self.engine.session is not None
        return self.engine.session

    @property
    def stage(self) -> "Stage":
        assert self.engine.stage is not None
        return self.engine.stage

    @property
    def is_busy(self) -> bool:
        return self.turns.is_running

    @property
    def mode(self) -> Mode:
        return self.engine.mode

    def set_mode(self, mode: Mode) -> None:
        self.engine.set_mode(mode)
        self.terminal.redraw()

    def say(self, text: str, style: str = "") -> None:
        self.stage.story.say(self.stage.prose(text, style))

    def print(self, ansi: str) -> None:
        self.stage.story.say(ansi)

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        self.stage.story.table(rows)

    def fail(self, message: str, hint: str) -> None:
        self.stage.story.error(message, hint)

    def notice(self, text: str, *, seconds: float = NOTICE_S) -> None:
        self.view.notice(text, seconds=seconds)

    def dress(self) -> None:
        self.view.dress()

    def key_rows(self) -> list[tuple[str, str]]:
        return label_rows(self._keys)

    @property
    def editing(self) -> str:
        return "vi" if self._app.editing_mode is EditingMode.VI else "emacs"

    def set_editing(self, editing: str) -> None:
        self._app.editing_mode = _editing_mode(editing)

    def send(self, text: str) -> None:
        self.turns.send(text, text)

    async def decide_on_plan(self) -> None:
        self.turns.decide_on_plan()

    async def wait_for(self, verb: str, work: Coroutine[Any, Any, T]) -> T:
        return await self.turns.wait_for(verb, work)

    async def ask(self, question: str) -> str:
        self.terminal.repaint()  # what was said stands above the question
        self._line = asyncio.ensure_future(self.terminal.hand_over(lambda: typed(question)))
        await asyncio.wait([self._line])
        return "" if self._line.cancelled() else str(self._line.result())

    def stop_asking(self) -> bool:
        """Whether a line was waited for."""
        return self._line is not None and self._line.cancel()

    async def edit(self) -> None:
        await self.actions.edit_in_editor()

    async def page(self, text: str) -> None:
        await self.actions.page(text)

    async def renew(self, *, resume: "SessionPlace | None" = None) -> None:
        await self.turns.close()
        await self.engine.renew(self.settings, resume=resume)

    def leave(self, exit_code: Exit = Exit.DONE) -> None:
        self._exit = exit_code
        self.terminal.leave()

    def write_to_terminal(self, sequence: str) -> bool:
        self.terminal.write_raw(sequence)
        return True

    def kill_running(self) -> None:
        self.session.kill_awaited()

    def store_rules(self, asked: Asked) -> None:
        for rule in asked.offer.rules:
            self.session.store_rule(rule)
            self.say(f"saved: allow {rule}", "dim")

    def is_answering(self) -> bool:
        return self.approvals.asked is not None and self.approvals.asked.instead

    # What happens by itself

    async def _about_plan(self) -> str:
        """Puts the plan to the person, if there is one; returns what to send to the model."""
        plan = proposed(self)
        if not plan:
            return ""
        answer, plan = await self.approvals.about_plan(plan)
        return settle(self, plan, answer)

    def _has_begun(self) -> None:
        self.view.dress()
        if self.composer.buffer.text.startswith("/"):
            self.composer.buffer.start_completion()
        self._complain()

    def _after_turn(self) -> None:
        self._files_changed()
        self._complain()

    def _files_changed(self) -> None:
        if not self.engine.in_background():  # which could change what git is told to run
            self.actions.do(self._look_at_branch())

    async def _look_at_branch(self) -> None:
        await self._opening.branch.refresh()
        self.terminal.redraw()

    def _complain(self) -> None:
        if self.engine.stage and (complaint := self._kept.complaint()):
            self.say(f"warning: {complaint}", "warning")

    def _asked(self) -> None:
        if self.approvals.asked is None:
            self.actions.answering.lose_question()
            self.status.doing("Waiting for model")
        elif self.settings.notify == "bell" and self.approvals.is_waiting:
            self.terminal.bell()
        self.terminal.redraw()

    def _server_menu(self) -> "ServerMenu | None":
        session = self.engine.session
        return session.server_menu if session else None

    def _masked(self, text: str) -> str:
        return self.engine.session.clean(text) if self.engine.session else text

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave, Exit(128 + number))
        loop.add_signal_handler(signal.SIGCONT, self.terminal.resume)

    def _crashed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.terminal.leave(error)

    # The parts, each told no more of the others than it needs

    def _new_approvals(self) -> Approvals:
        return Approvals(
            is_composing=lambda: self.composer.is_used,
            quiet_s=self.composer.rhythm.quiet_s,
            offer=lambda question: self.engine.offer(question),
            position=lambda question: self.engine.position(question),
            changed=self._asked,
        )

    def _new_answer_keys(self) -> AnswerKeys:
        return AnswerKeys(
            self.approvals,
            alone_s=self.composer.rhythm.alone_s,
            answer=self.actions.answering.answer,
            write=self.actions.answering.write,
            changed=lambda: self.terminal.redraw(),
        )

    def _sources(self) -> Sources:
        return Sources(
            rows=lambda: self.terminal.size.rows,
            columns=lambda: self.terminal.size.columns,
            live=lambda rows: self.view.live(rows),
            toolbar=lambda: self.view.toolbar(),
            is_answering=self.is_answering,
        )

    def _new_engine(self, load: Callable[[], Late]) -> Engine:
        return Engine(
            self.settings,
            self._opening,
            load=load,
            terminal=self.terminal,
            status=self.status,
            asker=self.approvals,
            begun=self._has_begun,
            notice=lambda text: self.notice(text, seconds=5),
            changed=self._files_changed,
        )

    def _new_turns(self) -> Turns:
        return Turns(
            self.settings,
            opened=self.engine.opened,
            terminal=self.terminal,
            composer=self.composer,
            status=self.status,
            after_turn=self._after_turn,
            steer=partial(steer, self),
            about_plan=self._about_plan,
        )

    def _application(self) -> InlineApplication:
        app = InlineApplication(
            layout=self.screen.layout,
            key_bindings=bindings(
                self.actions.table(),
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
            color_depth=lambda: self.view.depth(),
            editing_mode=_editing_mode(self.settings.editing),
            input=open_input(sys.stdin, typed_before=self._opening.answer.typed),
            output=open_output(sys.stdout),
        )
        app.ttimeoutlen, app.timeoutlen = 0.05, 0.2
        app.before_render += lambda _: self.screen.prepare()
        app.after_render += lambda _: self.approvals.shown()
        app.key_processor.before_key_press += lambda _: self.actions.key_pressed()
        app.key_processor.after_key_press += lambda _: self.terminal.draw_soon()
        return app


def _editing_mode(editing: str) -> EditingMode:
    return EditingMode.VI if editing == "vi" else EditingMode.EMACS
