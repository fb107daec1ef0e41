"""One prompt, one run, one exit code: opens a session, tells a face, never waits for a person."""

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import Protocol

from agentcli.app.session import open_session
from agentcli.settings import Settings
from agentcli.types.errors import EXIT_OF_ENDING, AgentError, Exit, UsageError
from agentcli.types.events import Event


class Face(Protocol):
    """Shows a run while it happens, and has the last word."""

    def __call__(self, event: Event) -> None: ...

    def finish(self, error: AgentError | None) -> Exit:
        """Called exactly once, after the last event, however the run ended."""
        ...


class Interrupted(AgentError):
    """A signal ended the run; what was done until then is recorded."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"interrupted by {number.name}")
        self.exit_code = Exit(128 + number)


class Crashed(AgentError):
    """A bug of ours. The face says its last word, then the bug travels on."""


def read_prompt(given: str) -> str:
    """The prompt itself, or what stdin holds for `-`. Raises UsageError when there is nothing."""
    text = given if given != "-" else _stdin()
    if not text.strip():
        raise UsageError("the prompt is empty", hint="agentcli run 'fix the failing test'")
    return text


def _stdin() -> str:
    try:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError(
                "- reads the prompt from stdin, and nothing is piped into it",
                hint="echo 'fix the failing test' | agentcli run -",
            )
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"cannot read stdin: {error.strerror}", hint="pipe the prompt in"
        ) from error


def run_once(settings: Settings, prompt: str, face: Face) -> Exit:
    try:
        asyncio.run(_run(settings, prompt, face))
    except AgentError as error:
        return face.finish(error)
    except BaseException as bug:
        face.finish(Crashed(f"internal error: {type(bug).__name__}"))
        raise
    return face.finish(None)


async def _run(settings: Settings, prompt: str, face: Face) -> None:
    task = asyncio.current_task()
    assert task is not None
    caught: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        caught.append(number)
        task.cancel()

    _on_signals(stop)
    session = open_session(settings, listeners=(face,))
    code = Exit.INTERNAL
    try:
        ended = await session.turn(prompt)
        code = EXIT_OF_ENDING[ended.ending]
    except asyncio.CancelledError:
        if not caught:
            raise
        code = Exit(128 + caught[0])
        raise Interrupted(caught[0]) from None
    except AgentError as error:
        code = error.exit_code
        raise
    finally:
        await session.close(code)


def _on_signals(act: Callable[[signal.Signals], None]) -> None:
    if sys.platform == "win32":
        return  # there is only the keyboard, and asyncio.run listens to it
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, act, number)
