"""A policy without a session: what it says to a call, and what it would have said to past ones."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import cast

from agentcli.app.boundary import load_rules
from agentcli.app.project import open_project, project_rules, with_project
from agentcli.guard.decide import Decider
from agentcli.guard.explain import Explanation, call_of, explain
from agentcli.guard.readonly import ReadProver, on_path
from agentcli.guard.replay import Judged, Past, Relief, judge_again, reliefs
from agentcli.guard.rules import Rule
from agentcli.guard.sandbox.choose import Ground, choose
from agentcli.guard.sandbox.environment import allowed_environment
from agentcli.guard.subject import Subjects
from agentcli.record.place import SessionPlace
from agentcli.record.reading import read_what_fits
from agentcli.record.sessions import list_sessions
from agentcli.settings import Settings
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Entry,
    ModeChanged,
    SessionResumed,
    SessionStarted,
)
from agentcli.types.tools import Command
from agentcli.types.verdicts import Mode

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    explanation: Explanation
    layer: str
    """The sandbox that a command would run in; empty: there is none."""
    why_no_layer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    sessions: int
    judged: list[Judged]
    reliefs: list[Relief]
    unreadable: tuple[str, ...]
    """Logs of which not all could be read, with the reason."""

    @property
    def differences(self) -> list[Judged]:
        return [one for one in self.judged if one.differs]


def explained(settings: Settings, query: str) -> Answer:
    """Raises UsageError for a query that is no call, SettingsError for rules that are none."""
    tool, tool_input = call_of(query)
    project = open_project(settings.workspace, trust_project=settings.trust_project)
    settings = with_project(settings, project)
    rules = (*load_rules(settings), *project_rules(project))
    layer, why_none = _layer(settings)
    decider = _decider(
        rules,
        workspace=settings.workspace,
        cwd=settings.workspace,
        is_confined=bool(layer) or settings.sandbox == "off",
    )
    explanation = explain(
        tool,
        tool_input,
        decider=decider,
        subjects=Subjects(workspace=settings.workspace, cwd=lambda: settings.workspace),
        mode=settings.mode,
    )
    return Answer(explanation=explanation, layer=layer, why_no_layer=why_none)


def replayed(settings: Settings, runs: str, *, mode: Mode | None) -> Replay:
    """`runs`: how far back, as 30d, 12h or 2w, or the number of the latest sessions.

    A sandbox is taken for granted: a policy is about calls, not about the machine.
    """
    own = load_rules(settings)
    places = _places(settings, runs)
    pasts: list[Past] = []
    unreadable = []
    for place in places:
        try:
            recorded = read_what_fits(place.log)
        except SettingsError as error:
            unreadable.append(str(error))
            continue
        if recorded.fault:
            unreadable.append(f"{place.log}:{recorded.fault.line}: {recorded.fault.reason}")
        pasts += _pasts(place, recorded.entries)
    if mode:
        pasts = [replace(past, mode=mode) for past in pasts]

    @cache
    def rules_in(workspace: Path) -> tuple[Rule, ...]:
        is_there = workspace.is_dir()
        return (*own, *project_rules(open_project(workspace) if is_there else None))

    def decider_of(past: Past) -> Decider:
        rules = rules_in(past.workspace)
        return _decider(rules, workspace=past.workspace, cwd=past.cwd, is_confined=True)

    judged = judge_again(pasts, decider_of)
    return Replay(
        sessions=len(places),
        judged=judged,
        reliefs=reliefs(judged, decider_of),
        unreadable=tuple(unreadable),
    )


def _layer(settings: Settings) -> tuple[str, str]:
    """The layer that works here, by trying, or why none does."""
    if settings.sandbox == "off":
        return "", "the sandbox is off"
    with tempfile.TemporaryDirectory(prefix="agentcli-policy-") as private:
        ground = Ground(workspace=settings.workspace, private=Path(private))
        only = None if settings.sandbox == "auto" else settings.sandbox
        try:
            sandbox = choose(ground, only=only)
        except SettingsError as error:
            return "", str(error)
        sandbox.close()
        return sandbox.name, ""


def _decider(rules: tuple[Rule, ...], *, workspace: Path, cwd: Path, is_confined: bool) -> Decider:
    search_path = allowed_environment(os.environ, workspace=workspace).get("PATH", "")
    prover = ReadProver(workspace=workspace, resolve=on_path(search_path), cwd=lambda: cwd)
    return Decider(rules=rules, prover=prover, is_confined=is_confined)


def _places(settings: Settings, runs: str) -> list[SessionPlace]:
    summaries = list_sessions(settings.sessions)
    wanted = re.fullmatch(r"(\d{1,6})([hdw]?)", runs)
    if wanted is None:
        raise UsageError(
            f"--runs {runs!r} is no span of time",
            hint="write --runs 30d, 12h or 2w, or --runs 20 for the latest 20 sessions",
        )
    if not wanted[2]:
        return [one.place for one in summaries[: int(wanted[1])]]
    since = datetime.now(UTC) - timedelta(**{_UNITS[wanted[2]]: int(wanted[1])})
    return [one.place for one in summaries if one.last >= since.isoformat()]


def _pasts(place: SessionPlace, entries: Sequence[Entry]) -> Iterator[Past]:
    ran_in = {
        fact.result.call_id: Path(fact.result.details.cwd)
        for entry in entries
        if isinstance(fact := entry.fact, CallFinished) and isinstance(fact.result.details, Command)
    }
    workspace, mode = Path(), "ask"
    for entry in entries:
        match fact := entry.fact:
            case SessionStarted() | SessionResumed():
                workspace, mode = Path(fact.workspace), fact.mode
            case ModeChanged():
                mode = fact.mode
            case CallJudged(call=call, effect=effect, verdict=verdict):
                yield Past(
                    session=place.id,
                    at=entry.at,
                    call=call,
                    effect=effect,
                    verdict=verdict,
                    mode=cast(Mode, mode),
                    workspace=workspace,
                    cwd=ran_in.get(call.id, workspace),
                )
