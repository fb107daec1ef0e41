"""A file of tasks, one JSON object on each line. A wrong line affects only that task."""

import hashlib
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from agentcli.agent.loop import OnDeny
from agentcli.settings import check_values, parse_amount
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.settings import RUN_LIMITS

VALUES = ("model", "mode", "on_deny", *RUN_LIMITS)
LISTS = ("allow", "deny", "verify")
"""Options of `agentcli run` that a task may set for itself, once or several times."""
KEYS = ("id", "prompt", "workspace", *VALUES, *LISTS)
OPTIONS_BYTES = 100_000
"""The most bytes of all options of a task. The kernel takes 128 KiB as one argument."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_EXAMPLE = 'write one task per line: {"id": "fix-1", "prompt": "fix the failing test"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    id: str
    prompt: str
    options: tuple[str, ...] = ()
    """Options for `agentcli run`, after those of the whole batch."""
    workspace: Path | None = None
    """The directory of this task; None for that of the whole batch."""

    @property
    def fingerprint(self) -> str:
        """A hash of the whole task: a task that was changed is another task."""
        own = [str(self.workspace)] if self.workspace else []
        text = json.dumps([self.prompt, *self.options, *own])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    number: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    tasks: tuple[Task, ...]
    bad: tuple[BadLine, ...]


def read_tasks(path: Path) -> TaskFile:
    """Read the tasks. Raise UsageError if there is not a single one."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=_EXAMPLE) from error
    tasks: dict[str, Task] = {}
    bad: list[BadLine] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            task = _parse_task(line, number, directory=path.parent)
            if (other := tasks.get(task.id.lower())) is not None:
                raise ValueError(_explain_same_id(task.id, other.id))
            tasks[task.id.lower()] = task
        except ValueError as error:
            bad.append(BadLine(number=number, message=str(error)))
    if not tasks and not bad:
        raise UsageError(f"no tasks in {path}", hint=_EXAMPLE)
    return TaskFile(tasks=tuple(tasks.values()), bad=tuple(bad))


def _explain_same_id(name: str, other: str) -> str:
    more = "" if name == other else f", and {name} differs only in upper and lower case"
    return f"another task has the id {other}{more}"


def _parse_task(line: bytes, number: int, *, directory: Path) -> Task:
    """Parse one line. Raise ValueError that says what is wrong."""
    try:
        given = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("not a JSON object")
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; the fields are {', '.join(KEYS)}")
    prompt, name = given.get("prompt"), given.get("id", f"task-{number}")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("no prompt")
    if "\0" in prompt:
        raise ValueError("the prompt has a NUL character, which is not text")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise ValueError(f"{name!r} is not an id: use up to 100 letters, digits, dots, - and _")
    workspace = given.get("workspace")
    if workspace is not None and not isinstance(workspace, str):
        raise ValueError(f"workspace must be a directory, not {json.dumps(workspace)}")
    return Task(
        id=name,
        prompt=prompt,
        options=_build_options(given),
        workspace=_resolve_workspace(directory, workspace) if workspace else None,
    )


def _resolve_workspace(directory: Path, workspace: str) -> Path:
    _check_text("workspace", workspace)
    path = directory / workspace
    try:
        resolved = Path(os.path.realpath(path, strict=True))
    except OSError as error:
        raise ValueError(f"cannot open the workspace {path}: {error}") from None
    if not resolved.is_dir():
        raise ValueError(f"the workspace {path} is not a directory")
    return resolved


def _build_options(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the options as arguments that a process can get."""
    options: list[str] = []
    for key, value in _iter_values(fields):
        _check_text(key, value)
        options.append(f"--{key.replace('_', '-')}={value}")
    if sum(len(option.encode()) for option in options) > OPTIONS_BYTES:
        raise ValueError(f"the options are longer than {OPTIONS_BYTES:,} bytes in all")
    return tuple(options)


def _iter_values(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in VALUES:
        value = fields.get(key)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"{key} must be a string or a number, not {json.dumps(value)}")
            _check_value(key, str(value))
            yield key, str(value)
    for key in LISTS:
        values = fields.get(key) or ()
        values = (values,) if isinstance(values, str) else values
        if not isinstance(values, list | tuple) or not all(isinstance(it, str) for it in values):
            raise ValueError(
                f"{key} must be a string or a list of strings, not {json.dumps(values)}"
            )
        yield from ((key, value) for value in values)


def _check_value(key: str, value: str) -> None:
    """Raise ValueError if `agentcli run` would refuse the value of this option."""
    if key != "on_deny":
        try:
            check_values({key: value}, "", error=SettingsError)
        except SettingsError as error:
            raise ValueError(str(error)) from None
    elif value not in (choices := get_args(OnDeny)):
        raise ValueError(f"on_deny must be one of {', '.join(choices)}, not {value!r}")


def _check_text(key: str, value: str) -> None:
    """Raise ValueError if no path and no argument of a process can be this text."""
    if _NOT_TEXT.search(value):
        raise ValueError(f"{key} has a character that is not text: {value!r}")


# What a task may still spend and wait if its provider limits the rate


RATE_LIMIT_WAIT_S = 30.0
"""The first wait after a provider has limited the rate, if it asks for none. It doubles."""
LONGEST_WAIT_S = 600.0
ALL_WAITS_S = 3600.0
"""The most that a task waits for its provider in all."""
_MAX_COST = "--max-cost="


class TaskLimits:
    """What a task that its provider holds up may still spend and wait."""

    def __init__(self, options: Sequence[str]) -> None:
        self._options = options
        costs = [one.removeprefix(_MAX_COST) for one in options if one.startswith(_MAX_COST)]
        self._max_cost_usd = parse_amount(costs[-1]) if costs else None
        self._spent_usd = 0.0
        self._waited_s = 0.0
        self._waits = 0

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the next attempt: what earlier ones have spent is not spent again."""
        if self._max_cost_usd is None or not self._spent_usd:
            return (*self._options,)
        return (*self._options, f"{_MAX_COST}{self._max_cost_usd - self._spent_usd:.6f}")

    def find_wait_s(self, result: dict[str, Any]) -> float | None:
        """Return the wait before another attempt, or None if this result is final."""
        error = result.get("error") or {}
        if error.get("kind") != "rate_limited":
            return None
        asked_s = error.get("retry_after_s")
        own_s = 2.0**self._waits * (RATE_LIMIT_WAIT_S if asked_s is None else 1.0)
        wait_s = max(min(own_s, LONGEST_WAIT_S), asked_s or 0.0) * random.uniform(1.0, 1.2)
        spent_usd = self._spent_usd + (result.get("cost_usd") or 0.0)
        if self._max_cost_usd is not None and spent_usd >= self._max_cost_usd:
            return None
        if self._waited_s + wait_s > ALL_WAITS_S:
            return None
        self._spent_usd = spent_usd
        self._waited_s += wait_s
        self._waits += 1
        return wait_s

    def add_earlier_cost(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result with what all attempts have cost."""
        cost = result.get("cost_usd")
        return result if cost is None else {**result, "cost_usd": cost + self._spent_usd}
