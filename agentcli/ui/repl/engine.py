"""The session behind the screen: loaded while the person types, renewed when they ask for it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.settings import Settings
from agentcli.types.deltas import CommandEnded
from agentcli.types.errors import AgentError, Exit
from agentcli.types.events import CallFinished, Event, ModelReplied, Undone
from agentcli.types.messages import ToolCall
from agentcli.types.record import dataclass
from agentcli.types.tools import Diff, ToolResult
from agentcli.types.verdicts import Asker, Mode, Question
from agentcli.ui.repl.approval import EDITABLE, Offer
from agentcli.ui.repl.background import Answer
from agentcli.ui.repl.branch import Branch
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.succession import succeed
from agentcli.ui.repl.terminal import Terminal

if TYPE_CHECKING:
    from agentcli.app.session import Session
    from agentcli.record.place import SessionPlace
    from agentcli.ui.repl.commands.registry import Registry
    from agentcli.ui.repl.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What is loaded while the person types."""

    open_session: "Callable[..., Session]"
    make_stage: "Callable[..., Stage]"
    make_registry: "Callable[[Settings], Registry]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a session begins."""

    model: str
    """As far as it is known before anything is loaded."""
    branch: Branch
    answer: Answer
    color: str = "auto"
    resume: "SessionPlace | None" = None


class Engine:
    """`session`, `stage` and `registry` are None until they are there."""

    def __init__(
        self,
        settings: Settings,
        opening: Opening,
        *,
        load: Callable[[], Late],
        terminal: Terminal,
        status: Status,
        asker: Asker,
        begun: Callable[[], None],
        notice: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """`begun`: called when it is ready, and when it could not be made so. `notice`: says
        something for a moment. `changed`: files of the workspace are other than before."""
        self._settings = settings
        self._opening = opening
        self._load = load
        self._terminal = terminal
        self._status = status
        self._asker = asker
        self._begun = begun
        self._notice = notice
        self._changed = changed
        self._ready: asyncio.Task[None] | None = None
        self._late: Late | None = None
        self._calls: list[ToolCall] = []
        self.mode: Mode = settings.mode
        self.session: Session | None = None
        self.stage: Stage | None = None
        self.registry: Registry | None = None

    def begin(self) -> None:
        self._ready = asyncio.ensure_future(self._make_ready())
        self._ready.add_done_callback(self._done)

    async def opened(self) -> "tuple[Session, Stage]":
        """Raises AgentError, which has been said, where the session cannot be had."""
        assert self._ready is not None
        if self._ready.done() and self._ready.exception() is not None:
            self.begin()
        await asyncio.shield(self._ready)
        assert self.session is not None
        assert self.stage is not None
        return self.session, self.stage

    async def loaded(self) -> "Registry":
        """The commands, which are there also where the session cannot be had."""
        assert self._ready is not None
        if self.registry is None:
            await asyncio.wait([self._ready])
        assert self.registry is not None
        return self.registry

    def set_mode(self, mode: Mode) -> None:
        self.mode = mode
        if self.session is not None:
            self.session.set_mode(mode)

    async def renew(self, settings: Settings, *, resume: "SessionPlace | None") -> None:
        """Another session. Raises AgentError where it cannot be had, and then stays."""
        before, stage = await self.opened()
        assert self._late is not None
        self._settings = settings
        self.session = self._open(self._late, stage, resume=resume)
        await succeed(self.session, before=before, story=stage.story)
        self._begun()

    async def close(self, exit_code: Exit) -> None:
        if self._ready is not None:
            await asyncio.wait([self._ready])
        if self.session is not None:
            await self.session.close(exit_code)

    def in_background(self) -> int:
        """How many commands go on without anybody waiting for them."""
        return len(self.session.in_background()) if self.session else 0

    def offer(self, question: Question) -> Offer:
        assert self.session is not None
        found = self.session.suggest(question.call)
        given = self.session.input_of(question.call)
        return Offer(
            rules=found.rules,
            session=found.session,
            reason=found.reason,
            uncovered=found.uncovered,
            editable=isinstance(given, dict) and any(name in given for name in EDITABLE),
        )

    def position(self, question: Question) -> tuple[int, int]:
        """Which of how many calls of the last reply; others ask one by one."""
        ids = [call.id for call in self._calls]
        asked = question.call.id
        return (ids.index(asked) + 1, len(ids)) if asked in ids else (1, 1)

    async def _make_ready(self) -> None:
        self._late = late = await asyncio.to_thread(self._load)
        self.stage = self.stage or late.make_stage(
            self._settings,
            background=self._opening.answer.colour,
            color=self._opening.color,
            commit=self._terminal.commit,
            size=lambda: (self._terminal.size.columns, self._terminal.size.rows),
            status=self._status,
        )
        resume, self._opening = self._opening.resume, replace(self._opening, resume=None)
        try:
            self.session = self._open(late, self.stage, resume=resume)
        except AgentError as error:
            self.stage.story.error(str(error), error.hint)
            raise
        if resume is not None:
            self.stage.story.recall(self.session.facts)
        if self.mode != self.session.mode:
            self.session.set_mode(self.mode)

    def _open(self, late: Late, stage: "Stage", *, resume: "SessionPlace | None") -> "Session":
        """With the commands as they are now, which are there also where no session can be had."""
        self.registry = late.make_registry(self._settings)
        session = late.open_session(
            self._settings,
            listeners=(self._hear, stage.story),
            asker=self._asker,
            resume=resume,
        )
        for problem in self.registry.problems:
            stage.story.say(stage.ink(f"warning: {problem}", "warning"))
        return session

    def _done(self, ready: "asyncio.Task[None]") -> None:
        """What the person can act on was said; anything else is a bug, and ends the session."""
        error = None if ready.cancelled() else ready.exception()
        if error is not None and not isinstance(error, AgentError):
            self._terminal.leave(error)
        self._begun()

    def _hear(self, event: Event) -> None:
        match event:
            case ModelReplied(message=message):
                self._calls = list(message.tool_calls)
            case Undone() | CallFinished(result=ToolResult(status="ok", details=Diff())):
                self._changed()
            case CommandEnded(pid=pid, how=how):
                self._notice(f"background pid {pid} has ended: {how}")
            case _:
                pass
        self._terminal.redraw()
