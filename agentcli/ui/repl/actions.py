"""The actions of the keys. Each depends on the situation in which its key is pressed."""

import asyncio
import time
from collections.abc import Callable, Mapping

from agentcli.system.clipboard import ClipboardRefused, read_clipboard_image
from agentcli.types.errors import AgentError
from agentcli.types.verdicts import MODES
from agentcli.types.words import pluralize
from agentcli.ui.repl.answers import Answers
from agentcli.ui.repl.approval import ApprovalPrompt, PendingPlan
from agentcli.ui.repl.commands.registry import CommandHost, is_slash_command
from agentcli.ui.repl.composer import SHELL, Composer
from agentcli.ui.repl.external import Handover
from agentcli.ui.repl.mentions import CLIPBOARD
from agentcli.ui.repl.screen import LiveScreen
from agentcli.ui.repl.session_manager import SessionManager
from agentcli.ui.repl.state import ReplState
from agentcli.ui.repl.terminal import Terminal
from agentcli.ui.repl.turns import Turns

AGAIN_S = 1.5


class Actions:
    def __init__(
        self,
        state: ReplState,
        *,
        composer: Composer,
        screen: LiveScreen,
        approvals: ApprovalPrompt,
        answers: Answers,
        sessions: SessionManager,
        turns: Turns,
        slash: "SlashCommandRunner",
        terminal: Terminal,
        handover: Handover,
    ) -> None:
        self._state = state
        self._composer = composer
        self._screen = screen
        self._approvals = approvals
        self._answers = answers
        self._sessions = sessions
        self._turns = turns
        self._slash = slash
        self._terminal = terminal
        self._handover = handover
        self._pressed: dict[str, float] = {}

    def list_actions(self) -> Mapping[str, Callable[[], None]]:
        """Return the actions by their names in the table of keys."""
        return {
            "submit": self.submit,
            "newline": self._composer.insert_newline,
            "complete": self.complete,
            "next_mode": self.switch_mode,
            "escape": self.escape,
            "stop": self.stop,
            "leave": self.leave,
            "up": self.move_up,
            "down": self.move_down,
            "editor": self.open_editor,
            "transcript": self.open_transcript,
            "paste_image": self.paste_image,
            "background": self.move_to_background,
            "redraw": self._terminal.repaint,
            "suspend": self._terminal.suspend,
        }

    def paste(self, data: str) -> None:
        """Insert pasted text. It is never an answer, and a newline in it never sends it."""
        if self._state.is_answering:
            self._screen.answer.insert_text(" ".join(data.split()))
        elif self._approvals.takes_keys:
            self._answers.keys.paste(data)
        else:
            self._composer.paste(data)

    def paste_image(self) -> None:
        """Keep the image in the clipboard, and mention it in the input."""
        self._terminal.run_task(self._paste_image())

    async def _paste_image(self) -> None:
        try:
            data = await asyncio.to_thread(read_clipboard_image, self._state.settings.workspace)
        except ClipboardRefused as error:
            self._terminal.show_notice(f"Not attached: {error}.")
            return
        name = f"{CLIPBOARD}-{len(self._state.pasted) + 1}"
        self._state.pasted[name] = data
        self._composer.buffer.insert_text(f"@{name} ")
        self._terminal.redraw()

    def refuse(self) -> None:
        """Say no to the open question and stop the turn."""
        self._answers.keys.drop()
        self._answers.refuse()

    # The input

    def submit(self) -> None:
        self._terminal.notice = ""
        composer = self._composer
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
        if self._state.status.is_waiting_to_retry and composer.is_empty and self._state.session:
            self._state.session.model.hurry()
            return
        text = composer.text
        if composer.shell_mode or text.startswith(SHELL):
            self._submit_shell(text)
        elif is_slash_command(text):
            # Now, because the keys that come with this one belong to the next line.
            composer.take_unrecorded()
            self._terminal.run_task(self._slash.submit(text))
        elif text.strip():
            self._send(*composer.take())

    def _send(self, text: str, shown: str) -> None:
        """Send a message. While a plan waits for an answer, the message is about the plan."""
        if isinstance(self._state.pending, PendingPlan):
            self._answers.answer_in_words(text)
        else:
            self._turns.send(text, shown)

    def _submit_shell(self, text: str) -> None:
        composer = self._composer
        command = text.lstrip(SHELL).strip() if not composer.shell_mode else text.strip()
        if not command:
            composer.shell_mode = not composer.shell_mode
            composer.buffer.reset()
        elif self._turns.is_running:
            self._terminal.show_notice("A turn is running. Your command stays in the input.")
        else:
            composer.take()
            self._turns.run_shell(command, tells_model=not text.startswith(2 * SHELL))

    def complete(self) -> None:
        buffer = self._composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            if len(buffer.complete_state.completions) == 1:
                buffer.complete_state = None
        elif self._state.pending is not None:
            self._approvals.open_now()
        elif self._turns.is_running and self._composer.text.strip():
            text, _ = self._composer.take()
            self._turns.steer(text)
        else:
            buffer.start_completion(insert_common_part=True)

    def switch_mode(self) -> None:
        """Switch to the next mode, but not under a question that was asked in this one."""
        if self._approvals.is_open:
            self._terminal.show_notice("Answer the question first. Then change the mode.")
            return
        index = MODES.index(self._state.mode)
        self._state.set_mode(MODES[(index + 1) % len(MODES)])
        self._terminal.redraw()

    def move_up(self) -> None:
        buffer = self._composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_previous()
        elif self._composer.is_empty and self._state.queue:
            self._composer.set_text(self._state.take_queue())
        else:
            buffer.auto_up()

    def move_down(self) -> None:
        buffer = self._composer.buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
        else:
            buffer.auto_down()

    def escape(self) -> None:
        composer = self._composer
        if composer.buffer.complete_state is not None:
            composer.buffer.complete_state = None
        elif composer.shell_mode:
            self.leave_shell()
        elif self._turns.is_running:
            self._interrupt()
        elif not composer.is_empty:
            if self._is_again("escape"):
                composer.clear()
            else:
                self._terminal.show_notice(
                    f"{self._name_key('escape')} again clears the input. ↑ brings it back."
                )
        elif self._is_again("escape"):
            self._terminal.run_task(self._rewind())

    def leave_shell(self) -> None:
        self._composer.shell_mode = False

    def is_bare_shell(self) -> bool:
        """Return whether there is a prompt for a shell command with nothing in it."""
        return self._composer.shell_mode and self._composer.is_empty

    async def _rewind(self) -> None:
        await self._sessions.wait_for_session()
        await self._slash.run("/rewind")

    def stop(self) -> None:
        if self._handover.cancel_question():
            return
        if self._turns.is_running:
            self._interrupt()
        elif self._composer.is_used:
            self._composer.clear()
        elif self._is_again("stop"):
            self._terminal.leave()
        else:
            self._terminal.show_notice(f"{self._name_key('stop')} again to quit.")

    def leave(self) -> None:
        if not self._composer.is_empty:
            self._composer.buffer.delete()
        elif not self._turns.is_running or self._is_again("leave"):
            self._terminal.leave()
        else:
            self._terminal.show_notice(
                f"A turn is running. {self._name_key('leave')} again stops it and quits."
            )

    def _name_key(self, action: str) -> str:
        return self._state.keys[action].hint.title()

    def _interrupt(self) -> None:
        session = self._state.session
        if session is not None and self._is_again("interrupt") and self._turns.is_stopping:
            session.builtin_tools.kill_awaited()
        else:
            self._state.interrupt()

    def move_to_background(self) -> None:
        """Move the running command to the background. Without one, the key edits as in emacs."""
        session, buffer = self._state.session, self._composer.buffer
        moved = session.builtin_tools.move_to_background() if session else 0
        if moved:
            self._terminal.show_notice(
                f"Moved {pluralize(moved, 'command')} to the background. /bg lists them."
            )
        elif buffer.text:
            buffer.cursor_left()
        else:
            self._terminal.show_notice("No running command to move to the background.")

    def _is_again(self, what: str) -> bool:
        now = time.monotonic()
        is_again = now - self._pressed.pop(what, float("-inf")) <= AGAIN_S
        if not is_again:
            self._pressed[what] = now
        return is_again

    # Hand-overs

    def open_editor(self) -> None:
        self._terminal.run_task(self.edit_in_editor())

    async def edit_in_editor(self) -> None:
        text = await self._handover.edit(self._composer.text, suffix=".md")
        if text is None:
            self._terminal.show_notice("The editor failed. Your text is unchanged.")
        else:
            self._composer.set_text(text.rstrip("\n"))

    def open_transcript(self) -> None:
        self._terminal.run_task(self._show_transcript())

    async def _show_transcript(self) -> None:
        _, renderer = await self._sessions.wait_for_session()
        await self._handover.page(renderer.transcript.render_full())


# Slash commands


MISTAKE_S = 5.0
"""The time for which the notice about an unknown command is shown."""


class SlashCommandRunner:
    """The lines that begin with a slash: checked and run."""

    def __init__(
        self,
        host: CommandHost,
        *,
        sessions: SessionManager,
        composer: Composer,
        turns: Turns,
        terminal: Terminal,
    ) -> None:
        """`host` is what the commands can reach."""
        self._host = host
        self._sessions = sessions
        self._composer = composer
        self._turns = turns
        self._terminal = terminal

    async def submit(self, line: str) -> None:
        """Run a line that was taken out of the input. Put it back there if it cannot be run."""
        why_not = await self._find_fault(line)
        if why_not is not None:
            self._composer.prepend_text(line)
            self._terminal.show_notice(why_not, seconds=MISTAKE_S)
            return
        self._composer.remember(line)
        if (await self._sessions.wait_for_registry()).find_fault(line):
            self._turns.send(line, line)  # a server's prompt
        else:
            await self.run(line)

    async def run(self, line: str) -> None:
        """Run a command that exists."""
        self._host.say(f"> {line}", "strong")
        await (await self._sessions.wait_for_registry()).run(line, self._host)

    async def _find_fault(self, line: str) -> str | None:
        """Return why the line cannot be run, or None if it can.

        Empty if there is no session: the reason was reported where it was found.
        """
        registry = await self._sessions.wait_for_registry()
        if registry.works_alone(line):
            return None
        try:
            session, _ = await self._sessions.wait_for_session()
        except AgentError:
            return ""
        return None if session.runs_prompt(line) else registry.find_fault(line) or None
