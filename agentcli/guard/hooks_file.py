"""Hooks as they stand in `hooks.json`: the form that is common in this field.

A file that cannot be understood as a whole stops the program: a hook that is left out is a check
that nobody makes. Every error names the file, the line, and the fix.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from agentcli.guard.hook_answer import HookEvent
from agentcli.guard.hooks import TIMEOUT_S, Hook
from agentcli.types.errors import SettingsError

LONGEST_TIMEOUT_S = 3600
LAST_TIMEOUT_S = 5.0
"""Unless the file says otherwise: at the end of a session somebody waits for the program to go."""
EVENTS: dict[str, HookEvent] = {event: event for event in get_args(HookEvent)}

_TOP = ("hooks", "description", "$schema")
_GROUP = ("matcher", "hooks", "description")
_ENTRY = ("type", "command", "timeout", "description", "statusMessage")
_HOW = (
    'write {"hooks": {"PreToolUse": [{"matcher": "bash", "hooks": '
    '[{"type": "command", "command": "./check.sh"}]}]}}'
)


def parse_hooks(text: str, path: Path, *, project: Path | None = None) -> tuple[Hook, ...]:
    """Raises SettingsError. `project`: the root of the project whose file it is."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}:{error.lineno} is not JSON: {error.msg}", hint=_HOW) from None
    except RecursionError:
        raise SettingsError(f"{path}: it is nested too deeply", hint=_HOW) from None
    return tuple(_Reading(text=text, path=path, project=project).hooks(document))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    text: str
    path: Path
    project: Path | None

    def hooks(self, document: Any) -> Iterator[Hook]:
        if not isinstance(document, dict):
            raise self._error("the file must be one object", "{")
        if "hooks" in document:
            self._known(document, _TOP, "a hooks file")
            document = document["hooks"]
        if not isinstance(document, dict):
            raise self._error("hooks must be an object with events", "hooks")
        for event, groups in document.items():
            if event not in EVENTS:
                raise self._unknown_event(event)
            for group in self._objects(groups, event):
                yield from self._of_group(EVENTS[event], group)

    def _of_group(self, event: HookEvent, group: dict[str, Any]) -> Iterator[Hook]:
        self._known(group, _GROUP, f"an entry of {event}")
        matcher = group.get("matcher") or ""
        if not isinstance(matcher, str):
            raise self._error(f"the matcher of {event} must be a text", "matcher")
        for entry in self._objects(group.get("hooks"), event):
            yield self._hook(event, matcher, entry)

    def _hook(self, event: HookEvent, matcher: str, entry: dict[str, Any]) -> Hook:
        self._known(entry, _ENTRY, f"a hook of {event}")
        kind = entry.get("type", "command")
        if kind != "command":
            raise self._error(f"a hook of {event} has the type {kind!r}, not command", kind)
        command = entry.get("command")
        if not isinstance(command, str) or not command.strip():
            raise self._error(f"a hook of {event} has no command", event)
        try:
            return Hook(
                event=event,
                command=command,
                matcher=matcher,
                timeout_s=self._timeout(event, entry),
                where=f"{self.path}:{self._line(command)}",
                project=self.project,
            )
        except SettingsError as error:
            raise self._error(str(error), matcher or command) from None

    def _timeout(self, event: str, entry: dict[str, Any]) -> float:
        given = entry.get("timeout", LAST_TIMEOUT_S if event == "SessionEnd" else TIMEOUT_S)
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if not is_number or not 0 < given <= LONGEST_TIMEOUT_S:
            raise self._error(
                f"the timeout of a hook of {event} must be seconds, above 0 and at most"
                f" {LONGEST_TIMEOUT_S}, not {json.dumps(given)}",
                "timeout",
            )
        return float(given)

    def _objects(self, given: Any, event: str) -> Sequence[dict[str, Any]]:
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise self._error(f"{event} must be a list of objects, each with its hooks", event)
        return given

    def _known(self, given: dict[str, Any], names: Sequence[str], what: str) -> None:
        for name in given:
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}"
                raise self._error(f"{what} has no {name}. {hint}", name)

    def _unknown_event(self, event: str) -> SettingsError:
        near = get_close_matches(event, EVENTS, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        return self._error(
            f"there is no hook event {event}.{meant} The events are {', '.join(EVENTS)}", event
        )

    def _error(self, message: str, near: object) -> SettingsError:
        return SettingsError(f"{self.path}:{self._line(near)}: {message}", hint=_FIX)

    def _line(self, word: object) -> int:
        """Where the word first stands; the first line where it cannot be found."""
        at = self.text.find(json.dumps(word))
        return self.text.count("\n", 0, max(at, 0)) + 1


_FIX = "correct it: until then no hook is used, and nothing runs"
