"""What the keys do: each action looks at the situation it is pressed in."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from agentcli.types.errors import AgentError
from agentcli.types.verdicts import MODES
from agentcli.ui.repl.approval import LETTERS, Asked
from agentcli.ui.repl.composer import SHELL
from agentcli.ui.repl.outside import edited, paged

if TYPE_CHECKING:
    from agentcli.ui.repl.repl import Repl

AGAIN_S = 1.5
EDITABLE = ("command", "new_text", "content", "patch")
"""The arguments of tools that a person would want to change before they run."""


class Actions:
    def __init__(self, repl: "Repl") -> None:
        self._repl = repl
        self._pressed: dict[str, float] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    def table(self) -> Mapping[str, Callable[[], None]]:
        repl = self._repl
        return {
            "submit": self.submit,
            "newline": repl.composer.newline,
            "complete": self.complete,
            "next_mode": self.next_mode,
            "escape": self.escape,
            "stop": self.stop,
            "leave": self.leave,
            "up": self.up,
            "down": self.down,
            "editor": lambda: self.do(self.edit_in_editor()),
            "transcript": lambda: self.do(self.transcript()),
            "redraw": lambda: repl.terminal.repaint(),
            "suspend": lambda: repl.terminal.suspend(),
            "answer_line": self.answer_line,
            "leave_answer_line": self.leave_answer_line,
        }

    def do(self, work: Awaitable[Any]) -> None:
        """Something that takes time; what goes wrong in it is not lost."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def done(task: "asyncio.Future[Any]") -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                self._repl.terminal.leave(error)

        task.add_done_callback(done)

    def key_pressed(self) -> None:
        """Before each key: whether somebody is typing."""
        if not self._repl.approvals.takes_keys:
            self._repl.composer.touched()
            self._repl.approvals.typed()

    def paste(self, data: str) -> None:
        """Never an answer, and never sent by a newline in it."""
        if self._repl.is_answering():
            self._repl.screen.answer.insert_text(" ".join(data.split()))
        else:
            self._repl.composer.paste(data)

    # The input

    def submit(self) -> None:
        composer = self._repl.composer
        state = composer.buffer.complete_state
        if state is not None and state.current_completion is not None:
            is_command = state.current_completion.text.startswith("/")
            composer.buffer.complete_state = None
            if not is_command:
                composer.buffer.insert_text(" ")
                return
        if composer.ends_in_backslash():
            composer.buffer.delete_before_cursor(1)
            composer.newline()
            return
        if self._repl.status.is_waiting_to_retry and composer.is_empty:
            self._repl.session.hurry()
            return
        text = composer.text
        if composer.shell_mode or text.startswith(SHELL):
            self._submit_shell(text)
        elif text.startswith("/") and not text.startswith("//"):
            self.do(self._repl.run_command(text))
        elif text.strip():
            self._repl.turns.send(*composer.take())

    def _submit_shell(self, text: str) -> None:
        composer = self._repl.composer
        command = text.lstrip(SHELL).strip() if not composer.shell_mode else text.strip()
        if not command:
            composer.shell_mode = not composer.shell_mode
            composer.buffer.reset()
        elif self._repl.turns.is_running:
            self._repl.notice("a turn is running: the command waits in the input")
        else:
            composer.take()
            self._repl.turns.run_shell(command, is_told=not text.startswith(2 * SHELL))

    def complete(self) -> None:
        repl, buffer = self._repl, self._repl.composer.buffer
        if repl.approvals.is_waiting:
            repl.approvals.open_now()
        elif buffer.complete_state is not None:
            buffer.complete_next()
            if len(buffer.complete_state.completions) == 1:
                buffer.complete_state = None
        elif repl.turns.is_running and repl.composer.text.strip():
            text, _ = repl.composer.take()
            repl.turns.steer(text)
        else:
            buffer.start_completion(insert_common_part=True)

    def next_mode(self) -> None:
        index = MODES.index(self._repl.mode)
        self._repl.set_mode(MODES[(index + 1) % len(MODES)])

    def up(self) -> None:
        repl, buffer = self._repl, self._repl.composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_previous()
        elif repl.composer.is_empty and len(repl.turns.queue):
            repl.composer.put(repl.turns.queue.take())
        else:
            buffer.auto_up()

    def down(self) -> None:
        buffer = self._repl.composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
        else:
            buffer.auto_down()

    def escape(self) -> None:
        repl, buffer = self._repl, self._repl.composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_state = None
        elif repl.composer.shell_mode:
            repl.composer.shell_mode = False
        elif repl.turns.is_running:
            self._interrupt()
        elif not repl.composer.is_empty:
            if self._is_again("escape"):
                repl.composer.clear()
            else:
                repl.notice("esc again clears the input; up brings it back")
        elif self._is_again("escape"):
            self.do(repl.run_command("/rewind", quietly=True))

    def stop(self) -> None:
        repl = self._repl
        if repl.turns.is_running:
            self._interrupt()
        elif not repl.composer.is_empty or repl.composer.shell_mode:
            repl.composer.clear()
        elif self._is_again("stop"):
            repl.leave()
        else:
            repl.notice("ctrl+c again to exit")

    def leave(self) -> None:
        repl = self._repl
        if not repl.composer.is_empty:
            repl.composer.buffer.delete()
        elif not repl.turns.is_running or self._is_again("leave"):
            repl.leave()
        else:
            repl.notice("a turn is running: ctrl+d again stops it and leaves")

    def _interrupt(self) -> None:
        if self._repl.turns.is_stopping and self._is_again("interrupt"):
            self._repl.kill_running()
            return
        self._is_again("interrupt")
        self._repl.turns.interrupt()

    def _is_again(self, what: str) -> bool:
        now = time.monotonic()
        before, self._pressed[what] = self._pressed.get(what, float("-inf")), now
        return now - before <= AGAIN_S

    # Questions

    def answer(self, key: str) -> None:
        asked = self._repl.approvals.asked
        if asked is None:
            return
        if key == "stop":
            self._repl.approvals.deny()
            # After the answer has been recorded.
            asyncio.get_running_loop().call_soon(self._repl.turns.interrupt)
        elif key in ("up", "down"):
            self._repl.approvals.select(-1 if key == "up" else 1)
        elif key == "enter":
            if asked.selected is not None:
                self._choose(LETTERS[asked.selected], asked)
        else:
            self._choose(key, asked)

    def _choose(self, letter: str, asked: Asked) -> None:
        approvals = self._repl.approvals
        choices: dict[str, Callable[[], None]] = {
            "y": approvals.allow,
            "s": partial(approvals.allow, lasting="session"),
            "a": partial(self._allow_always, asked),
            "n": approvals.deny,
            "e": partial(self._ask_what_instead, asked),
            "v": lambda: self.do(self._view(asked)),
            "m": lambda: self.do(self._modify(asked)),
        }
        if any(letter == it and asked.offers(it) for it in LETTERS):
            choices[letter]()

    def _allow_always(self, asked: Asked) -> None:
        try:
            self._repl.store_rules(asked)
        except AgentError as error:
            self._repl.fail(str(error), error.hint)
            return
        self._repl.approvals.allow(lasting="always")

    def _ask_what_instead(self, asked: Asked) -> None:
        asked.instead = True
        self._repl.screen.answer.reset()
        self._repl.screen.layout.focus(self._repl.screen.answer_window)

    def answer_line(self) -> None:
        text = self._repl.screen.answer.text.strip()
        if text:
            self.leave_answer_line()
            self._repl.approvals.deny(text)

    def leave_answer_line(self) -> None:
        if self._repl.approvals.asked is not None:
            self._repl.approvals.asked.instead = False
        self._repl.screen.layout.focus(self._repl.screen.input_window)

    async def _view(self, asked: Asked) -> None:
        await self.page(self._repl.stage.viewed_question(asked))
        self._repl.approvals.viewed()

    async def _modify(self, asked: Asked) -> None:
        given = asked.question.call.input
        name = next((key for key in EDITABLE if isinstance(given, dict) and key in given), None)
        if name is None or not isinstance(given, dict):
            self._repl.notice("this call has nothing to edit")
            return
        before = str(given[name])
        after = await self._repl.terminal.hand_over(lambda: edited(before, suffix=".txt"))
        if after is None:
            self._repl.notice("the editor failed: nothing was changed")
            self._repl.approvals.viewed()
        elif after.rstrip("\n") == before.rstrip("\n"):
            self._repl.approvals.viewed()
        else:
            self._repl.approvals.modify({**given, name: after.rstrip("\n")})

    # Hand-overs

    async def edit_in_editor(self) -> None:
        composer = self._repl.composer
        text = await self._repl.terminal.hand_over(lambda: edited(composer.text, suffix=".md"))
        if text is None:
            self._repl.notice("the editor failed: the text is as it was")
        else:
            composer.put(text.rstrip("\n"))

    async def transcript(self) -> None:
        await self._repl.engine.opened()
        await self.page(self._repl.stage.story.transcript())

    async def page(self, text: str) -> None:
        await self._repl.terminal.hand_over(lambda: paged(text))
