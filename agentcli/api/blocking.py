"""Sessions for programs without an event loop: each method waits until its work is done.

The work is done by an `AsyncSession`, in an event loop in a thread of its own.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from agentcli.api.sessions import (
    Approve,
    AsyncSession,
    SessionOptions,
    TurnResult,
    require_text,
)
from agentcli.api.tools import FunctionTool
from agentcli.types.errors import UsageError
from agentcli.types.events import Event, Fact
from agentcli.types.messages import Json
from agentcli.types.spending import Spending

T = TypeVar("T")


class Session:
    """A session without `async`. What its arguments and methods mean is said in `AsyncSession`."""

    def __init__(
        self,
        workspace: str | Path | None = None,
        *,
        tools: Sequence[FunctionTool] = (),
        approve: Approve | None = None,
        resume: str | None = None,
        verify: Sequence[str] = (),
        answer_schema: Json = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self._session = AsyncSession(
            workspace,
            tools=tools,
            approve=approve,
            resume=resume,
            verify=verify,
            answer_schema=answer_schema,
            **options,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Session":
        """Open the session. Raise AgentError if that is not possible."""
        if self._loop is not None:
            raise UsageError("the session is open already", hint="make another Session(...)")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_run_loop, args=[self._loop], name="agentcli", daemon=True
        )
        self._thread.start()
        try:
            self._wait(self._session.__aenter__())
        except BaseException:
            self._stop_loop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything that the session started, and close its log."""
        if self._loop is not None:
            try:
                self._wait(self._session.close())
            finally:
                self._stop_loop()

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def log(self) -> Path:
        return self._session.log

    @property
    def facts(self) -> Sequence[Fact]:
        return self._session.facts

    @property
    def spending(self) -> Spending:
        return self._session.spending

    @property
    def result(self) -> TurnResult | None:
        return self._session.result

    def run(self, prompt: str, *, images: Sequence[str | Path] = ()) -> TurnResult:
        """Run a turn. However the model's work ends, that is the result. Ctrl-C stops it."""
        return self._wait(self._session.run(prompt, images=images))

    def stream(self, prompt: str, *, images: Sequence[str | Path] = ()) -> Iterator[Event]:
        """Run a turn and yield its events. Leaving early stops the turn."""
        events = self._session.stream(prompt, images=images)
        try:
            while (event := self._wait(_read_next(events))) is not None:
                yield event
        finally:
            if self._loop is not None:
                self._wait(events.aclose())

    def steer(self, text: str) -> None:
        """Send a message to the running turn. May be called from any thread."""
        require_text(text)
        self._get_loop().call_soon_threadsafe(self._session.steer, text)

    def interrupt(self) -> None:
        """Stop the running turn. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._session.interrupt)

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise UsageError("the session is not open", hint="with Session(...) as session:")
        return self._loop

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work in the session's thread. If the wait is interrupted, stop the work."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._get_loop())
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then close it: here, since the program may have its own."""
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def _read_next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)
