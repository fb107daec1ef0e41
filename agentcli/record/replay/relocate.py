"""The places of a recording and the places of its replay: one stands for the other."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from agentcli.types.events import ContextNote, Fact, SessionForked, SessionResumed, SessionStarted


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPaths:
    """More than one of each where a session was moved or forked."""

    workspaces: tuple[str, ...]
    sessions: tuple[str, ...]
    """Their ids; their directories are whatever paths lead to them."""

    def replace_in(self, text: str, *, workspace: str, session: str) -> str:
        """With these in the place of every path to a workspace, and to a session's directory."""
        for pattern in self._workspace_patterns():
            text = pattern.sub(lambda _: workspace, text)
        for pattern in self._session_patterns():
            text = pattern.sub(lambda _: session, text)
        return text

    def _workspace_patterns(self) -> Iterator[re.Pattern[str]]:
        for path in self.workspaces:
            if len(path) > 1:  # the root is a part of every path
                yield re.compile(rf"{re.escape(path)}(?![\w.-])")

    def _session_patterns(self) -> Iterator[re.Pattern[str]]:
        for session in self.sessions:
            yield re.compile(rf"(?<![\w/])/[^\s'\"`:]*/{re.escape(session)}(?=/|\b)")


def find_paths(facts: Iterable[Fact]) -> RecordedPaths:
    workspaces: dict[str, None] = {}
    sessions: dict[str, None] = {}
    for fact in facts:
        if isinstance(fact, SessionStarted | SessionResumed):
            workspaces[fact.workspace] = None
        if isinstance(fact, SessionStarted | SessionResumed | SessionForked):
            sessions[fact.session] = None
    return RecordedPaths(workspaces=tuple(workspaces), sessions=tuple(sessions))


class PathRelocation:
    """Rewrites paths of the recording to where the same files are now."""

    def __init__(self, recorded: RecordedPaths, *, workspace: str, directory: str) -> None:
        self._recorded = recorded
        self._workspace = workspace
        self._directory = directory

    def relocate_notes(self, told: Iterable[ContextNote]) -> list[ContextNote]:
        return [replace(one, text=self.relocate_json(one.text)) for one in told]

    def relocate_json(self, value: Any) -> Any:
        """Any JSON, with every text in it."""
        if isinstance(value, str):
            return self._recorded.replace_in(
                value, workspace=self._workspace, session=self._directory
            )
        if isinstance(value, dict):
            return {key: self.relocate_json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.relocate_json(item) for item in value]
        return value
