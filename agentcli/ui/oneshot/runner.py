"""One request, one run, one exit code: opens a session, shows it, never waits for input.

However the run ends, by itself, by a signal or by a bug, its outcome is reported exactly once,
last.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentcli.session.builder import open_session
from agentcli.session.session import Session
from agentcli.system.plain_text import show_controls
from agentcli.system.startup import take_signal
from agentcli.types.errors import (
    AgentError,
    Ending,
    Exit,
    RunOutcome,
    SettingsError,
    explain_obstacle,
)
from agentcli.types.events import Event
from agentcli.types.fast_dataclass import dataclass
from agentcli.ui.oneshot.plain import ProgressRenderer, StderrSink, TextAnswer, print_error
from agentcli.ui.oneshot.request import (
    InputFormat,
    OneShotTask,
    OutputFormat,
    RunRequest,
)
from agentcli.ui.streams import (
    OutputClosed,
    break_service_messages,
    err_is_pipe,
    write_err,
)
from agentcli.ui.tally import Tally, collect_changes

if TYPE_CHECKING:
    from agentcli.ui.oneshot.artifacts import Artifacts
    from agentcli.ui.oneshot.pretty_view import TerminalView
    from agentcli.ui.oneshot.stream_input import StreamConversation


class RunRenderer(Protocol):
    """A listener that shows a run while it happens, and its outcome at the end."""

    def __call__(self, event: Event) -> None: ...

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        """Show the outcome. Called exactly once, after the last event, however the run ended."""
        ...


@dataclass(slots=True, kw_only=True)
class RunState:
    """A run so far: where it is shown, and what is known of it."""

    renderers: Sequence[RunRenderer]
    artifacts: "Artifacts | None" = None
    """The files to write besides the output, if any are wanted."""
    report_alive: Callable[[float], None] | None = None
    """A function to call regularly: a CI that sees no output for long takes a job for dead."""
    task: OneShotTask | None = None
    outcome: RunOutcome = field(default_factory=lambda: RunOutcome(ending=Ending.INTERNAL))
    tally: Tally = field(default_factory=Tally)
    log: Path | None = None
    conversation: "StreamConversation | None" = None
    """The prompts on stdin, if they come from there one by one."""
    patch: str = ""
    """What the run changed in the workspace."""


def run_once(request: RunRequest) -> Exit:
    """Carry out the request and return its exit code."""
    run = _prepare_run(request)
    with _record_outcome(run):
        if held := take_signal():
            raise InterruptedBySignal(held)
        if run.artifacts is not None:
            run.artifacts.open_files()
        run.task = request.prepare_task()
        run.outcome = asyncio.run(_TaskRunner(run).run(run.task))
    return _finish(run)


def run_task(task: OneShotTask, renderers: Sequence[RunRenderer]) -> Exit:
    """Run a task that needs no request and leaves no files."""
    run = RunState(renderers=renderers, task=task)
    with _record_outcome(run):
        run.outcome = asyncio.run(_TaskRunner(run).run(task))
    return _finish(run)


def _prepare_run(request: RunRequest) -> RunState:
    progress, *further = _build_stderr_renderers(request)
    report_alive = None
    if request.is_ci and isinstance(progress, ProgressRenderer):
        report_alive = progress.report_alive
    answer = _build_stdout_renderer(request)
    return RunState(
        renderers=[progress, *further, answer],
        conversation=_build_conversation(request, answer),
        artifacts=_build_artifacts(request),
        report_alive=report_alive,
    )


@contextmanager
def _record_outcome(run: RunState) -> Iterator[None]:
    """Make every end of the body the outcome of the run. Only bugs leave it, after their report."""
    _raise_on_signals()
    try:
        yield
    except AgentError as error:
        run.outcome = error.outcome
    except KeyboardInterrupt:
        run.outcome = InterruptedBySignal("SIGINT").outcome
    except BaseException as bug:
        if obstacle := explain_obstacle(bug):
            run.outcome = obstacle.outcome
            return
        run.outcome = RunOutcome(
            ending=Ending.INTERNAL, message=f"internal error: {type(bug).__name__}"
        )
        _finish(run)
        raise


def _finish(run: RunState) -> Exit:
    """Write the artifacts, show the outcome, and return the exit code."""
    _ignore_first_signal()
    try:
        if run.artifacts is not None:
            run.artifacts.write(run)
    except AgentError as error:
        run.outcome = _merge_outcome(run.outcome, error)
    try:
        for renderer in run.renderers:
            renderer.finish(run.outcome, run.tally)
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


def _check_workspace(workspace: Path, outcome: RunOutcome) -> RunOutcome:
    """Return the outcome: nothing is done in a workspace that is not there any more."""
    if workspace.is_dir():
        return outcome
    gone = SettingsError(
        f"the workspace {workspace} was moved or deleted during the run",
        hint=f"put it back, or see what ran: ls -la {workspace.parent}; agentcli trace",
    )
    return _merge_outcome(outcome, gone)


class _TaskRunner:
    """A running task, and the signals that may stop it."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._session: Session | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interruption: Exception | None = None
        self._is_closing = False

    async def run(self, task: OneShotTask) -> RunOutcome:
        self._task = asyncio.current_task()
        self._handle_signals()
        conversation = self._run.conversation
        session = self._session = open_session(
            task.settings,
            listeners=(
                self._run.tally,
                *([conversation] if conversation else []),
                *(partial(self._notify, renderer) for renderer in self._run.renderers),
            ),
            ask_user=conversation.ask if conversation else None,
            resume=task.resume,
            requirements=task.requirements,
        )
        self._run.log = session.paths.log
        outcome = RunOutcome(ending=Ending.INTERNAL)
        try:
            outcome = await self._run_turn(session, task)
        except AgentError as error:
            outcome = error.outcome
        finally:
            self._is_closing = True
            outcome = await self._collect(session, outcome)
            outcome = _check_workspace(task.settings.workspace, outcome)
            await session.close(outcome.exit_code, outcome=outcome)
        return outcome

    async def _collect(self, session: Session, outcome: RunOutcome) -> RunOutcome:
        """Find what the run changed, and write the files that the user named.

        The log is still open, so a failure can become the outcome.
        """
        artifacts = self._run.artifacts
        since = artifacts.since if artifacts else None
        changes = await collect_changes(self._run.tally, session, since=since)
        self._run.patch = changes.patch
        if artifacts is None:
            return outcome
        try:
            await asyncio.to_thread(artifacts.write_named_files, self._run)
            if changes.fault is not None and artifacts.has_named_patch:
                raise changes.fault
        except AgentError as error:
            return _merge_outcome(outcome, error)
        return outcome

    async def _run_turn(self, session: Session, task: OneShotTask) -> RunOutcome:
        try:
            if self._run.artifacts is not None:
                await self._run.artifacts.begin(session)
            if session.plan_tracker.proposed and session.gate.mode != "plan":
                # The user chose another mode and cannot be asked: that accepts the plan.
                session.accept_plan(session.plan_tracker.proposed, mode=session.gate.mode)
            async with run_heartbeat(self._run.report_alive):
                if self._run.conversation is not None:
                    ended = await self._run.conversation.run(session)
                else:
                    ended = await session.run_turn(task.prompt, attachments=task.attachments)
        except asyncio.CancelledError:
            if self._interruption is None:
                raise
            raise self._interruption from None
        if self._interruption is not None:
            # It came too late to interrupt anything, but it must be reported.
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


# Heartbeat lines


HEARTBEAT_S = 30.0
"""How long nothing is printed before a line says that the run is alive."""


@asynccontextmanager
async def run_heartbeat(
    report_alive: Callable[[float], None] | None, *, every_s: float = HEARTBEAT_S
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


# The renderers and the files of a request, each imported only if it is used


def _build_artifacts(request: RunRequest) -> "Artifacts | None":
    named = (request.patch, request.last_message, request.output_dir, request.reports)
    if not request.on_github and not any(named):
        return None
    from agentcli.ui.oneshot.artifacts import Artifacts

    return Artifacts(request)


def _build_conversation(request: RunRequest, answer: RunRenderer) -> "StreamConversation | None":
    if request.input is not InputFormat.STREAM_JSON:
        return None
    from agentcli.ui.oneshot.jsonl import JsonRenderer
    from agentcli.ui.oneshot.stream_input import StreamConversation

    return StreamConversation(answer.write_line) if isinstance(answer, JsonRenderer) else None


def _build_stdout_renderer(request: RunRequest) -> RunRenderer:
    if request.output is not OutputFormat.TEXT:
        from agentcli.ui.oneshot.jsonl import JsonRenderer

        is_stream = request.output is OutputFormat.STREAM_JSON
        return JsonRenderer(stream=is_stream, partial=request.partial, get_window=_get_window)
    return TextAnswer(
        request.render_answer,
        draw=_render_prose if _may_draw(request) else show_controls,
        guard=_choose_guard(request),
    )


def _choose_guard(request: RunRequest) -> Callable[[str], str]:
    """Return what keeps an answer from being read as commands by the program behind a pipe."""
    if request.on_github:
        from agentcli.ui.oneshot.github_actions import neutralize_commands

        return neutralize_commands
    return break_service_messages if request.is_ci else str


def _build_stderr_renderers(request: RunRequest) -> list[RunRenderer]:
    draws = sys.stderr.isatty() and _may_draw(request) and not (request.quiet or request.verbose)
    if draws and not request.on_github:
        from agentcli.ui.oneshot.pretty import TerminalRenderer

        return [TerminalRenderer(partial(_open_view, 2))]
    if not request.on_github:
        return [ProgressRenderer(StderrSink(bodies=request.verbose), quiet=request.quiet)]
    from agentcli.ui.oneshot.github_actions import Annotations, Workflow

    workflow = Workflow(write_err)
    workflow.open(masked=_list_masked_values(request) if err_is_pipe() else ())
    annotations = Annotations(workflow, request.collect_findings)
    return [ProgressRenderer(workflow, quiet=request.quiet), annotations]


def _list_masked_values(request: RunRequest) -> list[str]:
    """Return the values that the user named secret.

    Only for the runner, which reads us by a pipe.
    """
    return [
        value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in request.settings.get("mask") or ())
    ]


def _may_draw(request: RunRequest) -> bool:
    return not request.is_ci and os.environ.get("TERM", "dumb") != "dumb"


def _get_window(model: str) -> int | None:
    from agentcli.session.model import find_window

    return find_window(model)


def _render_prose(text: str) -> str:
    return _open_view(1).render_prose(text)


def _open_view(descriptor: int) -> "TerminalView":
    from agentcli.ui.oneshot.pretty_view import open_view

    return open_view(descriptor, os.environ)
