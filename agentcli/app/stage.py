"""A stage for a recording: the real loop, the real judge and real tools, and no model.

Commands run confined or not at all, since a recording may be anybody's.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from agentcli.agent.asking import Asking
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Limits, Pace
from agentcli.agent.loop import Loop
from agentcli.agent.toolset import Load, Toolset
from agentcli.app.boundary import Boundary
from agentcli.app.model import ModelInUse
from agentcli.app.secrecy import TokenNote
from agentcli.app.workshop import Workshop
from agentcli.record.place import SessionPlace
from agentcli.record.replay.playback import Playback, RecordedJudge, RecordedTool
from agentcli.record.replay.played import PlayedTurn
from agentcli.record.replay.relocate import Places, Relocate
from agentcli.settings import SandboxChoice, Settings
from agentcli.types.events import Fact, SessionStarted, Undone
from agentcli.types.tools import Tool, ToolSpec
from agentcli.types.verdicts import MODES, Mode
from agentcli.types.wire import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a recording is played."""

    stub_tools: bool = False
    """Results come from the recording, too: the control flow alone is played."""
    judged_by: Literal["recorded", "current"] = "recorded"
    policy: Path | None = None
    """Rules to judge by, instead of the recorded verdicts."""
    sandbox: SandboxChoice = "auto"
    base: Path | None = None
    """The tree to begin with, where the recording has none."""

    @property
    def judges_anew(self) -> bool:
        return self.judged_by == "current" or self.policy is not None


class Stage:
    def __init__(
        self,
        started: SessionStarted,
        manner: Manner,
        *,
        recorded: Places,
        workspace: Path,
        place: SessionPlace,
    ) -> None:
        """`place` must have its directories."""
        self._relocate = relocate = Relocate(
            recorded, workspace=str(workspace), directory=str(place.directory)
        )
        self._manner = manner
        self._tools = started.tools
        self._playback = Playback(relocate)
        self._recorded_judge = RecordedJudge(self._playback, relocate)
        self._settings = Settings(
            workspace=workspace,
            mode=_mode(started.mode),
            sandbox=manner.sandbox,
            policy=manner.policy,
        )
        self._boundary = Boundary(self._settings, place, asker=None)
        model = ModelInUse(
            wire=self._playback,
            name=started.model,
            price=lambda usage: None,
            images=True,
            patches=True,
        )
        self._workshop = Workshop(
            self._settings, place, boundary=self._boundary, model=model, keeps_tokens=True
        )
        self.stubbed: dict[str, str] = {}
        """Tools that answer from the recording, and why."""

    async def play(
        self, turns: Sequence[PlayedTurn], *, undo: Callable[[Undone], None]
    ) -> list[Fact]:
        """What happened this time. `undo`: does what the person did between turns."""
        journal = Journal("replay", record=lambda entry: None, listeners=[self._playback])
        loop = self._loop(journal)
        try:
            for turn in turns:
                self._playback.begin(turn)
                for undone in turn.undone:
                    undo(undone)
                for told in self._relocate.told(turn.told):
                    journal.tell(told)
                with _interruption():
                    await loop.turn(turn.message)
        finally:
            await self._workshop.close()
            self._boundary.close()
        return journal.facts

    def _loop(self, journal: Journal) -> Loop:
        breaker, toolset = Breaker(), Toolset(self._offers(journal))
        dispatcher = Dispatcher(
            toolset=toolset,
            judge=self._boundary.judge if self._manner.judges_anew else self._recorded_judge,
            tell=journal.tell,
            workspace=self._settings.workspace,
            breaker=breaker,
            pace=Pace(Limits().calls_per_minute),
            clean=self._boundary.secrecy.clean,
            explain=TokenNote(journal.facts),
        )
        asking = Asking(
            wire=self._playback,
            template=Request(model="recording", system="", messages=(), tools=toolset.specs),
            journal=journal,
            price=lambda usage: None,
        )
        return Loop(
            asking=asking,
            journal=journal,
            dispatcher=dispatcher,
            breaker=breaker,
            limits=Limits(steps=None),
            notices=self._playback.notices,
            unfinished=self._playback.unfinished,
        )

    def _offers(self, journal: Journal) -> Iterator[tuple[ToolSpec, Load]]:
        """The tools the recorded model had, real where they can be."""
        offers = self._workshop.offers(lambda: journal.facts)
        real = {spec.name: (spec, load) for spec, load in offers}
        for name in self._tools:
            why = self._why_stubbed(name, has_real=name in real)
            if why:
                self.stubbed[name] = why
                spec = ToolSpec(name=name, description="", schema={"type": "object"})
                yield spec, partial(RecordedTool, spec, self._playback)
            else:
                spec, load = real[name]
                yield spec, partial(self._watched, spec, load)

    def _watched(self, spec: ToolSpec, load: Load) -> Tool:
        return RecordedTool(spec, self._playback, load())

    def _why_stubbed(self, name: str, *, has_real: bool) -> str:
        if self._manner.stub_tools:
            return "its result is the recorded one"
        if not has_real:
            return "there is no such tool here"
        if name == "bash" and self._manner.sandbox != "off" and self._boundary.sandbox is None:
            return "no sandbox works here, and a recording's commands are not run without one"
        return ""


@contextmanager
def _interruption() -> Iterator[None]:
    """A turn that was interrupted in the recording interrupts itself again."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # somebody wants this replay to stop


def _mode(recorded: str) -> Mode:
    return next((mode for mode in MODES if mode == recorded), "ask")
