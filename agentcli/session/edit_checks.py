"""Errors at once: after an edit the model reads what the edit broke.

A file of a format that needs no other program is parsed, and commands that the user named for it
run in the sandbox. Only what was not wrong before is reported, in a few lines. An edit never fails
by its checks.
"""

import asyncio
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from agentcli.system.files import read_regular
from agentcli.types.checks import Verified
from agentcli.types.events import Emit, Warned
from agentcli.types.messages import Text
from agentcli.types.own_tools import list_paths
from agentcli.types.tools import (
    Diff,
    Output,
    Tool,
    ToolContext,
    ToolSpec,
    WrappedTool,
)

LIMIT_BYTES = 1_000_000
REASON_CHARS = 200

_WITH_COMMENTS = ("tsconfig", "jsconfig", "devcontainer", ".eslintrc", "settings", "launch")
"""The beginnings of names of JSON files that programs read with comments in them."""
_TEMPLATE_MARKS = ("{{", "{%", "<%")


def find_parse_error(path: str, data: bytes) -> str:
    """Return why the file cannot be parsed; empty if it can, or if its format is not known."""
    name = PurePath(path).name.lower()
    check = _CHECKS.get(PurePath(name).suffix)
    if check is None or len(data) > LIMIT_BYTES or _is_lenient(name):
        return ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""
    try:
        return check(text)[:REASON_CHARS]
    except (RecursionError, MemoryError):
        return ""  # it may be right, and is too deep to tell


def _is_lenient(name: str) -> bool:
    return name.endswith(".json") and name.startswith(_WITH_COMMENTS)


def _check_python(text: str) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<file>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg} (Python {version})"
    except ValueError as error:  # such as a NUL
        return f"{error} (Python {version})"
    return ""


def _check_json(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    return ""


def _check_toml(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return ""


def _check_yaml(text: str) -> str:
    if any(mark in text for mark in _TEMPLATE_MARKS):
        return ""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(text, Loader=loader):
            pass
    except yaml.MarkedYAMLError as error:
        at = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        return f"{at}{error.problem or error.context}"
    except yaml.YAMLError as error:
        return str(error).partition("\n")[0]
    return ""


_CHECKS: Mapping[str, Callable[[str], str]] = {
    ".py": _check_python,
    ".pyi": _check_python,
    ".json": _check_json,
    ".ipynb": _check_json,
    ".toml": _check_toml,
    ".yaml": _check_yaml,
    ".yml": _check_yaml,
}


LINES_MAX = 10
LINE_CHARS = 300
EDIT_CHECK_TIMEOUT_S = 60.0
HEADING = "New errors after this edit:"
"""The line before the findings, after a blank one."""

RunCheck: TypeAlias = Callable[[str], Awaitable[Verified]]


class EditChecks:
    def __init__(
        self,
        workspace: Path,
        commands: Sequence[tuple[str, str]],
        *,
        run_check: RunCheck,
        may_run_commands: Callable[[], bool],
        emit: Emit,
    ) -> None:
        """`commands` are pairs of a pattern for paths, and the command for files that match it.
        `may_run_commands` returns False if the sandbox that is wanted does not work."""
        self._workspace = workspace
        self._commands = commands
        self._run_check = run_check
        self._may_run_commands = may_run_commands
        self._emit = emit
        self._before: dict[str, Counter[str]] = {}
        """By command, what it found the last time."""
        self._dropped: set[str] = set()
        """Commands that are not run any more."""
        self._one_at_a_time = asyncio.Lock()

    async def capture_before(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return what cannot be parsed, by path. Run the commands that have never run."""
        async with self._one_at_a_time:
            for command in self._list_commands(paths):
                if command not in self._before:
                    await self._run(command)
        return await asyncio.to_thread(self._find_parse_errors, paths)

    async def find_new(self, paths: Sequence[str], before: Mapping[str, str]) -> list[str]:
        """Return the findings that were not there before the edit, at most ten lines."""
        errors = await asyncio.to_thread(self._find_parse_errors, paths)
        found = [f"{path}: {why}" for path, why in errors.items() if path not in before]
        async with self._one_at_a_time:
            for command in self._list_commands(paths):
                known = self._before.get(command, Counter())
                found += _list_new(await self._run(command), known)
        more = len(found) - LINES_MAX
        shown = found[: LINES_MAX - 1] if more > 0 else found
        return [*shown, f"… and {more + 1} more"] if more > 0 else shown

    def _list_commands(self, paths: Sequence[str]) -> list[str]:
        wanted = dict.fromkeys(
            command
            for pattern, command in self._commands
            if any(
                fnmatchcase(one, pattern) or fnmatchcase(PurePath(one).name, pattern)
                for one in paths
            )
        )
        return [command for command in wanted if command not in self._dropped]

    async def _run(self, command: str) -> list[str]:
        """Run a command and return its findings. One that cannot be used is not run again."""
        if not self._may_run_commands():
            self._drop(command, "it needs a sandbox, and none works here")
            return []
        ran = await self._run_check(command)
        if ran.exit_code is None:
            self._drop(command, f"it did not end within {EDIT_CHECK_TIMEOUT_S:g} s")
            return []
        lines = ran.output.splitlines()[:-1] if ran.exit_code else []
        found = [line.strip()[:LINE_CHARS] for line in lines if line.strip()]
        self._before[command] = Counter(map(_to_plain, found))
        return found

    def _drop(self, command: str, why: str) -> None:
        self._dropped.add(command)
        message = f"the check {command!r} is not run any more: {why}"
        self._emit(Warned(code="check.dropped", message=message))

    def _find_parse_errors(self, paths: Sequence[str]) -> dict[str, str]:

        errors: dict[str, str] = {}
        for path in paths:
            try:
                data = read_regular(self._workspace / path, LIMIT_BYTES + 1)
            except OSError:
                continue
            if why := find_parse_error(path, data):
                errors[path] = why
        return errors


def _list_new(found: Sequence[str], known: Counter[str]) -> Iterator[str]:
    """Yield the findings that are not among the known ones, whose lines may have moved."""
    left = Counter(known)
    for line in found:
        plain = _to_plain(line)
        if left[plain] > 0:
            left[plain] -= 1
        else:
            yield line


def _to_plain(line: str) -> str:
    return re.sub(r"\d+", "#", line)


class CheckedEdit(WrappedTool):
    """A tool that edits files, and reports what the edit broke."""

    def __init__(self, tool: Tool, spec: ToolSpec, *, checks: EditChecks) -> None:
        super().__init__(tool, spec)
        self._checks = checks

    async def run(self, args: Any, context: ToolContext) -> Output:
        paths = list_paths(args)
        before = await self._checks.capture_before(paths)
        output = await self._tool.run(args, context)
        if output.error is not None:
            return output
        try:
            found = await self._checks.find_new(paths, before)
        except asyncio.CancelledError:
            raise asyncio.CancelledError(output) from None  # the edit is done all the same
        return _add_findings(output, found) if found else output


def _add_findings(output: Output, found: Sequence[str]) -> Output:
    details = output.details
    if isinstance(details, Diff):
        details = replace(details, notes=(*details.notes, *found))
    text = "\n".join(("", HEADING, *found))
    return replace(output, content=(*output.content, Text(text=text)), details=details)
