"""Markdown files that begin with fields: `---`, YAML, `---`. Skills and roles are such files."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import yaml

from agentcli.types.events import Warned

LIMIT_BYTES = 64_000
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
DESCRIPTION_CHARS = 1024

_PARTS = re.compile(r"---\r?\n(.*?)\r?\n---(?:\r?\n|$)(.*)", re.DOTALL)


class BadFile(ValueError):
    """What is wrong with it, for the person."""


class Described(NamedTuple):
    name: str
    description: str
    fields: Mapping[str, Any]
    body: str


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def read_all(
    paths: Iterable[Path], read_one: Callable[[Path], N], *, code: str
) -> tuple[list[N], list[Warned]]:
    """The first of each name wins. What is wrong with a file is a warning of that code."""
    found: dict[str, N] = {}
    bad: list[Warned] = []
    for path in paths:
        try:
            one = read_one(path)
        except BadFile as why:
            bad.append(Warned(code=code, message=f"{path}: {why}"))
            continue
        found.setdefault(one.name, one)
    return list(found.values()), bad


def read(path: Path, *, default_name: str) -> Described:
    """Raises BadFile."""
    fields, body = _parts(path)
    name, description = fields.get("name", default_name), fields.get("description")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadFile(f"its name must be lower-case letters, digits and hyphens, not {name!r}")
    if not isinstance(description, str) or not description.strip():
        raise BadFile("it has no description, which says when to use it")
    return Described(name, " ".join(description.split())[:DESCRIPTION_CHARS], fields, body.strip())


def _parts(path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        with path.open("rb") as file:
            text = file.read(LIMIT_BYTES).decode("utf-8", "replace")
        parts = _PARTS.match(text)
        fields = yaml.safe_load(parts[1]) if parts else None
    except OSError as error:
        raise BadFile(error.strerror or str(error)) from error
    except yaml.YAMLError as error:
        raise BadFile(f"its front matter is not YAML: {' '.join(str(error).split())}") from error
    if parts is None or not isinstance(fields, dict):
        raise BadFile("it does not begin with front matter: ---, name:, description:, ---")
    return fields, parts[2]
