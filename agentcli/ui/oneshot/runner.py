"""One task, one run, one exit code: opens a session, notifies the renderers, never waits for input.

However the run ends, by itself, by a signal or by a bug, its outcome is reported exactly once,
last.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agentcli.log.paths import SessionPaths
from agentcli.session.builder import open_session
from agentcli.session.requirements import RunRequirements
from agentcli.session.session import Session
from agentcli.settings import Settings
from agentcli.types.errors import AgentError, Exit, RunOutcome
from agentcli.types.events import Ending, Event
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image
from agentcli.ui.oneshot.plain import print_error
from agentcli.ui.streams import OutputClosed
from agentcli.ui.tally import Tally

# Heartbeat lines: a CI that sees no output for long takes a job for dead.


EVERY_S = 30.0


@asynccontextmanager
async def run_heartbeat(
    report_alive: Callable[[float], None] | None, *, every_s: float = EVERY_S
) -> AsyncIterator[None]:
    """Call `report_alive` regularly while the body runs, or never if it is None."""
    if report_alive is None:
        yield
        return
    task = asyncio.ensure_future(_report_regularly(report_alive, every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _report_regularly(report_alive: Callable[[float], None], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s / 2)
        report_alive(every_s)


class RunRenderer(Protocol):
    """A listener that shows a run while it happens, and its outcome at the end."""

    def __call__(self, event: Event) -> None: ...

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        """Show the outcome. Called exactly once, after the last event, however the run ended."""
        ...


class ArtifactWriter(Protocol):
    """A writer of the files of a run that has ended, besides the output of its renderers."""

    async def begin(self, session: Session) -> None:
        """Prepare before the first request. Raise AgentError if writing would fail later."""
        ...

    def collect(self, tally: Tally) -> None:
        """Write after the last turn. The log is still open, so a failure can become the outcome."""
        ...

    def write(self, run: "RunState") -> None:
        """Write the rest. Raise AgentError if something could not be written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotTask:
    """One task, with the requirements for its result."""

    settings: Settings
    prompt: str
    attachments: tuple[str | Image, ...] = ()
    requirements: RunRequirements = field(default_factory=RunRequirements)
    resume: SessionPaths | None = None
    beat: Callable[[float], None] | None = None
    """A function that reports that the run is alive, called regularly."""


@dataclass(slots=True, kw_only=True)
class RunState:
    """The state of a task so far."""

    task: OneShotTask | None = None
    outcome: RunOutcome = field(default_factory=lambda: RunOutcome(ending=Ending.INTERNAL))
    tally: Tally = field(default_factory=Tally)
    log: Path | None = None


class InterruptedBySignal(AgentError):
    """A signal ended the run; what was done until then is recorded."""

    def __init__(self, name: str) -> None:
        super().__init__(f"interrupted by {name}")
        self.ending = _ENDING_OF_SIGNAL[name]


_ENDING_OF_SIGNAL = {
    "SIGINT": Ending.CANCELLED,
    "SIGTERM": Ending.TERMINATED,
    "SIGHUP": Ending.HUNG_UP,
}


def run_once(
    build_task: Callable[[], OneShotTask],
    renderers: Sequence[RunRenderer],
    artifacts: ArtifactWriter | None = None,
) -> Exit:
    """Run one task and return its exit code.

    `build_task` may raise AgentError if there is nothing to do: that is an outcome, too.
    """
    run = RunState()
    _raise_on_signals()
    try:
        run.task = build_task()
        run.outcome = asyncio.run(_TaskRunner(run, renderers, artifacts).run(run.task))
    except AgentError as error:
        run.outcome = error.outcome
    except KeyboardInterrupt:
        run.outcome = InterruptedBySignal("SIGINT").outcome
    except BaseException as bug:
        run.outcome = RunOutcome(
            ending=Ending.INTERNAL, message=f"internal error: {type(bug).__name__}"
        )
        _finish(run, renderers, artifacts)
        raise
    return _finish(run, renderers, artifacts)


def _finish(
    run: RunState, renderers: Sequence[RunRenderer], artifacts: ArtifactWriter | None
) -> Exit:
    _ignore_first_signal()
    try:
        if artifacts is not None:
            artifacts.write(run)
    except AgentError as error:
        run.outcome = _merge_outcome(run.outcome, error)
    try:
        for face in renderers:
            face.finish(run.outcome, run.tally)
    except OutputClosed as left:
        return left.exit_code
    except AgentError as error:
        print_error(str(error), error.hint)
        return error.exit_code
    return run.outcome.exit_code


def _merge_outcome(outcome: RunOutcome, error: AgentError) -> RunOutcome:
    """Return the outcome: a failure to write counts only if the run had no other trouble."""
    if outcome.exit_code is Exit.DONE:
        return error.outcome
    print_error(str(error), error.hint)
    return outcome


class _TaskRunner:
    """A running task, and the signals that may stop it."""

    def __init__(
        self, state: RunState, renderers: Sequence[RunRenderer], artifacts: ArtifactWriter | None
    ) -> None:
        self._state = state
        self._renderers = renderers
        self._artifacts = artifacts
        self._session: Session | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interruption: Exception | None = None
        self._is_closing = False

    async def run(self, task: OneShotTask) -> RunOutcome:
        self._task = asyncio.current_task()
        self._handle_signals()
        session = self._session = open_session(
            task.settings,
            listeners=(
                self._state.tally,
                *(partial(self._notify, face) for face in self._renderers),
            ),
            resume=task.resume,
            requirements=task.requirements,
        )
        self._state.log = session.paths.log
        outcome = RunOutcome(ending=Ending.INTERNAL)
        try:
            outcome = await self._run_turn(session, task)
        except AgentError as error:
            outcome = error.outcome
        finally:
            self._is_closing = True
            outcome = await self._collect_artifacts(outcome)
            await session.close(outcome.exit_code, outcome=outcome)
        return outcome

    async def _collect_artifacts(self, outcome: RunOutcome) -> RunOutcome:
        if self._artifacts is None:
            return outcome
        try:
            await asyncio.to_thread(self._artifacts.collect, self._state.tally)
        except AgentError as error:
            return _merge_outcome(outcome, error)
        return outcome

    async def _run_turn(self, session: Session, task: OneShotTask) -> RunOutcome:
        try:
            if self._artifacts is not None:
                await self._artifacts.begin(session)
            if session.gate.mode != "plan" and session.plan_tracker.proposed:
                # The user chose another mode and cannot be asked: that accepts the plan.
                session.accept_plan(session.plan_tracker.proposed, mode=session.gate.mode)
            async with run_heartbeat(task.beat):
                attached = (*task.attachments, *task.requirements.notes)
                ended = await session.run_turn(task.prompt, attachments=attached)
        except asyncio.CancelledError:
            if self._interruption is None:
                raise
            raise self._interruption from None
        if (
            self._interruption is not None
        ):  # it came too late to interrupt anything, but it must be reported
            raise self._interruption
        return RunOutcome(ending=ended.ending, message=ended.message, hint=ended.hint)

    def _notify(self, renderer: RunRenderer, event: Event) -> None:
        try:
            renderer(event)
        except Exception as lost:  # noqa: BLE001 - nobody reads, or a bug: it cannot show the end
            self._stop(lost)

    def _stop(self, why: Exception) -> None:
        if self._interruption is not None:
            if self._session is not None:
                # This is the second request to stop: do not wait any longer.
                self._session.builtin_tools.kill_commands()
            return
        self._interruption = why
        if not self._is_closing and self._task is not None:
            self._task.cancel()

    def _handle_signals(self) -> None:
        if sys.platform == "win32":
            return  # there is only the keyboard, and asyncio.run listens to it
        loop = asyncio.get_running_loop()
        for name in _list_handled_signals():
            loop.add_signal_handler(signal.Signals[name], self._stop, InterruptedBySignal(name))


def _list_handled_signals() -> list[str]:
    """Return the signals to handle.

    One that `nohup` or a background shell ignores stays ignored.
    """
    return [
        name
        for name in _ENDING_OF_SIGNAL
        if hasattr(signal, name) and signal.getsignal(signal.Signals[name]) is not signal.SIG_IGN
    ]


def _raise_on_signals() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise InterruptedBySignal(signal.Signals(number).name)

    for name in _list_handled_signals():
        signal.signal(signal.Signals[name], interrupt)


def _ignore_first_signal() -> None:
    """Ignore the first signal, which comes too late to matter. The second one ends us at once."""

    def wait(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)

    for name in _list_handled_signals():
        signal.signal(signal.Signals[name], wait)
