"""Hooks as written in `hooks.json`, in the format that is common for agent hooks.

Anything that would lose a check stops the program: a file that is not JSON, or a hook of a deciding
event that cannot run as written. Everything else that is not understood is a warning. Both name
the file and the line.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentcli.permissions.claude_settings import parse_claude_rule
from agentcli.permissions.foreign_files import parse_json
from agentcli.permissions.hook_events import (
    ABOUT_TOOLS,
    ASKING,
    DECIDING,
    EVENTS,
    OTHER_EVENTS,
    WITH_MATCHER,
    HookEvent,
)
from agentcli.permissions.hook_names import check_matcher, tests_our_names
from agentcli.permissions.hooks import TIMEOUT_S, Hook
from agentcli.system.files import is_file, read_regular
from agentcli.system.lazy import compile_later
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

BETWEEN_WORDS = compile_later(r"[\s;&|<>()`'\"=]+")
"""What separates the words of a command line that may be paths."""
ROOT_NAME = compile_later(r"\$\{?(?:AGENTCLI|CLAUDE)_PROJECT_DIR\}?")
LONGEST_TIMEOUT_S = 3600
LAST_TIMEOUT_S = 5.0
"""The default time limit at the end of a session, where the user waits for the program to exit."""

_MISSPELT = 0.85
"""The similarity from which an unknown event is taken for a misspelt deciding event."""
_TOP = ("hooks", "description", "$schema")
_GROUP = ("matcher", "hooks", "description")
_ENTRY = (
    *("type", "command", "args", "shell", "timeout", "description", "statusMessage"),
    *("if", "url", "headers", "allowedEnvVars"),
)
_VARIABLE = compile_later(r"\$\{?(\w+)\}?")
_SHELLS = ("sh", "bash")
_SCRIPT_BYTES = 200_000
_HOW = (
    'write {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": '
    '[{"type": "command", "command": "./check.sh"}]}]}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksFile:
    hooks: tuple[Hook, ...] = ()
    warnings: tuple[str, ...] = ()
    """Entries of the file that have no effect, each with its line."""


def parse_hooks(
    text: str, path: Path, *, project: Path | None = None, is_settings: bool = False
) -> HooksFile:
    """Parse a hooks file. Raise SettingsError. `project` is the root of the project that has it.

    `is_settings` is True for the settings file of another agent, where hooks are one of many keys.
    """
    try:
        document = parse_json(text.encode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}:{error.lineno} is not JSON: {error.msg}", hint=_HOW) from None
    except (RecursionError, ValueError) as error:
        raise SettingsError(f"{path} is not JSON: {error}", hint=_HOW) from None
    if is_settings and isinstance(document, dict):
        document = {"hooks": document.get("hooks", {})}
    reading = _HooksParser(text=text, path=path, project=project)
    hooks = tuple(reading.iter_hooks(document))
    return HooksFile(hooks=hooks, warnings=tuple(dict.fromkeys(reading.warnings)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _HooksParser:
    text: str
    path: Path
    project: Path | None
    warnings: list[str] = field(default_factory=list)

    def iter_hooks(self, document: Any) -> Iterator[Hook]:
        if not isinstance(document, dict):
            raise self._build_error("the file must be one JSON object", "{")
        if "hooks" in document:
            self._note_unknown(document, _TOP, what="a hooks file")
            document = document["hooks"]
        if not isinstance(document, dict):
            raise self._build_error("hooks must be an object with events", "hooks")
        for event, groups in document.items():
            if event in EVENTS:
                yield from self._iter_event_hooks(EVENTS[event], groups)
            elif event not in _TOP:
                self._refuse_misspelt(event)

    def _iter_event_hooks(self, event: HookEvent, groups: Any) -> Iterator[Hook]:
        for group in self._list_objects(groups, event):
            self._note_unknown(group, _GROUP, what=f"an entry of {event}")
            matcher = self._read_matcher(event, group)
            for entry in self._list_objects(group.get("hooks"), event):
                hook = None if matcher is None else self._build_hook(event, matcher, entry=entry)
                if hook is not None:
                    yield hook

    def _read_matcher(self, event: HookEvent, group: Mapping[str, Any]) -> str | None:
        """Return the matcher; None if it has no clear meaning."""
        matcher = group.get("matcher") or ""
        if event not in WITH_MATCHER:
            return ""
        if not isinstance(matcher, str):
            self._complain(event, f"the matcher of {event} must be a string", near="matcher")
            return None
        try:
            check_matcher(matcher)
        except re.error as error:
            message = f"the matcher {matcher!r} of {event} is not a regular expression: {error}"
            self._complain(event, message, near=matcher)
            return None
        return matcher

    def _build_hook(
        self, event: HookEvent, matcher: str, *, entry: Mapping[str, Any]
    ) -> Hook | None:
        kind, command = entry.get("type", "command"), entry.get("command")
        if kind == "http":
            return self._build_http_hook(event, matcher, entry=entry)
        if kind != "command":
            return self._build_other_hook(event, matcher, kind=kind)
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            self._complain(event, f"a hook of {event} has no command", near=event)
            return None
        words = self._read_command(command, entry)
        if words is None:
            message = f"a hook of {event} is not a command line for {' or '.join(_SHELLS)}"
            near = "args" if "args" in entry else "shell"
            return self._build_failing_hook(
                event, matcher, message=message, near=near, why="it cannot run here"
            )
        self._note_unknown(entry, _ENTRY, what=f"a hook of {event}")
        return Hook(
            event=event,
            command=words,
            matcher=matcher,
            condition=self._read_condition(event, entry),
            timeout_s=self._read_timeout(event, entry),
            where=f"{self.path}:{self._find_line(command)}",
            project=self.project,
            is_ours=tests_our_names("\n".join(_read_texts(command, self.project))),
        )

    def _read_command(self, command: str, entry: Mapping[str, Any]) -> str | tuple[str, ...] | None:
        """Return a line for the shell, or the words of a program; None if it is neither."""
        shell, args = entry.get("shell") or "sh", entry.get("args")
        if "args" in entry:
            is_list = isinstance(args, list) and all(isinstance(one, str) for one in args)
            return (command, *args) if isinstance(args, list) and is_list else None
        if shell not in _SHELLS:
            return None
        return command if shell == "sh" else (str(shell), "-c", command)

    def _build_http_hook(
        self, event: HookEvent, matcher: str, *, entry: Mapping[str, Any]
    ) -> Hook | None:
        url, headers = entry.get("url"), entry.get("headers") or {}
        if not isinstance(url, str) or not _is_address(url):
            self._complain(event, f"a hook of {event} has no http:// or https:// url", near=event)
            return None
        if not isinstance(headers, dict) or not all(
            isinstance(one, str) for one in headers.values()
        ):
            self._complain(
                event, f"the headers of a hook of {event} must be strings", near="headers"
            )
            return None
        self._note_unknown(entry, _ENTRY, what=f"a hook of {event}")
        passed = entry.get("allowedEnvVars")
        names = {str(name) for name in passed} if isinstance(passed, list) else set()
        return Hook(
            event=event,
            url=url,
            headers=tuple((name, _fill_header(text, names)) for name, text in headers.items()),
            matcher=matcher,
            condition=self._read_condition(event, entry),
            timeout_s=self._read_timeout(event, entry),
            where=f"{self.path}:{self._find_line(url)}",
            project=self.project,
        )

    def _build_other_hook(self, event: HookEvent, matcher: str, *, kind: object) -> Hook | None:
        """Return a hook that always fails, where a check would be lost; otherwise warn.

        Raise SettingsError for a misspelt type of a check: nobody else would notice it."""
        message = f"a hook of {event} has the type {kind!r}, but only command and http hooks run"
        if get_close_matches(str(kind).lower(), ("command", "http"), n=1):
            self._complain(event, message, near=kind)
        if event not in ASKING:
            self._warn(f"{message}; it does not run", kind)
            return None
        why = f"its type {kind} cannot run here"
        return self._build_failing_hook(event, matcher, message=message, near=kind, why=why)

    def _build_failing_hook(
        self, event: HookEvent, matcher: str, *, message: str, near: object, why: str
    ) -> Hook | None:
        """Return a hook that makes the user be asked about a call; for other events, complain."""
        if event not in ASKING:
            self._complain(event, message, near=near)
            return None
        self._warn(f"{message}; you are asked about the calls that it would check", near)
        where = f"{self.path}:{self._find_line(near)}"
        return Hook(event=event, problem=why, matcher=matcher, where=where, project=self.project)

    def _read_condition(self, event: HookEvent, entry: Mapping[str, Any]) -> str:
        """Return the rule that a call must match. One that is not understood holds for all."""
        written = entry.get("if")
        if not written:
            return ""
        if event not in ABOUT_TOOLS or not isinstance(written, str):
            self._warn(f"if has no effect on a hook of {event}", "if")
            return ""
        try:
            parse_claude_rule(written)
        except ValueError as error:
            self._warn(
                f"the hook runs for every call: if {written!r} has no meaning: {error}", "if"
            )
            return ""
        return written

    def _read_timeout(self, event: HookEvent, entry: Mapping[str, Any]) -> float:
        usual = LAST_TIMEOUT_S if event == "SessionEnd" else TIMEOUT_S
        given = entry.get("timeout", usual)
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if is_number and 0 < given <= LONGEST_TIMEOUT_S:
            return float(given)
        taken = LONGEST_TIMEOUT_S if is_number and given > LONGEST_TIMEOUT_S else usual
        self._warn(
            f"the timeout of a hook of {event} must be seconds, above 0 and at most"
            f" {LONGEST_TIMEOUT_S}, not {json.dumps(given)}; using {taken:g}",
            "timeout",
        )
        return float(taken)

    def _list_objects(self, given: Any, event: HookEvent) -> Sequence[dict[str, Any]]:
        if isinstance(given, list) and all(isinstance(one, dict) for one in given):
            return given
        self._complain(event, f"{event} must be a list of objects, each with its hooks", near=event)
        return ()

    def _note_unknown(self, given: Mapping[str, Any], names: Sequence[str], *, what: str) -> None:
        for name in given:
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                self._warn(f"{what} has {name}, which has no effect here{hint}", name)

    def _refuse_misspelt(self, event: str) -> None:
        """Raise SettingsError if a deciding event was meant; warn about any other."""
        plain = {re.sub("[^a-z]", "", known.lower()): known for known in DECIDING}
        written = re.sub("[^a-z]", "", event.lower())
        meant = get_close_matches(written, plain, n=1, cutoff=_MISSPELT)
        message = f"unknown hook event {event}"
        if meant and event not in OTHER_EVENTS:
            raise self._build_error(f"{message}. Did you mean {plain[meant[0]]}?", event)
        self._warn(f"{message}, so its hooks do not run; the events are {', '.join(EVENTS)}", event)

    def _complain(self, event: HookEvent, message: str, *, near: object) -> None:
        """Raise SettingsError if a check would be lost; otherwise warn."""
        if event in DECIDING:
            raise self._build_error(message, near)
        self._warn(f"{message}; it does not run", near)

    def _warn(self, message: str, near: object) -> None:
        self.warnings.append(self._prefix_location(message, near))

    def _build_error(self, message: str, near: object) -> SettingsError:
        hint = f"edit {self.path}; nothing runs until then"
        return SettingsError(self._prefix_location(message, near), hint=hint)

    def _prefix_location(self, message: str, near: object) -> str:
        return f"{self.path}:{self._find_line(near)}: {message}"

    def _find_line(self, word: object) -> int:
        """Return the line where the word first occurs; the first line if it is not found."""
        at = self.text.find(json.dumps(word))
        return self.text.count("\n", 0, max(at, 0)) + 1


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _fill_header(text: str, names: Collection[str]) -> str:
    """Return a header with the variables that the hook may have. Others are empty."""
    filled = _VARIABLE.sub(
        lambda found: os.environ.get(found[1], "") if found[1] in names else "", text
    )
    return "".join(filled.splitlines())


def _read_texts(command: str, project: Path | None) -> Iterator[str]:
    """Yield a command line and the scripts that it names."""
    yield command
    for word in BETWEEN_WORDS.split(command):
        named = ROOT_NAME.sub(str(project or ""), word)
        path = (project or Path()) / os.path.expanduser(named)  # noqa: PTH111 - need not be a name
        if named and is_file(path):
            with suppress(OSError):
                yield read_regular(path, _SCRIPT_BYTES).decode("utf-8", "replace")
