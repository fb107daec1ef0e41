"""Replay of a session without its model, compared with what was recorded.

It runs in a scratch copy of the tree the session began with: no file of the user is touched.
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from agentcli.agent.completion import ANSWER_TOOL
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Pace, TurnLimits
from agentcli.agent.loop import Loop
from agentcli.agent.model_client import ModelClient
from agentcli.agent.toolset import Load, Offer, Toolset
from agentcli.features.replay.compare import (
    Normal,
    build_normalizer,
    describe_flow,
    diff_lines,
    diff_results,
)
from agentcli.features.replay.playback import (
    Playback,
    RecordedCompletion,
    RecordedJudge,
    RecordedTool,
    Repeat,
)
from agentcli.features.replay.recording import (
    PathRelocation,
    RecordedCall,
    RecordedPaths,
    RecordedTurn,
    find_paths,
    split_turns,
)
from agentcli.log.paths import SessionPaths
from agentcli.log.reader import read_log
from agentcli.log.rebuild import find_session_store, rebuild_at, repeat_undo
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.configuration import load_configuration
from agentcli.session.model import ModelInUse
from agentcli.session.permission_gate import PermissionGate
from agentcli.session.sandbox_host import SandboxHost
from agentcli.session.secrets import TokenNote, build_redactor
from agentcli.types.checks import AnswerChecked
from agentcli.types.computer import COMPUTER
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    Event,
    Fact,
    SessionStarted,
    Undone,
)
from agentcli.types.provider import Request
from agentcli.types.settings import SandboxChoice, Settings
from agentcli.types.tools import Tool, ToolResult, ToolSpec
from agentcli.types.verdicts import MODES, Mode

# Running a recording: the real loop, the real judge and real tools, and no model.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of a replay."""

    stub_tools: bool = False
    """True if results come from the recording, too, so that only the control flow is replayed."""
    judged_by: Literal["recorded", "current"] = "recorded"
    policy: Path | None = None
    """A file of rules to judge by, instead of the recorded verdicts."""
    sandbox: SandboxChoice = "auto"
    base: Path | None = None
    """The tree to begin with, if the recording has none."""

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
        has_form: bool = False,
    ) -> None:
        """The directories of `paths` must exist. `has_form` is true if a schema was given."""
        self._relocate = relocate = PathRelocation(
            recorded_paths, workspace=str(workspace), directory=str(paths.directory)
        )
        self._options = options
        self._has_form = has_form
        self._tools = started.tools
        self._playback = Playback(relocate)
        self._recorded_judge = RecordedJudge(self._playback, relocate)
        configuration = load_configuration(
            Settings(
                workspace=workspace,
                mode=_parse_mode(started.mode),
                sandbox=options.sandbox,
                policy=options.policy,
            ),
            uses_project=False,
        )
        self._settings = configuration.settings
        self._gate = PermissionGate(
            configuration,
            SandboxHost(configuration, paths, emit=_ignore_event),
            redactor=build_redactor(self._settings),
        )
        self._model = ModelInUse(
            provider=self._playback,
            name=started.model,
            price=lambda usage: None,
            images=True,
            patches=True,
        )
        self._builtin_tools = BuiltinTools(
            self._settings,
            gate=self._gate,
            model=lambda: self._model,
            emit=_ignore_event,
            keeps_tokens=True,
        )
        self.stubbed: dict[str, str] = {}
        """The tools that answer from the recording, and why."""

    async def play(self, turns: Sequence[RecordedTurn], *, repeat: Repeat) -> list[Fact]:
        """Return the facts of this run. `repeat` repeats what the user undid between turns, and
        the merges of patches."""
        journal = Journal("replay", record=lambda entry: None, listeners=[self._playback])
        loop = self._build_loop(journal)
        try:
            for turn in turns:
                self._playback.begin(turn, repeat=repeat)
                for rewound in turn.rewound:
                    journal.append(rewound)
                for note in self._relocate.relocate_notes(turn.notes):
                    journal.append(note)
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
            pace=Pace(),
            clean=self._gate.redactor.mask,
            explain=TokenNote(journal.facts),
        )
        model_client = ModelClient(
            model=lambda: self._model,
            template=Request(model="", system="", messages=(), tools=toolset.specs),
            journal=journal,
        )
        return Loop(
            model_client=model_client,
            journal=journal,
            dispatcher=dispatcher,
            breaker=breaker,
            limits=TurnLimits(steps=None),
            collect_notes=self._playback.collect_notes,
            find_unfinished=self._playback.collect_unfinished,
            completion_checks=RecordedCompletion(journal, self._playback, has_form=self._has_form),
        )

    def _iter_offers(self, journal: Journal) -> Iterator[Offer]:
        """Yield the tools the recorded model had, real if possible."""
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
        return RecordedTool(spec, self._playback, real=load())

    def _explain_stub(self, name: str, *, has_real: bool) -> str:
        if self._options.stub_tools:
            return "its recorded result is used"
        if name == ANSWER_TOOL:
            return "its recorded result is used: the schema was an option of that run"
        if name in ("web_fetch", "web_search", COMPUTER):
            return "its recorded result is used: the web may have changed"
        if not has_real:
            return "no such tool here"
        if name == "bash" and self._options.sandbox != "off" and self._gate.host.sandbox is None:
            return "no sandbox works here, and recorded commands need one"
        return ""


def _ignore_event(event: Event) -> None:
    """Drop an event: only those of the journal are compared."""


@contextmanager
def _absorb_interruption() -> Iterator[None]:
    """Absorb the interruption of a turn that was interrupted in the recording, too."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # this replay itself is being stopped


def _parse_mode(recorded: str) -> Mode:
    return next((mode for mode in MODES if mode == recorded), "ask")


Sameness = Literal["same", "differs", "not re-runnable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCall:
    call_id: str
    name: str
    sameness: Sameness
    words: str = ""
    """The difference as a diff, or why it was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    calls: tuple[ComparedCall, ...]
    flow: str
    """The difference of the flow as a diff; empty if it is the same."""
    tree: str
    """A description of the tree it began with."""

    @property
    def is_same(self) -> bool:
        return not self.flow and all(one.sameness != "differs" for one in self.calls)


def replay_session(paths: SessionPaths, options: ReplayOptions) -> ReplayResult:
    """Replay a session. Raise SettingsError if its log or its tree is not available."""
    entries = read_log(paths.log).entries
    started = entries[0].fact if entries else None
    if not isinstance(started, SessionStarted):
        raise SettingsError(f"{paths.log} holds no session", hint="agentcli sessions list --all")
    with tempfile.TemporaryDirectory(prefix="agentcli-replay-", ignore_cleanup_errors=True) as made:
        scratch = Path(os.path.realpath(made))
        here = SessionPaths(id=scratch.name, directory=scratch / "sessions" / scratch.name)
        here.out.mkdir(parents=True)
        workspace = scratch / "workspace"
        workspace.mkdir()
        try:
            tree = rebuild_at(paths, entries, seq=0, into=workspace, base=options.base)
        except SettingsError as error:
            raise SettingsError(str(error), hint="use a copy of the files: --base DIR") from error
        recorded = [entry.fact for entry in entries]
        places, turns = find_paths(recorded), split_turns(entries)
        known = replace(
            started, tools=tuple(dict.fromkeys((*started.tools, *_iter_called_tools(recorded))))
        )
        stage = ReplayRunner(
            known,
            options,
            recorded_paths=places,
            workspace=workspace,
            paths=here,
            has_form=any(isinstance(fact, AnswerChecked) for fact in recorded),
        )
        _add_other_outputs(paths.out, here.out, turns=turns)
        store = find_session_store(paths, entries)
        # A recording from another machine comes without the states that an undo restored.
        repeat = (
            partial(repeat_undo, store=store, root=workspace) if store.has_objects else _skip_undo
        )
        again = asyncio.run(stage.play(turns, repeat=repeat))
        then = build_normalizer(places)
        # Recorded verdicts and files may name the recorded paths, too.
        now = build_normalizer(
            RecordedPaths(
                workspaces=(str(workspace), *places.workspaces),
                sessions=(here.id, *places.sessions),
            )
        )
        cut = {number for number, turn in enumerate(turns, start=1) if turn.was_cut}
        return ReplayResult(
            calls=tuple(_compare_calls(turns, again, stubbed=stage.stubbed, then=then, now=now)),
            flow=diff_lines(
                describe_flow(recorded, then, cut_turns=cut),
                describe_flow(again, now, cut_turns=cut),
            ),
            tree=tree,
        )


def _add_other_outputs(recorded: Path, here: Path, *, turns: Sequence[RecordedTurn]) -> None:
    """Add the outputs that no call writes again, such as those of checks and of killed calls.

    Commands number their output by what is there, and the model may have read any of it.
    """
    calls = [call for turn in turns for reply in turn.replies for call in reply.calls]
    logs = {name: call for call in calls if (name := call.output_name)}
    written_again = {name for name, call in logs.items() if not call.why_not_again}
    numbers = [int(name[:-4]) for name in logs if re.fullmatch(r"[0-9]{1,4}\.log", name)]
    for number in range(1, max(numbers, default=0)):
        if f"{number}.log" not in written_again:
            (here / f"{number}.log").touch()
    for path in recorded.iterdir() if recorded.is_dir() else ():
        if path.name not in written_again and path.is_file() and not path.is_symlink():
            shutil.copyfile(path, here / path.name)


def _skip_undo(undone: Undone | Checkpointed) -> None:
    """Do nothing: the comparison of the calls that follow will show the difference."""


def _iter_called_tools(recorded: Sequence[Fact]) -> Iterator[str]:
    """Yield the tools that were called.

    A server may have announced its own only after the start.
    """
    return (fact.call.name for fact in recorded if isinstance(fact, CallJudged))


def _compare_calls(
    turns: Sequence[RecordedTurn],
    again: Sequence[Fact],
    *,
    stubbed: dict[str, str],
    then: Normal,
    now: Normal,
) -> Iterator[ComparedCall]:
    results = [fact.result for fact in again if isinstance(fact, CallFinished)]
    for played in (call for turn in turns for reply in turn.replies for call in reply.calls):
        if played.finished is None:
            continue
        result = _take_result(results, played)
        sameness, words = _classify_call(played, result, stubbed=stubbed.get(played.call.name, ""))
        if not words and result is not None:
            words = diff_results(played.finished, result, then=then, now=now)
            sameness = "differs" if words else "same"
            if words and played.was_on_terminal and result.status == played.finished.status:
                sameness, words = "not re-runnable", "what a terminal shows depends on the time"
        yield ComparedCall(
            call_id=played.call.id, name=played.call.name, sameness=sameness, words=words
        )


def _classify_call(
    played: RecordedCall, again: ToolResult | None, *, stubbed: str
) -> tuple[Sameness, str]:
    """Return what is known without comparing the results.

    If the explanation is empty, they have to be compared.
    """
    if again is None and not (played.was_interrupted and played.judged is None):
        return "differs", "it was not called again"
    return "not re-runnable", played.why_not_again or stubbed


def _take_result(results: list[ToolResult], played: RecordedCall) -> ToolResult | None:
    """Remove and return the first result of that call that is left. Ids may repeat."""
    for result in results:
        if result.call_id == played.call.id:
            results.remove(result)
            return result
    return None
