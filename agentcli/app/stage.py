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

from agentcli.agent.asking import ModelClient
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Pace, TurnLimits
from agentcli.agent.loop import Loop
from agentcli.agent.toolset import Load, Toolset
from agentcli.app.boundary import PermissionGate
from agentcli.app.model import ModelInUse
from agentcli.app.secrecy import TokenNote
from agentcli.app.workshop import BuiltinTools
from agentcli.record.place import SessionPaths
from agentcli.record.replay.playback import Playback, RecordedJudge, RecordedTool
from agentcli.record.replay.played import RecordedTurn
from agentcli.record.replay.relocate import PathRelocation, RecordedPaths
from agentcli.settings import SandboxChoice, Settings
from agentcli.types.events import Fact, SessionStarted, Undone
from agentcli.types.tools import Tool, ToolSpec
from agentcli.types.verdicts import MODES, Mode
from agentcli.types.wire import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
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


class ReplayRunner:
    def __init__(
        self,
        started: SessionStarted,
        options: ReplayOptions,
        *,
        recorded_paths: RecordedPaths,
        workspace: Path,
        paths: SessionPaths,
    ) -> None:
        """`place` must have its directories."""
        self._relocate = relocate = PathRelocation(
            recorded_paths, workspace=str(workspace), directory=str(paths.directory)
        )
        self._options = options
        self._tools = started.tools
        self._playback = Playback(relocate)
        self._recorded_judge = RecordedJudge(self._playback, relocate)
        self._settings = Settings(
            workspace=workspace,
            mode=_parse_mode(started.mode),
            sandbox=options.sandbox,
            policy=options.policy,
        )
        self._gate = PermissionGate(self._settings, paths, ask_user=None)
        model = ModelInUse(
            provider=self._playback,
            name=started.model,
            price=lambda usage: None,
            images=True,
            patches=True,
        )
        self._builtin_tools = BuiltinTools(
            self._settings, paths, gate=self._gate, model=model, keeps_tokens=True
        )
        self.stubbed: dict[str, str] = {}
        """Tools that answer from the recording, and why."""

    async def play(
        self, turns: Sequence[RecordedTurn], *, undo: Callable[[Undone], None]
    ) -> list[Fact]:
        """What happened this time. `undo`: does what the person did between turns."""
        journal = Journal("replay", record=lambda entry: None, listeners=[self._playback])
        loop = self._build_loop(journal)
        try:
            for turn in turns:
                self._playback.begin(turn)
                for undone in turn.undone:
                    undo(undone)
                for told in self._relocate.relocate_notes(turn.notes):
                    journal.append(told)
                with _absorb_interruption():
                    await loop.run_turn(turn.message)
        finally:
            await self._builtin_tools.close()
            self._gate.close()
        return journal.facts

    def _build_loop(self, journal: Journal) -> Loop:
        breaker, toolset = Breaker(), Toolset(self._iter_offers(journal))
        dispatcher = Dispatcher(
            toolset=toolset,
            judge=self._gate.judge if self._options.judges_anew else self._recorded_judge,
            emit=journal.append,
            workspace=self._settings.workspace,
            breaker=breaker,
            pace=Pace(TurnLimits().calls_per_minute),
            clean=self._gate.secret_masking.clean,
            explain=TokenNote(journal.facts),
        )
        asking = ModelClient(
            provider=self._playback,
            template=Request(model="recording", system="", messages=(), tools=toolset.specs),
            journal=journal,
            price=lambda usage: None,
        )
        return Loop(
            model_client=asking,
            journal=journal,
            dispatcher=dispatcher,
            breaker=breaker,
            limits=TurnLimits(steps=None),
            collect_notes=self._playback.collect_notes,
            find_unfinished=self._playback.collect_unfinished,
        )

    def _iter_offers(self, journal: Journal) -> Iterator[tuple[ToolSpec, Load]]:
        """The tools the recorded model had, real where they can be."""
        offers = self._builtin_tools.iter_offers(lambda: journal.facts)
        real = {spec.name: (spec, load) for spec, load in offers}
        for name in self._tools:
            why = self._explain_stub(name, has_real=name in real)
            if why:
                self.stubbed[name] = why
                spec = ToolSpec(name=name, description="", schema={"type": "object"})
                yield spec, partial(RecordedTool, spec, self._playback)
            else:
                spec, load = real[name]
                yield spec, partial(self._build_recorded_tool, spec, load)

    def _build_recorded_tool(self, spec: ToolSpec, load: Load) -> Tool:
        return RecordedTool(spec, self._playback, load())

    def _explain_stub(self, name: str, *, has_real: bool) -> str:
        if self._options.stub_tools:
            return "its result is the recorded one"
        if not has_real:
            return "there is no such tool here"
        if name == "bash" and self._options.sandbox != "off" and self._gate.sandbox is None:
            return "no sandbox works here, and a recording's commands are not run without one"
        return ""


@contextmanager
def _absorb_interruption() -> Iterator[None]:
    """A turn that was interrupted in the recording interrupts itself again."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # somebody wants this replay to stop


def _parse_mode(recorded: str) -> Mode:
    return next((mode for mode in MODES if mode == recorded), "ask")
