"""A policy without a session: its verdict on a call, and on the calls of past sessions."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import cast

from agentcli.log.paths import SessionPaths, locate_sessions
from agentcli.log.reader import read_valid_part
from agentcli.log.sessions import list_sessions
from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.explain import Explanation, explain, parse_query
from agentcli.permissions.readonly import ReadProver, build_path_lookup
from agentcli.permissions.replay import (
    PastCall,
    RejudgedCall,
    RuleProposal,
    judge_again,
    propose_rules,
)
from agentcli.permissions.rules import PermissionRule
from agentcli.permissions.subject import SubjectFactory
from agentcli.sandbox.choose import SandboxScope, choose_sandbox
from agentcli.sandbox.environment import build_environment
from agentcli.sandbox.paths import is_usable_grant
from agentcli.session.configuration import load_configuration, load_rules
from agentcli.session.directories import Directories, OwnDirectories, locate_own_directories
from agentcli.session.project import load_project, load_project_rules
from agentcli.session.sandbox_host import list_guarded
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    DirectoryAdded,
    Entry,
    ModeChanged,
    SessionResumed,
    SessionStarted,
)
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.settings import Settings
from agentcli.types.tools import Command
from agentcli.types.verdicts import Mode

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    explanation: Explanation
    layer: str
    """The sandbox that a command would run in; empty if there is none."""
    why_no_layer: str = ""
    not_given: tuple[Path, ...] = ()
    """Directories that a rule names, and that no command gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReplay:
    sessions: int
    judged: list[RejudgedCall]
    reliefs: list[RuleProposal]
    unreadable: tuple[str, ...]
    """Logs that could not be read completely, with the reason."""

    @property
    def differences(self) -> list[RejudgedCall]:
        return [one for one in self.judged if one.differs]


def explain_call(settings: Settings, query: str) -> PolicyAnswer:
    """Return the verdict on a call.

    Raise UsageError if the query is not a call, and SettingsError if the rules are invalid."""
    tool, tool_input = parse_query(query)
    configuration = load_configuration(settings)
    settings = configuration.settings
    own = _locate_own(settings)
    added = Directories(settings, sessions=own.sessions, emit=lambda event: None).find_grants()
    layer, why_none = _find_layer(settings)
    decider = _build_decider(
        configuration.rules,
        workspace=settings.workspace,
        cwd=settings.workspace,
        own=own,
        is_confined=bool(layer) or settings.sandbox == "off",
        has_sandbox=bool(layer),
        asks_outside=True,
    )
    explanation = explain(
        tool,
        tool_input,
        decider=decider,
        subjects=SubjectFactory(
            workspace=settings.workspace, cwd=lambda: settings.workspace, added=lambda: added
        ),
        mode=settings.mode,
    )
    granted = explanation.verdict.grants
    usable = replace(
        granted,
        writable=tuple(filter(is_usable_grant, granted.writable)),
        readable=tuple(filter(is_usable_grant, granted.readable)),
    )
    both = (*granted.writable, *granted.readable)
    return PolicyAnswer(
        explanation=replace(explanation, verdict=replace(explanation.verdict, grants=usable)),
        layer=layer,
        why_no_layer=why_none,
        not_given=tuple(path for path in both if not is_usable_grant(path)),
    )


def replay_policy(settings: Settings, runs: str, *, mode: Mode | None) -> PolicyReplay:
    """Judge the calls of past sessions again.

    `runs` is how far back (30d, 12h or 2w) or a number of latest sessions. A sandbox is assumed: a
    policy is about calls, not about the machine.
    """
    own = load_rules(settings)
    found_sessions = _find_sessions(settings, runs)
    pasts: list[PastCall] = []
    unreadable = []
    for paths in found_sessions:
        try:
            recorded = read_valid_part(paths.log)
        except SettingsError as error:
            unreadable.append(str(error))
            continue
        if recorded.fault:
            unreadable.append(f"{paths.log}:{recorded.fault.line}: {recorded.fault.reason}")
        pasts += _iter_past_calls(paths, recorded.entries)
    if mode:
        pasts = [replace(past, mode=mode) for past in pasts]

    @cache
    def load_workspace_rules(workspace: Path) -> tuple[PermissionRule, ...]:
        is_there = workspace.is_dir()
        project = load_project(workspace) if is_there else None
        return (*own, *load_project_rules(project, workspace))

    def build_decider(past: PastCall) -> PolicyDecider:
        rules = load_workspace_rules(past.workspace)
        return _build_decider(
            rules,
            workspace=past.workspace,
            cwd=past.cwd,
            own=_locate_own(settings),
            is_confined=True,
        )

    judged = judge_again(pasts, build_decider)
    return PolicyReplay(
        sessions=len(found_sessions),
        judged=judged,
        reliefs=propose_rules(judged, build_decider),
        unreadable=tuple(unreadable),
    )


def _find_layer(settings: Settings) -> tuple[str, str]:
    """Return the sandbox layer that works here, found by trying, or the reason why none does."""
    if settings.sandbox == "off":
        return "", "the sandbox is off"
    with tempfile.TemporaryDirectory(prefix="agentcli-policy-") as private:
        scope = SandboxScope(workspace=settings.workspace, private=Path(private))
        only = None if settings.sandbox == "auto" else settings.sandbox
        try:
            sandbox = choose_sandbox(scope, only=only)
        except SettingsError as error:
            return "", str(error)
        sandbox.close()
        return sandbox.name, ""


def _locate_own(settings: Settings) -> OwnDirectories:
    return locate_own_directories(settings.sessions or locate_sessions())


def _build_decider(
    rules: tuple[PermissionRule, ...],
    *,
    workspace: Path,
    cwd: Path,
    own: OwnDirectories,
    is_confined: bool,
    has_sandbox: bool = True,
    asks_outside: bool = False,
) -> PolicyDecider:
    search_path = build_environment(os.environ, workspace=workspace).get("PATH", "")
    prover = ReadProver(
        workspace=workspace, resolve=build_path_lookup(search_path), cwd=lambda: cwd
    )
    return PolicyDecider(
        rules=rules,
        find_conditions=lambda: CommandConditions(
            prover=prover, is_confined=is_confined, has_sandbox=has_sandbox
        ),
        list_own=lambda: own.all,
        list_guarded=list_guarded,
        asks_outside=asks_outside,
    )


def _find_sessions(settings: Settings, runs: str) -> list[SessionPaths]:
    summaries = list_sessions(settings.sessions)
    wanted = re.fullmatch(r"(\d{1,6})([hdw]?)", runs)
    if wanted is None:
        raise UsageError(
            f"--runs {runs!r} is not a period",
            hint="use --runs 30d, 12h or 2w, or --runs 20 for the latest 20 sessions",
        )
    if not wanted[2]:
        return [one.paths for one in summaries[: int(wanted[1])]]
    since = datetime.now(UTC) - timedelta(**{_UNITS[wanted[2]]: int(wanted[1])})
    return [one.paths for one in summaries if one.last >= since.isoformat()]


def _iter_past_calls(paths: SessionPaths, entries: Sequence[Entry]) -> Iterator[PastCall]:
    ran_in = {
        fact.result.call_id: Path(fact.result.details.cwd)
        for entry in entries
        if isinstance(fact := entry.fact, CallFinished) and isinstance(fact.result.details, Command)
    }
    workspace, mode, added = Path(), "ask", NO_GRANTS
    for entry in entries:
        match fact := entry.fact:
            case DirectoryAdded(path=path, writable=is_writable):
                one = (Path(path),)
                added |= Grants(writable=one) if is_writable else Grants(readable=one)
            case SessionStarted() | SessionResumed():
                workspace, mode = Path(fact.workspace), fact.mode
            case ModeChanged():
                mode = fact.mode
            case CallJudged(call=call, effect=effect, verdict=verdict):
                yield PastCall(
                    session=paths.id,
                    at=entry.at,
                    call=call,
                    effect=effect,
                    verdict=verdict,
                    mode=cast(Mode, mode),
                    workspace=workspace,
                    cwd=ran_in.get(call.id, workspace),
                    added=added,
                )
