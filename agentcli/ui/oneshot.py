"""One order, one run, one exit code: opens a session, tells the faces, never waits for a person.

However it ends, by itself, by a signal or by a bug, its outcome is said exactly once, at the end.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agentcli.app.errand import Errand
from agentcli.app.opening import open_session
from agentcli.app.session import Session
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.types.errors import AgentError, Exit, Outcome
from agentcli.types.events import Ending, Event
from agentcli.types.messages import Image
from agentcli.types.record import dataclass
from agentcli.ui.ci.heartbeat import heartbeat
from agentcli.ui.plain import say_error
from agentcli.ui.streams import ReaderLeft
from agentcli.ui.tally import Tally


class Face(Protocol):
    """Shows a run while it happens, and has a last word."""

    def __call__(self, event: Event) -> None: ...

    def finish(self, outcome: Outcome, tally: Tally) -> None:
        """Called exactly once, after the last event, however the run ended."""
        ...


class Leaver(Protocol):
    """What is left behind by a run that has ended, besides what its faces say."""

    async def begin(self, session: Session) -> None:
        """Before the first request. Raises AgentError where it could not be left later."""
        ...

    def gather(self, tally: Tally) -> None:
        """After the last turn, while the log is still open: a failure is the outcome then."""
        ...

    def leave(self, run: "Run") -> None:
        """Raises AgentError where something could not be left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One task, with what it must leave behind."""

    settings: Settings
    prompt: str
    attached: tuple[str | Image, ...] = ()
    errand: Errand = field(default_factory=Errand)
    resume: SessionPlace | None = None
    beat: Callable[[float], None] | None = None
    """A sign of life, called now and then."""


@dataclass(slots=True, kw_only=True)
class Run:
    """What has become of an order so far."""

    order: Order | None = None
    outcome: Outcome = field(default_factory=lambda: Outcome(ending=Ending.INTERNAL))
    tally: Tally = field(default_factory=Tally)
    log: Path | None = None


class Interrupted(AgentError):
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
    order_of: Callable[[], Order], faces: Sequence[Face], leaver: Leaver | None = None
) -> Exit:
    """`order_of`: raises AgentError where there is nothing to be done, which is an outcome, too."""
    run = Run()
    _until_the_loop_listens()
    try:
        run.order = order_of()
        run.outcome = asyncio.run(_Carrying(run, faces, leaver).out(run.order))
    except AgentError as error:
        run.outcome = error.outcome
    except KeyboardInterrupt:
        run.outcome = Interrupted("SIGINT").outcome
    except BaseException as bug:
        run.outcome = Outcome(
            ending=Ending.INTERNAL, message=f"internal error: {type(bug).__name__}"
        )
        _finish(run, faces, leaver)
        raise
    return _finish(run, faces, leaver)


def _finish(run: Run, faces: Sequence[Face], leaver: Leaver | None) -> Exit:
    _let_the_last_word_be_said()
    try:
        if leaver is not None:
            leaver.leave(run)
    except AgentError as error:
        run.outcome = _worse(run.outcome, error)
    try:
        for face in faces:
            face.finish(run.outcome, run.tally)
    except ReaderLeft as left:
        return left.exit_code
    except AgentError as error:
        say_error(str(error), error.hint)
        return error.exit_code
    return run.outcome.exit_code


def _worse(outcome: Outcome, error: AgentError) -> Outcome:
    """What could not be left is the outcome only of a run that had no other trouble."""
    if outcome.exit_code is Exit.DONE:
        return error.outcome
    say_error(str(error), error.hint)
    return outcome


class _Carrying:
    """An order on its way, and the signals that may stop it."""

    def __init__(self, run: Run, faces: Sequence[Face], leaver: Leaver | None) -> None:
        self._run = run
        self._faces = faces
        self._leaver = leaver
        self._session: Session | None = None
        self._task: asyncio.Task[Any] | None = None
        self._why: Exception | None = None
        self._is_closing = False

    async def out(self, order: Order) -> Outcome:
        self._task = asyncio.current_task()
        self._listen_to_signals()
        session = self._session = open_session(
            order.settings,
            listeners=(self._run.tally, *(partial(self._tell, face) for face in self._faces)),
            resume=order.resume,
            errand=order.errand,
        )
        self._run.log = session.place.log
        outcome = Outcome(ending=Ending.INTERNAL)
        try:
            outcome = await self._worked(session, order)
        except AgentError as error:
            outcome = error.outcome
        finally:
            self._is_closing = True
            outcome = await self._gathered(outcome)
            await session.close(outcome.exit_code, outcome=outcome)
        return outcome

    async def _gathered(self, outcome: Outcome) -> Outcome:
        if self._leaver is None:
            return outcome
        try:
            await asyncio.to_thread(self._leaver.gather, self._run.tally)
        except AgentError as error:
            return _worse(outcome, error)
        return outcome

    async def _worked(self, session: Session, order: Order) -> Outcome:
        try:
            if self._leaver is not None:
                await self._leaver.begin(session)
            if session.mode != "plan" and session.planning.proposed:
                # Who goes on in another mode, and cannot be asked, agrees to the plan.
                session.accept_plan(session.planning.proposed, mode=session.mode)
            async with heartbeat(order.beat):
                attached = (*order.attached, *order.errand.notes)
                ended = await session.turn(order.prompt, attached=attached)
        except asyncio.CancelledError:
            if self._why is None:
                raise
            raise self._why from None
        if self._why is not None:  # it was too late to interrupt anything, but not to be told
            raise self._why
        return Outcome(ending=ended.ending, message=ended.message, hint=ended.hint)

    def _tell(self, face: Face, event: Event) -> None:
        try:
            face(event)
        except Exception as lost:  # noqa: BLE001 - nobody reads, or a bug: it cannot tell the end
            self._stop(lost)

    def _stop(self, why: Exception) -> None:
        if self._why is not None:
            if self._session is not None:
                self._session.kill_commands()  # asked twice: no more patience
            return
        self._why = why
        if not self._is_closing and self._task is not None:
            self._task.cancel()

    def _listen_to_signals(self) -> None:
        if sys.platform == "win32":
            return  # there is only the keyboard, and asyncio.run listens to it
        loop = asyncio.get_running_loop()
        for name in _heeded():
            loop.add_signal_handler(signal.Signals[name], self._stop, Interrupted(name))


def _heeded() -> list[str]:
    """What `nohup` or a shell in the background has told us to ignore stays ignored."""
    return [
        name
        for name in _ENDING_OF_SIGNAL
        if hasattr(signal, name) and signal.getsignal(signal.Signals[name]) is not signal.SIG_IGN
    ]


def _until_the_loop_listens() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise Interrupted(signal.Signals(number).name)

    for name in _heeded():
        signal.signal(signal.Signals[name], interrupt)


def _let_the_last_word_be_said() -> None:
    """The first signal is too late to change anything; the second one ends us at once."""

    def wait(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)

    for name in _heeded():
        signal.signal(signal.Signals[name], wait)
