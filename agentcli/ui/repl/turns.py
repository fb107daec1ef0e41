"""The turns of the session: one at a time, with a queue, and a way to interrupt.

An interrupt sends nothing and drops nothing: waiting messages go back into the input.
"""

import asyncio
import time
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from agentcli.system import startup
from agentcli.types.errors import AgentError, UsageError
from agentcli.types.events import CallFinished, CallJudged, NoteReason
from agentcli.types.messages import Text, ToolCall
from agentcli.types.settings import Settings
from agentcli.types.tools import Command, Effect, ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict
from agentcli.ui.render.wording import USER_RAN_IT
from agentcli.ui.repl.answers import Answers
from agentcli.ui.repl.approval import PlanAnswer
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.mentions import attach
from agentcli.ui.repl.session_manager import SessionManager
from agentcli.ui.repl.shell import ShellResult, needs_terminal, run_captured, run_on_terminal
from agentcli.ui.repl.state import ReplState
from agentcli.ui.repl.status import FRAME_S
from agentcli.ui.repl.terminal import Terminal

if TYPE_CHECKING:
    from agentcli.session.session import Session, SteeringMessage
    from agentcli.ui.repl.renderer import TranscriptRenderer


T = TypeVar("T")

LONG_TURN_S = 30.0
QUIET_S = 0.1
"""The pause after the last frame of a turn, before garbage is collected."""


class Turns:
    def __init__(
        self,
        state: ReplState,
        *,
        sessions: SessionManager,
        answers: Answers,
        composer: Composer,
        terminal: Terminal,
    ) -> None:
        self._state = state
        self._sessions = sessions
        self._answers = answers
        self._composer = composer
        self._terminal = terminal
        self._is_closing = False

    @property
    def is_running(self) -> bool:
        return self._state.task is not None

    def send(self, text: str, shown: str) -> None:
        """Send a message now, or after the running turn."""
        if self.is_running:
            self._state.queue.append(text)
            self._terminal.redraw()
        else:
            self._start(self._run_turns(text, shown))

    @property
    def is_stopping(self) -> bool:
        return self._state.interrupts > 0

    def steer(self, text: str) -> None:
        """Send a message to the running turn, before the model's next step.

        It brings the files it mentions. If the turn ends first, it becomes the next prompt.
        """
        session, renderer = self._state.session, self._state.renderer
        if session is None or renderer is None:
            self.send(text, text)
            return
        steered = session.steering.add(text)
        self._terminal.run_task(self._attach_steering(steered, session, renderer=renderer))
        self._terminal.redraw()

    async def _attach_steering(
        self, steered: "SteeringMessage", session: "Session", *, renderer: "TranscriptRenderer"
    ) -> None:
        attached = await asyncio.to_thread(
            attach,
            steered.text,
            session.settings.workspace,
            session.directories.find_roots(),
            self._state.pasted,
        )
        renderer.transcript.hold_notes(steered.text, attached.notes)
        session.add_attachments(steered, attached.parts)

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
            key = self._state.keys["escape"].hint.title()
            raise UsageError("a turn is running", hint=f"press {key} to stop it, then try again")
        self._state.status.begin(verb)
        done = asyncio.ensure_future(work)
        self._start(_wait_to_end(done))
        await asyncio.wait([done])
        if done.cancelled():
            raise UsageError(f"stopped: {verb[:1].lower()}{verb[1:]}")
        return done.result()

    async def close(self) -> None:
        """Stop what runs. Queued messages stay in the queue."""
        self._is_closing = True
        self._state.interrupt()
        if self._state.task is not None:
            await asyncio.wait([self._state.task])
        self._is_closing = False

    def _start(self, work: Awaitable[None]) -> None:
        self._state.interrupts, self._state.gave_up = 0, False
        self._state.task = asyncio.ensure_future(self._run_with_ticks(work))
        self._state.task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._state.task = None
        self._sessions.refresh_branch()
        self._sessions.refresh_own_status()
        self._sessions.report_history_fault()
        self._terminal.redraw()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._terminal.fail(error)
        elif self._state.queue and not self._is_closing:
            # Sent after an interrupt, or in the very last moment of a turn.
            text = self._state.take_queue()
            self.send(text, text)
        else:
            asyncio.get_running_loop().call_later(QUIET_S, self._collect_garbage)

    def _collect_garbage(self) -> None:
        if not self.is_running:
            startup.collect_now()  # each frame leaves some hundred objects in cycles

    async def _run_with_ticks(self, work: Awaitable[None]) -> None:
        ticks = asyncio.ensure_future(self._tick())
        try:
            await work
        finally:
            ticks.cancel()
            self._state.status.end()

    async def _tick(self) -> None:
        """Update frame and clock together, while something runs."""
        while True:
            self._terminal.redraw()
            await asyncio.sleep(FRAME_S)

    async def _run_plan(self) -> None:
        self._state.status.begin("Waiting for you")
        session, _ = await self._sessions.wait_for_session()
        text = await self._ask_about_plan(session)
        await self._run_turns(text, text)

    async def _ask_about_plan(self, session: "Session") -> str:
        """Ask the user about the plan, if there is one. Return what to send to the model."""
        plan = get_proposed_plan(session)
        if not plan:
            return ""
        answer, plan = await self._answers.ask_about_plan(plan)
        return apply_plan_answer(session, plan, answer=answer)

    async def _run_turns(self, text: str, shown: str) -> None:
        while text:
            text = await self._run_turn(text, shown)
            shown = text

    async def _run_turn(self, text: str, shown: str) -> str:
        """Run one turn. Return the text of the next."""
        self._state.status.begin("Waiting for model")
        try:
            session, renderer = await self._sessions.wait_for_session()
        except AgentError:
            self._composer.prepend_text(text)
            return ""
        renderer.transcript.add_prompt(shown)
        if not session.is_ready:
            self._state.status.set_verb("Starting MCP servers")
        following = ""
        try:
            attached = await asyncio.to_thread(
                attach,
                text,
                self._state.settings.workspace,
                session.directories.find_roots(),
                self._state.pasted,
            )
            for note in attached.notes:
                renderer.transcript.add(renderer.apply_style(f"  {note}", "dim"))
            await session.run_turn(text, attachments=attached.parts)
            if session.withdraw_prompt():
                self._return_unsent(text, session, renderer=renderer)
                return ""
            following = self._take_waiting(session) or await self._ask_about_plan(session)
        except asyncio.CancelledError:
            self._handle_interrupt(session, renderer, text=text)
            return ""
        except AgentError as error:
            renderer.transcript.add_error(str(error), error.hint)
        if self._state.status.elapsed_s >= LONG_TURN_S:
            self._terminal.notify(self._state.settings.notify, "done")
        return "\n".join(filter(None, [following, self._take_waiting(session)]))

    def _take_waiting(self, session: "Session") -> str:
        """Return what was typed while the turn ran."""
        waiting = [*session.steering.take_unsent(), self._state.take_queue()]
        return "\n".join(filter(None, waiting))

    def _handle_interrupt(
        self, session: "Session", renderer: "TranscriptRenderer", *, text: str = ""
    ) -> None:
        """Handle an interrupt. `text` is the message that was sent."""
        if not self._state.interrupts:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()
        renderer.transcript.add_interruption(self._state.status.elapsed_s)
        if text and self._state.gave_up and session.withdraw_prompt(gave_up=True):
            self._return_unsent(text, session, renderer=renderer)
        else:
            self._restore_input(session)

    def _return_unsent(
        self, text: str, session: "Session", *, renderer: "TranscriptRenderer"
    ) -> None:
        """Return a message that no model has received to the input."""
        self._restore_input(session, text)
        renderer.transcript.add(
            renderer.apply_style("  Your message is in the input. Enter retries.", "dim")
        )

    def _restore_input(self, session: "Session", *unsent: str) -> None:
        """Put unsent and waiting messages back into the input."""
        if waited := "\n".join(filter(None, [*unsent, self._take_waiting(session)])):
            self._composer.prepend_text(waited)

    async def _run_shell_command(self, command: str, *, tells_model: bool) -> None:
        self._state.status.begin(f"Running {' '.join(command.split())}")
        try:
            session, renderer = await self._sessions.wait_for_session()
        except AgentError:
            self._composer.prepend_text(f"!{command}")
            return
        renderer.transcript.add_prompt(f"!{'' if tells_model else '!'}{command}")
        try:
            if needs_terminal(command):
                ran = await self._terminal.hand_over(
                    lambda: asyncio.to_thread(
                        run_on_terminal, command, cwd=self._state.settings.workspace
                    )
                )
            else:
                ran = await run_captured(
                    command, cwd=self._state.settings.workspace, progress=self._update_shell_output
                )
        except asyncio.CancelledError:
            self._handle_interrupt(session, renderer)
            return
        except AgentError as error:
            renderer.transcript.add_error(str(error), error.hint)
            return
        finally:
            self._state.shell_output = ""
        renderer.transcript.add_card(*_build_card(ran, self._state.settings))
        if tells_model:
            session.add_note(session.clean(ran.render_for_model()), reason=NoteReason.SHELL)

    def _update_shell_output(self, text: str) -> None:
        self._state.shell_output = text


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
    verdict = Verdict(decision="allow", by="user", reason=USER_RAN_IT)
    return (
        CallJudged(call=call, effect=Effect.EXECUTE, verdict=verdict),
        CallFinished(result=result, duration_s=ran.duration_s),
    )


# The answer to a plan


PLAN_ACCEPTED = "Carry out the plan."
"""The message to the model when the user has accepted the plan."""
PLAN_CHANGED = "This is the plan as I have changed it:"


def get_proposed_plan(session: "Session") -> str:
    """Return the plan that the user has not decided on, or an empty string if there is none."""
    return session.plan_tracker.proposed if session.gate.mode == "plan" else ""


def apply_plan_answer(session: "Session", plan: str, *, answer: PlanAnswer) -> str:
    """Apply the answer. Return what to send to the model next, or an empty string for nothing."""
    if answer.mode is None:
        planning = session.plan_tracker
        is_changed = plan != planning.proposed
        planning.propose(plan)
        changed = f"\n\n{PLAN_CHANGED}\n\n{plan}" if is_changed and answer.instead else ""
        return answer.instead + changed
    session.accept_plan(plan, mode=answer.mode)
    return PLAN_ACCEPTED
