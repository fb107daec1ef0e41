"""A session played again without its model, and held against what was recorded.

It happens in a scratch copy of the tree the session began with: nothing of the person's is touched.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from agentcli.app.stage import ReplayOptions, ReplayRunner
from agentcli.record.checkpoint.keep import find_store
from agentcli.record.place import SessionPaths
from agentcli.record.reading import read_log
from agentcli.record.rebuild import rebuild_at, repeat_undo
from agentcli.record.replay.flow import describe_flow
from agentcli.record.replay.likeness import Normal, build_normalizer, diff_lines, diff_results
from agentcli.record.replay.played import RecordedCall, RecordedTurn, split_turns
from agentcli.record.replay.relocate import RecordedPaths, find_paths
from agentcli.types.errors import SettingsError
from agentcli.types.events import CallFinished, CallJudged, Fact, SessionStarted, Undone
from agentcli.types.tools import ToolResult

Sameness = Literal["same", "differs", "not re-runnable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCall:
    call_id: str
    name: str
    sameness: Sameness
    explanation: str = ""
    """The difference as a diff, or why it was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    calls: tuple[ComparedCall, ...]
    flow: str
    """How the course differs, as a diff; empty: it is the same."""
    tree: str
    """Which tree it began with, in words."""

    @property
    def is_same(self) -> bool:
        return not self.flow and all(one.sameness != "differs" for one in self.calls)


def replay_session(paths: SessionPaths, options: ReplayOptions) -> ReplayResult:
    """Raises SettingsError where the log or its tree cannot be had."""
    entries = read_log(paths.log).entries
    started = entries[0].fact if entries else None
    if not isinstance(started, SessionStarted):
        raise SettingsError(f"{paths.log} holds no session", hint="agentcli sessions list --all")
    with tempfile.TemporaryDirectory(prefix="agentcli-replay-", ignore_cleanup_errors=True) as made:
        scratch = Path(made).resolve()
        here = SessionPaths(id=scratch.name, directory=scratch / "sessions" / scratch.name)
        here.out.mkdir(parents=True)
        workspace = scratch / "workspace"
        workspace.mkdir()
        tree = rebuild_at(paths, entries, 0, into=workspace, base=options.base)
        recorded = [entry.fact for entry in entries]
        places, turns = find_paths(recorded), split_turns(entries)
        known = replace(
            started, tools=tuple(dict.fromkeys((*started.tools, *_iter_called_tools(recorded))))
        )
        stage = ReplayRunner(known, options, recorded_paths=places, workspace=workspace, paths=here)
        store = find_store(Path(started.workspace), paths.directory.parent)
        # Another machine's recording comes without the states that an undo went back to.
        undo = (
            partial(repeat_undo, store=store, root=workspace)
            if store.directory.is_dir()
            else _skip_undo
        )
        again = asyncio.run(stage.play(turns, undo=undo))
        then = build_normalizer(places)
        now = build_normalizer(RecordedPaths(workspaces=(str(workspace),), sessions=(here.id,)))
        cut = {number for number, turn in enumerate(turns, start=1) if turn.was_cut}
        return ReplayResult(
            calls=tuple(_compare_calls(turns, again, stubbed=stage.stubbed, then=then, now=now)),
            flow=diff_lines(describe_flow(recorded, then, cut), describe_flow(again, now, cut)),
            tree=tree,
        )


def _skip_undo(undone: Undone) -> None:
    """What follows will show it."""


def _iter_called_tools(recorded: Sequence[Fact]) -> Iterator[str]:
    """Tools that there were: a server may have told of its own only after the start."""
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
        sameness, words = _classify_call(played, result, stubbed.get(played.call.name, ""))
        if not words and result is not None:
            words = diff_results(played.finished, result, then, now)
            sameness = "differs" if words else "same"
        yield ComparedCall(
            call_id=played.call.id, name=played.call.name, sameness=sameness, explanation=words
        )


def _classify_call(
    played: RecordedCall, again: ToolResult | None, stubbed: str
) -> tuple[Sameness, str]:
    """What can be said without looking at the result; no words: it has to be looked at."""
    if again is None:
        return "differs", "it was not made again"
    return "not re-runnable", played.why_not_again or stubbed


def _take_result(results: list[ToolResult], played: RecordedCall) -> ToolResult | None:
    """The first result of that call that was not taken yet: ids come again."""
    for result in results:
        if result.call_id == played.call.id:
            results.remove(result)
            return result
    return None
