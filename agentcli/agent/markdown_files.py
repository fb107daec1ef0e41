"""Markdown files with front matter (`---`, YAML, `---`): skills, roles and custom commands."""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import yaml

from agentcli.agent.children import Role
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import UsageError
from agentcli.types.events import ContextNote, NoteReason, Warned

LIMIT_BYTES = 64_000
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
NAME_SHOWN = 80
INVALID_SHOWN = 5
"""The number of invalid files that are named; the rest is only counted."""
DESCRIPTION_CHARS = 1024
ERROR_CHARS = 300
LISTED_CHARS = 16_000

_PARTS = re.compile(r"---\r?\n(.*?)\r?\n---(?:\r?\n|$)(.*)", re.DOTALL)


class InvalidFile(ValueError):
    """A file that cannot be used; the message tells the user why."""


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
    """Read all files; the first of each name wins. An invalid file becomes a warning of `code`."""
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
    """Limit a list that is part of every request; a last line counts what is left out."""
    told: list[str] = []
    left_chars = LISTED_CHARS
    for line in lines:
        left_chars -= len(line)
        if left_chars < 0:
            return [*told, f"- and {len(lines) - len(told)} more, which are not listed"]
        told.append(line)
    return told


def read_front_matter(path: Path, *, default_name: str) -> FrontMatter:
    """Read a file with name and description; raise InvalidFile if it cannot be used."""
    fields, body = split_front_matter(_read_text(path))
    name, description = fields.get("name", default_name), fields.get("description")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        given = repr(name[:NAME_SHOWN]) if isinstance(name, str) else type(name).__name__
        raise InvalidFile(f"its name must be lower-case letters, digits and hyphens, not {given}")
    if not isinstance(description, str) or not description.strip():
        raise InvalidFile("it has no description")
    said = show_controls(" ".join(description.split()))[:DESCRIPTION_CHARS]
    return FrontMatter(name, said, fields, show_controls(body.strip()))


def split_front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """Return the fields and the text after them; raise InvalidFile."""
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
    if not path.is_file():  # reading from a pipe could block for ever
        raise InvalidFile("it is not a regular file")
    try:
        with path.open("rb") as file:
            return file.read(LIMIT_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise InvalidFile(error.strerror or str(error)) from error


# Skills: folders with a SKILL.md. Only name, description and path are sent until one is read.


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    path: Path
    """The path of its SKILL.md."""


def find_skills(folders: Iterable[Path]) -> tuple[list[Skill], list[Warned]]:
    """Return the skills of all folders, and warnings; the first of each name wins."""
    paths = (path for folder in folders for path in sorted(folder.glob("*/SKILL.md")))
    return read_all(paths, read_skill, code="skill.invalid")


def read_skill(path: Path) -> Skill:
    """Read one SKILL.md; raise InvalidFile if it cannot be used."""
    described = read_front_matter(path, default_name=path.parent.name)
    return Skill(name=described.name, description=described.description, path=path)


def build_skills_note(skills: Iterable[Skill]) -> ContextNote:
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
    listed = "\n".join(limit_lines(lines))
    text = f"Skills: when one fits the task, read its file first and follow it.\n{listed}"
    return ContextNote(text=text, why=NoteReason.INSTRUCTIONS)


# Roles for child agents, from Markdown files: purpose, instructions and tools.


_TOOL_ALIASES = {
    "Read": "read_file",
    "Grep": "grep",
    "Glob": "find_files",
    "Bash": "bash",
    "Edit": "edit_file",
    "Write": "write_file",
}
"""The names that other programs use for the same tools in such files."""


def find_roles(
    folders: Iterable[Path], *, tools: Collection[str]
) -> tuple[list[Role], list[Warned]]:
    """Return the roles of all folders, and warnings; the first of each name wins.

    `tools` are the names a role may use, besides tools of servers, which may be known later."""
    paths = (path for folder in folders for path in sorted(folder.glob("*.md")))
    return read_all(paths, partial(read_role, tools=tools), code="role.invalid")


def read_role(path: Path, *, tools: Collection[str]) -> Role:
    """Read one role; raise InvalidFile if it cannot be used."""
    described = read_front_matter(path, default_name=path.stem.lower())
    return Role(
        name=described.name,
        description=described.description,
        instructions=described.body,
        tools=_parse_tools(described.fields.get("tools"), known=tools),
    )


def _normalise_tool_name(name: str) -> str:
    return _TOOL_ALIASES.get(name, name.removeprefix("mcp__"))


def build_roles_note(roles: Iterable[Role]) -> ContextNote:
    lines = [f"- {role.name}: {role.description}" for role in roles]
    listed = "\n".join(limit_lines(lines))
    return ContextNote(text=f"Roles for delegate:\n{listed}", why=NoteReason.INSTRUCTIONS)


def _parse_tools(value: Any, *, known: Collection[str]) -> tuple[str, ...] | None:
    """Parse a list, or names separated by commas; raise InvalidFile for an unknown tool."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidFile("tools must be comma-separated names")
    names = [_normalise_tool_name(name.strip()) for name in names]
    unknown = [name for name in names if name not in known and "__" not in name]
    if unknown:
        raise InvalidFile(
            f"unknown tool {unknown[0][:NAME_SHOWN]!r}; the tools are {', '.join(known)}"
        )
    return tuple(dict.fromkeys(names))


# Custom commands of the user or the project. `$ARGUMENTS`, `$1` to `$9` and `\$` are replaced.


COMMAND_NAME = re.compile(r"[A-Za-z0-9][\w:.-]{0,63}")
HELP_CHARS = 60

_GAP = re.compile(r"\\\$|\$ARGUMENTS\b|\$([1-9])(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCommand:
    name: str
    description: str
    usage: str
    """The arguments, as shown in the list of commands."""
    text: str

    def build_prompt(self, arguments: str) -> str:
        """Fill in the arguments; raise UsageError if one is missing."""
        words = _split_words(arguments)
        needed = max((int(gap[1] or 0) for gap in _GAP.finditer(self.text)), default=0)
        if len(words) < needed:
            raise UsageError(
                f"/{self.name} needs {needed} arguments", hint=f"/{self.name} {self.usage}"
            )

        def fill_gap(gap: re.Match[str]) -> str:
            if gap[0] == "\\$":
                return "$"
            return words[int(gap[1]) - 1] if gap[1] else arguments

        has_gap = any(gap[0] != "\\$" for gap in _GAP.finditer(self.text))
        prompt = _GAP.sub(fill_gap, self.text)
        return prompt if has_gap or not arguments else f"{prompt}\n\n{arguments}"


def read_commands(
    texts: Mapping[str, str], *, reserved: Collection[str]
) -> tuple[list[CustomCommand], list[str]]:
    """Read commands by file name; return them and what is wrong with the other files.

    `reserved` are names that already have a meaning."""
    found: list[CustomCommand] = []
    bad: list[str] = []
    for file, text in sorted(texts.items()):
        try:
            found.append(read_command(file.removesuffix(".md"), text, reserved=reserved))
        except InvalidFile as why:
            bad.append(f"{file}: {why}")
    return found, bad


def read_command(name: str, text: str, *, reserved: Collection[str] = ()) -> CustomCommand:
    """Read one command; raise InvalidFile if it cannot be used."""
    if not COMMAND_NAME.fullmatch(name):
        raise InvalidFile("a command name may have letters, digits and - _ . :")
    if name in reserved:
        raise InvalidFile(f"a command /{name} already exists")
    fields, body = split_front_matter(text) if text.startswith("---") else ({}, text)
    body = body.strip()
    if not body:
        raise InvalidFile("it has no text")
    described = fields.get("description") or body.splitlines()[0].lstrip("# ")
    usage = fields.get("argument-hint") or _derive_usage(body)
    if not isinstance(described, str) or not isinstance(usage, str):
        raise InvalidFile("description and argument-hint must be strings")
    description = " ".join(described.split())[:HELP_CHARS]
    return CustomCommand(name=name, description=description, usage=usage[:HELP_CHARS], text=body)


def _derive_usage(text: str) -> str:
    numbers = [int(gap[1]) for gap in _GAP.finditer(text) if gap[1]]
    return (
        " ".join(f"ARG{number}" for number in range(1, max(numbers) + 1)) if numbers else "[TEXT]"
    )


def _split_words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe, not a quotation
        return arguments.split()
