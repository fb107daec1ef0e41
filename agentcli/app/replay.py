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

from agentcli.app.stage import Manner, Stage
from agentcli.record.checkpoint.keep import store_of
from agentcli.record.place import SessionPlace
from agentcli.record.reading import read
from agentcli.record.rebuild import lay_out_at, undo_again
from agentcli.record.replay.flow import flow
from agentcli.record.replay.likeness import Normal, diff_of, difference, normal_for
from agentcli.record.replay.played import PlayedCall, PlayedTurn, turns_of
from agentcli.record.replay.relocate import Places, places_of
from agentcli.types.errors import SettingsError
from agentcli.types.events import CallFinished, CallJudged, Fact, SessionStarted, Undone
from agentcli.types.tools import ToolResult

Sameness = Literal["same", "differs", "not re-runnable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCall:
    call_id: str
    name: str
    sameness: Sameness
    words: str = ""
    """The difference as a diff, or why it was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    calls: tuple[ComparedCall, ...]
    flow: str
    """How the course differs, as a diff; empty: it is the same."""
    tree: str
    """Which tree it began with, in words."""

    @property
    def is_same(self) -> bool:
        return not self.flow and all(one.sameness != "differs" for one in self.calls)


def replay(place: SessionPlace, manner: Manner) -> Replayed:
    """Raises SettingsError where the log or its tree cannot be had."""
    entries = read(place.log).entries
    started = entries[0].fact if entries else None
    if not isinstance(started, SessionStarted):
        raise SettingsError(f"{place.log} holds no session", hint="agentcli sessions list --all")
    with tempfile.TemporaryDirectory(prefix="agentcli-replay-", ignore_cleanup_errors=True) as made:
        scratch = Path(made).resolve()
        here = SessionPlace(id=scratch.name, directory=scratch / "sessions" / scratch.name)
        here.out.mkdir(parents=True)
        workspace = scratch / "workspace"
        workspace.mkdir()
        tree = lay_out_at(place, entries, 0, into=workspace, base=manner.base)
        recorded = [entry.fact for entry in entries]
        places, turns = places_of(recorded), turns_of(entries)
        known = replace(started, tools=tuple(dict.fromkeys((*started.tools, *_called(recorded)))))
        stage = Stage(known, manner, recorded=places, workspace=workspace, place=here)
        store = store_of(Path(started.workspace), place.directory.parent)
        # Another machine's recording comes without the states that an undo went back to.
        undo = (
            partial(undo_again, store=store, root=workspace)
            if store.directory.is_dir()
            else _leave_it
        )
        again = asyncio.run(stage.play(turns, undo=undo))
        then = normal_for(places)
        now = normal_for(Places(workspaces=(str(workspace),), sessions=(here.id,)))
        cut = {number for number, turn in enumerate(turns, start=1) if turn.was_cut}
        return Replayed(
            calls=tuple(_compared(turns, again, stubbed=stage.stubbed, then=then, now=now)),
            flow=diff_of(flow(recorded, then, cut), flow(again, now, cut)),
            tree=tree,
        )


def _leave_it(undone: Undone) -> None:
    """What follows will show it."""


def _called(recorded: Sequence[Fact]) -> Iterator[str]:
    """Tools that there were: a server may have told of its own only after the start."""
    return (fact.call.name for fact in recorded if isinstance(fact, CallJudged))


def _compared(
    turns: Sequence[PlayedTurn],
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
        result = _taken(results, played)
        sameness, words = _sameness(played, result, stubbed.get(played.call.name, ""))
        if not words and result is not None:
            words = difference(played.finished, result, then, now)
            sameness = "differs" if words else "same"
        yield ComparedCall(
            call_id=played.call.id, name=played.call.name, sameness=sameness, words=words
        )


def _sameness(played: PlayedCall, again: ToolResult | None, stubbed: str) -> tuple[Sameness, str]:
    """What can be said without looking at the result; no words: it has to be looked at."""
    if again is None:
        return "differs", "it was not made again"
    return "not re-runnable", played.why_not_again or stubbed


def _taken(results: list[ToolResult], played: PlayedCall) -> ToolResult | None:
    """The first result of that call that was not taken yet: ids come again."""
    for result in results:
        if result.call_id == played.call.id:
            results.remove(result)
            return result
    return None
