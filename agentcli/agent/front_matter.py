"""Markdown files that begin with fields: `---`, YAML, `---`. Skills and roles are such files."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import yaml

from agentcli.machine.plain import show_controls
from agentcli.types.events import Warned

LIMIT_BYTES = 64_000
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
NAME_SHOWN = 80
INVALID_SHOWN = 5
"""Of files that cannot be used: the rest is counted."""
DESCRIPTION_CHARS = 1024
ERROR_CHARS = 300
LISTED_CHARS = 16_000

_PARTS = re.compile(r"---\r?\n(.*?)\r?\n---(?:\r?\n|$)(.*)", re.DOTALL)


class InvalidFile(ValueError):
    """What is wrong with it, for the person."""


class FrontMatter(NamedTuple):
    name: str
    description: str
    fields: Mapping[str, Any]
    body: str


class HasName(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=HasName)


def read_all(
    paths: Iterable[Path], read_one: Callable[[Path], N], *, code: str
) -> tuple[list[N], list[Warned]]:
    """The first of each name wins. What is wrong with a file is a warning of that code."""
    found: dict[str, N] = {}
    bad: list[Warned] = []
    for path in paths:
        try:
            one = read_one(path)
        except InvalidFile as why:
            bad.append(Warned(code=code, message=f"{path}: {why}"))
            continue
        found.setdefault(one.name, one)
    if len(bad) > INVALID_SHOWN:
        more = Warned(code=code, message=f"and {len(bad) - INVALID_SHOWN} more cannot be used")
        bad = [*bad[:INVALID_SHOWN], more]
    return list(found.values()), bad


def limit_lines(lines: Sequence[str]) -> list[str]:
    """Of a list that is in every request: as many lines as it may have, and how many it lacks."""
    told: list[str] = []
    left_chars = LISTED_CHARS
    for line in lines:
        left_chars -= len(line)
        if left_chars < 0:
            return [*told, f"- and {len(lines) - len(told)} more, which are not listed"]
        told.append(line)
    return told


def read_front_matter(path: Path, *, default_name: str) -> FrontMatter:
    """Raises BadFile."""
    fields, body = split_front_matter(_read_text(path))
    name, description = fields.get("name", default_name), fields.get("description")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        given = repr(name[:NAME_SHOWN]) if isinstance(name, str) else type(name).__name__
        raise InvalidFile(f"its name must be lower-case letters, digits and hyphens, not {given}")
    if not isinstance(description, str) or not description.strip():
        raise InvalidFile("it has no description, which says when to use it")
    said = show_controls(" ".join(description.split()))[:DESCRIPTION_CHARS]
    return FrontMatter(name, said, fields, show_controls(body.strip()))


def split_front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """The fields and what follows them. Raises BadFile."""
    found = _PARTS.match(text)
    try:
        fields = yaml.safe_load(found[1]) if found else None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        why = " ".join(str(error).split())[:ERROR_CHARS]
        raise InvalidFile(f"its front matter is not YAML: {why}") from error
    if found is None or not isinstance(fields, dict):
        raise InvalidFile("it does not begin with front matter: ---, name:, description:, ---")
    return fields, found[2]


def _read_text(path: Path) -> str:
    if not path.is_file():  # reading from a pipe could take for ever
        raise InvalidFile("it is no regular file")
    try:
        with path.open("rb") as file:
            return file.read(LIMIT_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise InvalidFile(error.strerror or str(error)) from error
