"""Roles for child agents, from Markdown files: what one is for, is told, and may use."""

from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from agentcli.agent import front_matter
from agentcli.agent.children import Role
from agentcli.agent.front_matter import NAME_SHOWN, InvalidFile
from agentcli.types.events import ContextNote, NoteReason, Warned

_TOOL_ALIASES = {
    "Read": "read_file",
    "Grep": "grep",
    "Glob": "find_files",
    "Bash": "bash",
    "Edit": "edit_file",
    "Write": "write_file",
}
"""What other programs that read such files call the same tools."""


def find_roles(
    folders: Iterable[Path], *, tools: Collection[str]
) -> tuple[list[Role], list[Warned]]:
    """All of the folders', the first of a name winning; and what is wrong with the others.

    `tools`: the names a role may ask for, besides those of servers, which may be known later."""
    paths = (path for folder in folders for path in sorted(folder.glob("*.md")))
    return front_matter.read_all(paths, partial(read_role, tools=tools), code="role.invalid")


def read_role(path: Path, *, tools: Collection[str]) -> Role:
    """Raises BadFile."""
    described = front_matter.read_front_matter(path, default_name=path.stem.lower())
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
    listed = "\n".join(front_matter.limit_lines(lines))
    return ContextNote(text=f"Roles for delegate:\n{listed}", why=NoteReason.INSTRUCTIONS)


def _parse_tools(value: Any, *, known: Collection[str]) -> tuple[str, ...] | None:
    """A list, or names with commas between them."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidFile("tools must be names with commas between them")
    names = [_normalise_tool_name(name.strip()) for name in names]
    unknown = [name for name in names if name not in known and "__" not in name]
    if unknown:
        raise InvalidFile(
            f"there is no tool {unknown[0][:NAME_SHOWN]!r}; the tools are {', '.join(known)}"
        )
    return tuple(dict.fromkeys(names))
