"""The interactive session: what is typed goes to the model, what happens goes to the screen.

The first paint needs prompt-toolkit alone. All else is loaded while the person types; what is sent
before it is there waits for it.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.styles import DynamicStyle

from agentcli.settings import Settings
from agentcli.types.errors import Exit
from agentcli.types.verdicts import Mode
from agentcli.ui.render.summary import is_ascii
from agentcli.ui.repl.actions import Actions
from agentcli.ui.repl.approval import Approvals, Asked
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.draft import SAVE_EVERY_S, Drafts
from agentcli.ui.repl.engine import Engine, Late, Opening
from agentcli.ui.repl.history_file import ProjectHistory, project_directory
from agentcli.ui.repl.keys import bindings, label_rows, table
from agentcli.ui.repl.mentions import Files
from agentcli.ui.repl.screen import Screen, Sources
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.terminal import InlineApplication, Terminal, open_input, open_output
from agentcli.ui.repl.turns import Turns
from agentcli.ui.repl.view import NOTICE_S, View

if TYPE_CHECKING:
    from agentcli.app.session import Session
    from agentcli.ui.repl.stage import Stage


class Repl:
    """Implements `Desk`, and puts the parts of the session in their places."""

    def __init__(self, settings: Settings, opening: Opening, *, load: Callable[[], Late]) -> None:
        self.settings = settings
        self._opening = opening
        self._keys = table(settings.keys)
        self._exit: Exit = Exit.DONE
        self._stopped = 0
        """Commands that were still running at the end."""
        self._complaints: set[str] = set()
        self.status = Status(is_ascii=is_ascii())
        directory = project_directory(settings.workspace)
        self._drafts = Drafts(directory)
        self._history = ProjectHistory(directory / "history.jsonl", mask=self._masked)
        self.composer = Composer(history=self._history, menu=self, files=Files(settings.workspace))
        self.approvals = Approvals(
            is_composing=lambda: not self.composer.is_empty,
            quiet_s=self.composer.quiet_s,
            offer=lambda question: self.engine.offer(question),
            position=lambda question: self.engine.position(question),
            changed=self._asked,
        )
        self.screen = Screen(
            self.composer,
            Sources(
                rows=lambda: self.terminal.size.rows,
                columns=lambda: self.terminal.size.columns,
                live=lambda rows: self.view.live(rows),
                toolbar=lambda: self.view.toolbar(),
                is_answering=self.is_answering,
            ),
        )
        self.actions = Actions(self)
        self._app = self._application()
        self.terminal = Terminal(self._app)
        self.engine = Engine(
            settings,
            opening,
            load=load,
            terminal=self.terminal,
            status=self.status,
            asker=self.approvals,
            begun=self._has_begun,
        )
        self.turns = Turns(
            settings,
            opened=self.engine.opened,
            terminal=self.terminal,
            composer=self.composer,
            status=self.status,
            after_turn=self._after_turn,
            steer=lambda text: self.session.steering.add(text),
        )
        self.view = View(
            engine=self.engine,
            turns=self.turns,
            approvals=self.approvals,
            composer=self.composer,
            status=self.status,
            terminal=self.terminal,
            branch=opening.branch,
            first_model=lambda: opening.model,
        )

    async def run(self) -> Exit:
        asyncio.get_running_loop().set_exception_handler(self._crashed)
        self.engine.begin()
        self._offer_draft()
        drafts = asyncio.ensure_future(self._keep_draft())
        try:
            await self.terminal.run(pre_run=self._on_signals)
        except EOFError:
            self._exit = Exit.HANGUP
        finally:
            drafts.cancel()
            if self._exit is Exit.HANGUP and self.turns.is_running and self.engine.session:
                self.kill_running()  # nobody is left to see a command end politely
            await self.turns.close()
            self._drafts.save(self.composer.text)
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
        self.stage.story.say(self.stage.ink(text, style) if style else text)

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

    async def edit(self) -> None:
        await self.actions.edit_in_editor()

    async def page(self, text: str) -> None:
        await self.actions.page(text)

    async def renew(self, *, resume: str | None = None) -> None:
        await self.turns.close()
        await self.engine.renew(resume)

    def leave(self, exit_code: Exit = Exit.DONE) -> None:
        self._exit = exit_code
        self.terminal.leave()

    def write_to_terminal(self, sequence: str) -> bool:
        self.terminal.write_raw(sequence)
        return True

    def offers(self, typed: str) -> list[tuple[str, str, int]]:
        """The slash menu."""
        registry = self.engine.registry
        return registry.offers(typed, self) if registry else []

    async def run_command(self, line: str, *, quietly: bool = False) -> None:
        """`quietly`: nothing is said where there is no such command."""
        await self.engine.opened()
        registry = self.engine.registry
        assert registry is not None
        wrong = registry.why_not(line)
        if wrong:
            if not quietly:
                self.notice(wrong, seconds=5)
            return
        if not quietly:
            self.composer.take()
        self.say(f"> {line}", "strong")
        await registry.run(line, self)

    def kill_running(self) -> None:
        self.session.kill_calls(self.stage.story.running)

    def store_rules(self, asked: Asked) -> None:
        for rule in asked.offer.rules:
            self.session.store_rule(rule)
            self.say(f"saved: allow {rule}", "dim")

    def is_answering(self) -> bool:
        return self.approvals.asked is not None and self.approvals.asked.instead

    # What happens by itself

    def _has_begun(self) -> None:
        self.view.dress()
        if self.composer.buffer.text.startswith("/"):
            self.composer.buffer.start_completion()
        self._complain()

    def _after_turn(self) -> None:
        self.actions.do(self._opening.branch.refresh())
        self._complain()

    def _complain(self) -> None:
        """Of a history that cannot be used, once."""
        complaint = self._history.complaint
        if complaint and self.engine.stage and complaint not in self._complaints:
            self._complaints.add(complaint)
            self.say(f"warning: {complaint}", "warning")

    def _asked(self) -> None:
        if self.approvals.asked is None:
            self.status.doing("Waiting for model")
        elif self.settings.notify == "bell" and self.approvals.is_open:
            self.terminal.bell()
        self.terminal.redraw()

    def _masked(self, text: str) -> str:
        return self.engine.session.clean(text) if self.engine.session else text

    def _offer_draft(self) -> None:
        draft = self._drafts.left_behind()
        if draft:
            self.composer.buffer.history.append_string(draft)
            self.notice("up: the message that was not sent last time", seconds=10)

    async def _keep_draft(self) -> None:
        changed = asyncio.Event()
        self.composer.buffer.on_text_changed += lambda _: changed.set()
        while True:
            await changed.wait()
            changed.clear()
            self._drafts.save(self.composer.text)
            await asyncio.sleep(SAVE_EVERY_S)

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave, Exit(128 + number))
        loop.add_signal_handler(signal.SIGCONT, self.terminal.resume)

    def _crashed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.terminal.leave(error)

    def _application(self) -> InlineApplication:
        app = InlineApplication(
            layout=self.screen.layout,
            key_bindings=bindings(
                self.actions.table(),
                approvals=self.approvals,
                paste=self.actions.paste,
                answer=self.actions.answer,
                is_answering=self.is_answering,
                rows=self._keys,
            ),
            style=DynamicStyle(lambda: self.view.style),
            full_screen=False,
            erase_when_done=True,
            min_redraw_interval=0.04,
            terminal_size_polling_interval=None,
            mouse_support=False,
            color_depth=lambda: self.view.depth(),
            editing_mode=_editing_mode(self.settings.editing),
            input=open_input(sys.stdin, typed_before=self._opening.answer.typed),
            output=open_output(sys.stdout),
        )
        app.ttimeoutlen, app.timeoutlen = 0.05, 0.2
        app.before_render += lambda _: self.screen.prepare()
        app.key_processor.before_key_press += lambda _: self.actions.key_pressed()
        app.key_processor.after_key_press += lambda _: self.terminal.draw_soon()
        return app


def _editing_mode(editing: str) -> EditingMode:
    return EditingMode.VI if editing == "vi" else EditingMode.EMACS
