"""The turns of the session: one at a time, with a queue, and a way to interrupt.

An interrupt sends nothing and drops nothing: waiting messages go back into the input.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agentcli.settings import Settings
from agentcli.system import garbage
from agentcli.types.errors import AgentError, UsageError
from agentcli.types.events import CallFinished, CallJudged, NoteReason
from agentcli.types.messages import Text, ToolCall
from agentcli.types.tools import Command, Effect, ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.mentions import attach
from agentcli.ui.repl.shell import ShellResult, needs_terminal, run_captured, run_on_terminal
from agentcli.ui.repl.status import FRAME_S, Status
from agentcli.ui.repl.terminal import Terminal

if TYPE_CHECKING:
    from agentcli.session.session import Session, SteeringMessage
    from agentcli.ui.repl.renderer import TranscriptRenderer
    from agentcli.ui.repl.repl import Repl
    from agentcli.ui.repl.transcript import LiveTranscript


# Messages sent while a turn was running: they wait for its end, or go back to the input


SHOWN_ROWS = 3


class MessageQueue:
    def __init__(self) -> None:
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> None:
        self._texts.append(text)

    def take(self) -> str:
        """Return all messages as one, and empty the queue."""
        text = "\n".join(self._texts)
        self._texts.clear()
        return text

    def render_rows(self) -> list[str]:
        return render_waiting_rows(self._texts, "queued")


def render_waiting_rows(texts: Sequence[str], what: str) -> list[str]:
    """Return the rows above the input for waiting messages, at most three."""
    shown = [f"  {what}: {' '.join(text.split())}" for text in texts[-SHOWN_ROWS:]]
    if len(texts) > SHOWN_ROWS:
        shown[0] = f"  … {len(texts) - SHOWN_ROWS + 1} more {what}"
    return shown


T = TypeVar("T")

LONG_TURN_S = 30.0
QUIET_S = 0.1
"""The pause after the last frame of a turn, before garbage is collected."""


class Turns:
    def __init__(
        self,
        settings: Settings,
        *,
        wait_for_session: Callable[[], Awaitable["tuple[Session, TranscriptRenderer]"]],
        terminal: Terminal,
        composer: Composer,
        status: Status,
        on_turn_end: Callable[[], None],
        steer: Callable[[str], None],
        ask_about_plan: Callable[[], Awaitable[str]],
    ) -> None:
        """`ask_about_plan` asks whether to follow the plan, and returns what to send next."""
        self._settings = settings
        self._wait_for_session = wait_for_session
        self._terminal = terminal
        self._composer = composer
        self._status = status
        self._on_turn_end = on_turn_end
        self._steer = steer
        self._ask_about_plan = ask_about_plan
        self.queue = MessageQueue()
        self._task: asyncio.Task[None] | None = None
        self._interrupts = 0
        self._gave_up = False
        """True if the user did not want to wait until a request is sent again."""
        self._is_closing = False
        self.shell_output = ""

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def send(self, text: str, shown: str) -> None:
        """Send a message now, or after the running turn."""
        if self.is_running:
            self.queue.add(text)
            self._terminal.redraw()
        else:
            self._start(self._run_turns(text, shown))

    @property
    def is_stopping(self) -> bool:
        return self._interrupts > 0

    def steer(self, text: str) -> None:
        """Send a message to the running turn, before the model's next step."""
        self._steer(text)
        self._terminal.redraw()

    def decide_on_plan(self) -> None:
        """Ask about the plan. Only while nothing runs."""
        self._start(self._run_plan())

    def run_shell(self, command: str, *, tells_model: bool) -> None:
        """Run a shell command. Only while nothing runs."""
        self._start(self._run_shell_command(command, tells_model=tells_model))

    async def wait_for(self, verb: str, work: Coroutine[Any, Any, T]) -> T:
        """Run the slow work of a command. As with a turn, nothing else runs beside it.

        Raise UsageError if a turn is running, or if the user stops the work."""
        if self.is_running:
            work.close()
            raise UsageError("a turn is running", hint="esc stops it; then try again")
        self._status.begin(verb)
        done = asyncio.ensure_future(work)
        self._start(_wait_to_end(done))
        await asyncio.wait([done])
        if done.cancelled():
            raise UsageError(f"stopped: {verb[:1].lower()}{verb[1:]}")
        return done.result()

    def interrupt(self) -> bool:
        """Interrupt the turn. Return whether there was something to stop."""
        if self._task is None:
            return False
        self._interrupts += 1
        self._gave_up = self._gave_up or self._status.is_waiting_to_retry
        self._task.cancel()
        return True

    async def close(self) -> None:
        """Stop what runs. Queued messages stay in the queue."""
        self._is_closing = True
        self.interrupt()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._is_closing = False

    def _start(self, work: Awaitable[None]) -> None:
        self._interrupts, self._gave_up = 0, False
        self._task = asyncio.ensure_future(self._run_with_ticks(work))
        self._task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self._on_turn_end()
        self._terminal.redraw()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._terminal.leave(error)
        elif len(self.queue) and not self._is_closing:
            # Sent after an interrupt, or in the very last moment of a turn.
            text = self.queue.take()
            self.send(text, text)
        else:
            asyncio.get_running_loop().call_later(QUIET_S, self._collect_garbage)

    def _collect_garbage(self) -> None:
        if not self.is_running:
            garbage.collect_now()  # each frame leaves some hundred objects in cycles

    async def _run_with_ticks(self, work: Awaitable[None]) -> None:
        ticks = asyncio.ensure_future(self._tick())
        try:
            await work
        finally:
            ticks.cancel()
            self._status.end()

    async def _tick(self) -> None:
        """Update frame and clock together, while something runs."""
        while True:
            self._terminal.redraw()
            await asyncio.sleep(FRAME_S)

    async def _run_plan(self) -> None:
        self._status.begin("Waiting for you")
        text = await self._ask_about_plan()
        await self._run_turns(text, text)

    async def _run_turns(self, text: str, shown: str) -> None:
        while text:
            text = await self._run_turn(text, shown)
            shown = text

    async def _run_turn(self, text: str, shown: str) -> str:
        """Run one turn. Return the text of the next."""
        self._status.begin("Waiting for model")
        try:
            session, stage = await self._wait_for_session()
        except AgentError:
            self._composer.prepend_text(text)
            return ""
        stage.transcript.add_prompt(shown)
        if not session.is_ready:
            self._status.set_verb("Starting MCP servers")
        following = ""
        try:
            attached = await asyncio.to_thread(attach, text, self._settings.workspace)
            for note in attached.notes:
                stage.transcript.add(stage.apply_style(f"  {note}", "dim"))
            await session.run_turn(text, attachments=attached.parts)
            if session.withdraw_prompt():
                self._return_unsent(text, session, stage)
                return ""
            following = self._take_waiting(session) or await self._ask_about_plan()
        except asyncio.CancelledError:
            self._handle_interrupt(session, stage, text)
            return ""
        except AgentError as error:
            stage.transcript.add_error(str(error), error.hint)
        if self._status.elapsed_s >= LONG_TURN_S and self._settings.notify == "bell":
            self._terminal.ring_bell()
        return "\n".join(filter(None, [following, self._take_waiting(session)]))

    def _take_waiting(self, session: "Session") -> str:
        """Return what was typed while the turn ran."""
        return "\n".join([*session.steering.take_unsent(), *filter(None, [self.queue.take()])])

    def _handle_interrupt(
        self, session: "Session", renderer: "TranscriptRenderer", text: str = ""
    ) -> None:
        """Handle an interrupt. `text` is the message that was sent."""
        if not self._interrupts:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()
        renderer.transcript.add_interruption(self._status.elapsed_s)
        if text and self._gave_up and session.withdraw_prompt(gave_up=True):
            self._return_unsent(text, session, renderer)
        else:
            self._restore_input(session)

    def _return_unsent(self, text: str, session: "Session", renderer: "TranscriptRenderer") -> None:
        """Return a message that no model has received to the input."""
        self._restore_input(session, text)
        renderer.transcript.add(
            renderer.apply_style("  your message is kept: enter sends it again", "dim")
        )

    def _restore_input(self, session: "Session", *unsent: str) -> None:
        """Put unsent and waiting messages back into the input."""
        waited = [*unsent, *session.steering.take_unsent(), *filter(None, [self.queue.take()])]
        if waited:
            self._composer.prepend_text("\n".join(waited))

    async def _run_shell_command(self, command: str, *, tells_model: bool) -> None:
        self._status.begin(f"Running {' '.join(command.split())}")
        try:
            session, stage = await self._wait_for_session()
        except AgentError:
            self._composer.prepend_text(f"!{command}")
            return
        stage.transcript.add_prompt(f"!{'' if tells_model else '!'}{command}")
        try:
            if needs_terminal(command):
                ran = await self._terminal.hand_over(
                    lambda: asyncio.to_thread(
                        run_on_terminal, command, cwd=self._settings.workspace
                    )
                )
            else:
                ran = await run_captured(
                    command, cwd=self._settings.workspace, progress=self._update_shell_output
                )
        except asyncio.CancelledError:
            self._handle_interrupt(session, stage)
            return
        except AgentError as error:
            stage.transcript.add_error(str(error), error.hint)
            return
        finally:
            self.shell_output = ""
        stage.transcript.add_card(*_build_card(ran, self._settings))
        if tells_model:
            session.add_note(session.clean(ran.render_for_model()), reason=NoteReason.SHELL)

    def _update_shell_output(self, text: str) -> None:
        self.shell_output = text


async def _wait_to_end(work: "asyncio.Future[Any]") -> None:
    """Wait until the work ends. Its result is for the caller that waits for it."""
    try:
        await asyncio.wait([work])
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait([work])


def _build_card(ran: ShellResult, settings: Settings) -> tuple[CallJudged, CallFinished]:
    call = ToolCall(id=f"shell-{time.monotonic_ns()}", name="bash", input={"command": ran.command})
    lines = ran.output.rstrip("\n").split("\n") if ran.output.strip() else []
    details = Command(
        command=ran.command,
        cwd=str(settings.workspace),
        exit_code=ran.exit_code,
        duration_s=ran.duration_s,
        output_bytes=len(ran.output.encode()),
        output_lines=len(lines),
        shown_lines=len(lines),
        head="\n".join(lines),
    )
    result = ToolResult(
        call_id=call.id,
        name=call.name,
        status="error" if ran.exit_code else "ok",
        content=(Text(text=ran.output),),
        details=details,
        error=ErrorKind.FAILED if ran.exit_code else None,
    )
    verdict = Verdict(decision="allow", by="user", reason="the user ran it")
    return (
        CallJudged(call=call, effect=Effect.EXECUTE, verdict=verdict),
        CallFinished(result=result, duration_s=ran.duration_s),
    )


# Messages to the running turn: they bring the files they mention, as a prompt does


def send_steering(repl: "Repl", text: str) -> None:
    """Send a message to the running turn. If the turn ends first, it becomes the next prompt."""
    session = repl.session
    steered = session.steering.add(text)
    repl.actions.run_task(_attach_steering(steered, session, repl.renderer.transcript))


async def _attach_steering(
    steered: "SteeringMessage", session: "Session", transcript: "LiveTranscript"
) -> None:
    attached = await asyncio.to_thread(attach, steered.text, session.settings.workspace)
    transcript.notes[steered.text] = attached.notes
    session.add_attachments(steered, attached.parts)
