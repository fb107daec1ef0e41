"""The actions of the keys. Each depends on the situation in which its key is pressed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentcli.types.errors import AgentError
from agentcli.types.verdicts import MODES
from agentcli.types.words import pluralize
from agentcli.ui.repl.answer_actions import AnswerActions
from agentcli.ui.repl.approval import PendingPlan
from agentcli.ui.repl.commands.registry import is_slash_command
from agentcli.ui.repl.composer import SHELL
from agentcli.ui.repl.external import edit_text, page_text

if TYPE_CHECKING:
    from agentcli.ui.repl.repl import Repl


AGAIN_S = 1.5


class Actions:
    def __init__(self, repl: "Repl") -> None:
        self._repl = repl
        self.answer_actions = AnswerActions(repl)
        self._pressed: dict[str, float] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    def list_actions(self) -> Mapping[str, Callable[[], None]]:
        repl = self._repl
        return {
            "submit": self.submit,
            "newline": repl.composer.insert_newline,
            "complete": self.complete,
            "next_mode": self.switch_mode,
            "escape": self.escape,
            "stop": self.stop,
            "leave": self.leave,
            "up": self.move_up,
            "down": self.move_down,
            "editor": lambda: self.run_task(self.edit_in_editor()),
            "transcript": lambda: self.run_task(self.show_transcript()),
            "background": self.move_to_background,
            "redraw": lambda: repl.terminal.repaint(),
            "suspend": lambda: repl.terminal.suspend(),
            "answer_line": self.answer_actions.submit_answer_line,
            "leave_shell": self.leave_shell,
            "leave_answer_line": self.answer_actions.leave_answer_line,
        }

    def run_task(self, work: Awaitable[Any]) -> None:
        """Run `work` as a task. An unexpected error in it ends the session and is not lost."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def on_done(task: "asyncio.Future[Any]") -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            # An AgentError was reported where it was found.
            if error is not None and not isinstance(error, AgentError):
                self._repl.terminal.leave(error)

        task.add_done_callback(on_done)

    def note_key(self) -> None:
        """Note, before each key, that the user is typing."""
        if not self._repl.approvals.takes_keys:
            self._repl.composer.rhythm.touch()
            self._repl.approvals.postpone()

    def paste(self, data: str) -> None:
        """Insert pasted text. It is never an answer, and a newline in it never sends it."""
        if self._repl.is_answering():
            self._repl.screen.answer.insert_text(" ".join(data.split()))
        elif self._repl.approvals.takes_keys:
            self._repl.answer_keys.paste(data)
        else:
            self._repl.composer.paste(data)

    # The input

    def submit(self) -> None:
        self._repl.view.clear_notice()
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
            composer.insert_newline()
            return
        if self._repl.status.is_waiting_to_retry and composer.is_empty:
            self._repl.session.model.hurry()
            return
        text = composer.text
        if composer.shell_mode or text.startswith(SHELL):
            self._submit_shell(text)
        elif is_slash_command(text):
            # Now, because the keys that come with this one belong to the next line.
            composer.take_unrecorded()
            self.run_task(self._repl.slash.submit(text))
        elif text.strip():
            self._send(*composer.take())

    def _send(self, text: str, shown: str) -> None:
        """Send a message. While a plan waits for an answer, the message is about the plan."""
        if isinstance(self._repl.approvals.pending, PendingPlan):
            self.answer_actions.plan.request_change(text)
        else:
            self._repl.turns.send(text, shown)

    def _submit_shell(self, text: str) -> None:
        composer = self._repl.composer
        command = text.lstrip(SHELL).strip() if not composer.shell_mode else text.strip()
        if not command:
            composer.shell_mode = not composer.shell_mode
            composer.buffer.reset()
        elif self._repl.turns.is_running:
            self._repl.show_notice("a turn is running: the command waits in the input")
        else:
            composer.take()
            self._repl.turns.run_shell(command, tells_model=not text.startswith(2 * SHELL))

    def complete(self) -> None:
        repl, buffer = self._repl, self._repl.composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            if len(buffer.complete_state.completions) == 1:
                buffer.complete_state = None
        elif repl.approvals.pending is not None:
            repl.approvals.open_now()
        elif repl.turns.is_running and repl.composer.text.strip():
            text, _ = repl.composer.take()
            repl.turns.steer(text)
        else:
            buffer.start_completion(insert_common_part=True)

    def switch_mode(self) -> None:
        index = MODES.index(self._repl.mode)
        self._repl.set_mode(MODES[(index + 1) % len(MODES)])

    def move_up(self) -> None:
        repl, buffer = self._repl, self._repl.composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_previous()
        elif repl.composer.is_empty and len(repl.turns.queue):
            repl.composer.set_text(repl.turns.queue.take())
        else:
            buffer.auto_up()

    def move_down(self) -> None:
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
            self.leave_shell()
        elif repl.turns.is_running:
            self._interrupt()
        elif not repl.composer.is_empty:
            if self._is_again("escape"):
                repl.composer.clear()
            else:
                repl.show_notice("esc again clears the input; up brings it back")
        elif self._is_again("escape"):
            self.run_task(self._rewind())

    def leave_shell(self) -> None:
        self._repl.composer.shell_mode = False

    async def _rewind(self) -> None:
        await self._repl.sessions.wait_for_session()
        await self._repl.slash.run("/rewind")

    def stop(self) -> None:
        repl = self._repl
        if repl.cancel_question():
            return
        if repl.turns.is_running:
            self._interrupt()
        elif not repl.composer.is_empty or repl.composer.shell_mode:
            repl.composer.clear()
        elif self._is_again("stop"):
            repl.leave()
        else:
            repl.show_notice("ctrl+c again to exit")

    def leave(self) -> None:
        repl = self._repl
        if not repl.composer.is_empty:
            repl.composer.buffer.delete()
        elif not repl.turns.is_running or self._is_again("leave"):
            repl.leave()
        else:
            repl.show_notice("a turn is running: ctrl+d again stops it and leaves")

    def _interrupt(self) -> None:
        if self._is_again("interrupt") and self._repl.turns.is_stopping:
            self._repl.kill_running()
        else:
            self._repl.turns.interrupt()

    def move_to_background(self) -> None:
        """Move the running command to the background. Without one, the key edits as in emacs."""
        repl, buffer = self._repl, self._repl.composer.buffer
        session = repl.sessions.session
        moved = session.builtin_tools.move_to_background() if session else 0
        if moved:
            repl.show_notice(
                f"moved to the background: {pluralize(moved, 'command')}; /bg lists them"
            )
        elif buffer.text:
            buffer.cursor_left()
        else:
            repl.show_notice("no command is running that could go to the background")

    def _is_again(self, what: str) -> bool:
        now = time.monotonic()
        is_again = now - self._pressed.pop(what, float("-inf")) <= AGAIN_S
        if not is_again:
            self._pressed[what] = now
        return is_again

    # Hand-overs

    async def edit_in_editor(self) -> None:
        composer = self._repl.composer
        text = await self._repl.terminal.hand_over(
            lambda: edit_text(composer.text, suffix=".md", workspace=self._repl.settings.workspace)
        )
        if text is None:
            self._repl.show_notice("the editor failed: the text is as it was")
        else:
            composer.set_text(text.rstrip("\n"))

    async def show_transcript(self) -> None:
        await self._repl.sessions.wait_for_session()
        await self.page_text(self._repl.renderer.transcript.render_full())

    async def page_text(self, text: str) -> None:
        await self._repl.terminal.hand_over(
            lambda: page_text(text, workspace=self._repl.settings.workspace)
        )


# Slash commands


MISTAKE_S = 5.0
"""The time for which the notice about an unknown command is shown."""


class SlashCommandRunner:
    """The lines that begin with a slash: completed, checked and run. Implements `SlashMenu`."""

    def __init__(self, repl: "Repl") -> None:
        self._repl = repl

    def list_completions(self, typed: str) -> list[tuple[str, str, int]]:
        registry = self._repl.sessions.registry
        return registry.list_completions(typed, self._repl) if registry else []

    async def submit(self, line: str) -> None:
        """Run a line that was taken out of the input. Put it back there if it cannot be run."""
        repl = self._repl
        why_not = await self._find_fault(line)
        if why_not is not None:
            repl.composer.prepend_text(line)
            repl.show_notice(why_not, seconds=MISTAKE_S)
            return
        repl.composer.remember(line)
        if (await repl.sessions.wait_for_registry()).find_fault(line):
            repl.turns.send(line, line)  # a server's prompt
        else:
            await self.run(line)

    async def run(self, line: str) -> None:
        """Run a command that exists."""
        self._repl.say(f"> {line}", "strong")
        await (await self._repl.sessions.wait_for_registry()).run(line, self._repl)

    async def _find_fault(self, line: str) -> str | None:
        """Return why the line cannot be run, or None if it can.

        Empty if there is no session: the reason was reported where it was found.
        """
        registry = await self._repl.sessions.wait_for_registry()
        if registry.works_alone(line):
            return None
        try:
            session, _ = await self._repl.sessions.wait_for_session()
        except AgentError:
            return ""
        return None if session.runs_prompt(line) else registry.find_fault(line) or None
