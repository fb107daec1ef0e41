"""A file of tasks, one JSON object on each line. A wrong line affects only that task."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.types.errors import UsageError

VALUES = (
    "model",
    "mode",
    "on_deny",
    "max_turns",
    "max_cost",
    "max_tokens",
    "timeout",
    "tool_timeout",
)
LISTS = ("allow", "deny", "verify")
"""Options of `agentcli run` that a task may set for itself, once or several times."""
KEYS = ("id", "prompt", *VALUES, *LISTS)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_EXAMPLE = 'write one task per line: {"id": "fix-1", "prompt": "fix the failing test"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    id: str
    prompt: str
    options: tuple[str, ...] = ()
    """Options for `agentcli run`, after those of the whole batch."""

    @property
    def fingerprint(self) -> str:
        """A hash of the whole task: a task that was changed is another task."""
        text = json.dumps([self.prompt, *self.options])
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
            task = _parse_task(line, number)
            if task.id.lower() in tasks:
                raise ValueError(f"another task has the id {task.id}")
            tasks[task.id.lower()] = task
        except ValueError as error:
            bad.append(BadLine(number=number, message=str(error)))
    if not tasks and not bad:
        raise UsageError(f"no tasks in {path}", hint=_EXAMPLE)
    return TaskFile(tasks=tuple(tasks.values()), bad=tuple(bad))


def _parse_task(line: bytes, number: int) -> Task:
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
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise ValueError(f"{name!r} is not an id: use up to 100 letters, digits, dots, - and _")
    return Task(id=name, prompt=prompt, options=tuple(_iter_options(given)))


def _iter_options(fields: dict[str, Any]) -> Iterator[str]:
    for key in VALUES:
        value = fields.get(key)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"{key} must be a string or a number, not {json.dumps(value)}")
            yield f"{_format_option(key)}={value}"
    for key in LISTS:
        values = fields.get(key) or ()
        values = (values,) if isinstance(values, str) else values
        if not isinstance(values, list | tuple) or not all(isinstance(it, str) for it in values):
            raise ValueError(
                f"{key} must be a string or a list of strings, not {json.dumps(values)}"
            )
        yield from (f"{_format_option(key)}={value}" for value in values)


def _format_option(key: str) -> str:
    return f"--{key.replace('_', '-')}"
