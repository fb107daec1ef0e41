"""Skills, roles and commands of users and projects: Markdown files with front matter."""

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from agentcli.agent.children import EVERY_TOOL, Role
from agentcli.agent.front_matter import (
    NAME_SHOWN,
    InvalidFile,
    read_all,
    read_front_matter,
    read_names,
    read_words,
    split_front_matter,
)
from agentcli.system.agent_files import is_inside, walk_files
from agentcli.system.files import is_file
from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import UsageError
from agentcli.types.events import ContextNote, NoteReason, Warned
from agentcli.types.own_tools import find_own_tools
from agentcli.types.words import pluralize

LISTED_CHARS = 16_000
ISOLATED = "worktree"
"""The isolation of a role that works in a git worktree of its own."""
INHERITING = ("claude", "opencode", "cursor", "gemini", "github")
"""The programs whose roles have all tools of their parent if they name none."""


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """A folder of skills or roles. `root` is the repository that it must not lead out of."""

    path: Path
    root: Path | None = None
    """None for a folder of the user's own."""
    plugin: str = ""
    """The plugin that brings the folder. Its name is put before the names of what is in it."""

    @property
    def kind(self) -> str:
        return "plugin" if self.plugin else "repository"

    def build_name(self, name: str) -> str:
        """Return the full name of a skill or role in the folder: `plugin:name`."""
        return f"{self.plugin}:{name}" if self.plugin else name

    def check(self, path: Path) -> None:
        """Raise InvalidFile for a file of a repository that is somewhere else."""
        if self.root is not None and not is_inside(path, self.root):
            raise InvalidFile(f"it is a link that leads out of the {self.kind}")


def limit_lines(lines: Sequence[str]) -> list[str]:
    """Limit a list that is part of every request; a last line counts what is left out."""
    lines_shown: list[str] = []
    left_chars = LISTED_CHARS
    for line in lines:
        left_chars -= len(line)
        if left_chars < 0:
            return [
                *lines_shown,
                f"- and {len(lines) - len(lines_shown)} more, which are not listed",
            ]
        lines_shown.append(line)
    return lines_shown


# Skills: folders with a SKILL.md. Only name, description and path are sent until one is read.


_SKILL_KEYS = (
    *("argument-hint", "arguments", "disable-model-invocation", "user-invocable"),
    *("when_to_use", "when-to-use"),
)
_GRANTS_NOTHING = "allowed-tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    path: Path
    """The path of its SKILL.md."""
    usage: str = ""
    """The arguments that it takes when it is called by name."""
    is_listed: bool = True
    """False if only the user may call it."""
    is_callable: bool = True
    """False if only the model may use it."""
    left_out: tuple[str, ...] = ()
    """What the file says that has no effect here."""


def find_skills(folders: Iterable[SourceFolder]) -> tuple[list[Skill], list[Warned]]:
    """Return the skills of all folders, and warnings; the first of each name wins."""
    checks: dict[Path, SourceFolder] = {}
    for folder in folders:
        for path in list_skill_files(folder):
            checks.setdefault(path, folder)

    def read_one(path: Path) -> Skill:
        checks[path].check(path)
        skill = read_skill(path)
        return replace(skill, name=checks[path].build_name(skill.name))

    return read_all(checks, read_one, kind="skill")


def list_skill_files(folder: SourceFolder) -> list[Path]:
    """Return the skills in a folder. That of a plugin may be the folder of one skill."""
    own = [folder.path / "SKILL.md"] if folder.plugin else []
    found = sorted(folder.path.glob("*/[Ss][Kk][Ii][Ll][Ll].md"))
    return [*(path for path in own if is_file(path)), *found]


def read_skill(path: Path) -> Skill:
    """Read one SKILL.md; raise InvalidFile if it cannot be used."""
    described = read_front_matter(path, default_name=path.parent.name)
    fields = described.fields
    when = read_words(fields.get("when_to_use") or fields.get("when-to-use"))
    return Skill(
        name=described.name,
        description=f"{described.description} {when}".strip(),
        path=path,
        usage=read_words(fields.get("argument-hint") or fields.get("arguments")),
        is_listed=fields.get("disable-model-invocation") is not True,
        is_callable=fields.get("user-invocable") is not False,
        left_out=described.list_unknown(_SKILL_KEYS),
    )


def build_skills_note(skills: Iterable[Skill]) -> ContextNote:
    lines = [
        f"- {skill.name}: {skill.description} ({show_controls(str(skill.path))})"
        for skill in skills
        if skill.is_listed
    ]
    listed = "\n".join(limit_lines(lines))
    text = f"Skills: when one fits the task, read its file first and follow it.\n{listed}"
    loaded = pluralize(len(lines), "skill")
    return ContextNote(text=text, why=NoteReason.INSTRUCTIONS, loaded=loaded)


# Roles for child agents, from Markdown files: purpose, instructions and tools.


_ROLE_KEYS = (
    *("tools", "disallowedTools", "disallowed-tools", "disable", "model", "effort", "mode"),
    *("prompt", "isolation", "background"),
)
_OWN_MODEL = ("", "inherit", "default", "auto")
"""The models of such a file that are the session's own."""


def find_roles(
    folders: Iterable[SourceFolder], *, tools: Collection[str]
) -> tuple[list[Role], list[Warned]]:
    """Return the roles of all folders, and warnings; the first of each name wins.

    `tools` are the names a role may use, besides tools of servers, which may be known later."""
    checks: dict[Path, SourceFolder] = {}
    for folder in folders:
        for path in list_role_files(folder):
            checks.setdefault(path, folder)

    def read_one(path: Path) -> Role:
        checks[path].check(path)
        role = read_role(path, tools=tools, inherits=inherits_tools(checks[path]))
        return replace(role, name=checks[path].build_name(role.name))

    return read_all(checks, read_one, kind="role")


def list_role_files(folder: SourceFolder) -> list[Path]:
    if is_file(folder.path):
        return [folder.path]
    names = walk_files(folder.path, [".md"])
    return [folder.path / name for name in names if not name.lower().endswith("readme.md")]


def inherits_tools(folder: SourceFolder) -> bool:
    """Return whether a role of this folder that names no tools has all of its parent's."""
    return bool(folder.plugin) or folder.path.parent.name.lstrip(".") in INHERITING


def read_role(path: Path, *, tools: Collection[str], inherits: bool = False) -> Role:
    """Read one role; raise InvalidFile if it cannot be used.

    `inherits` is True if a role that names no tools has all tools of its parent."""
    described = read_front_matter(path, default_name=path.stem.removesuffix(".agent"))
    fields = described.fields
    if fields.get("disable") is True:
        raise InvalidFile("it is disabled")
    isolation = read_words(fields.get("isolation"))
    is_isolated = isolation == ISOLATED
    chosen = _choose_tools(fields, known=tools, inherits=inherits or is_isolated)
    unknown = [f"isolation {isolation}"] if isolation and not is_isolated else []
    model = read_words(fields.get("model"))
    return Role(
        name=described.name,
        description=described.description,
        instructions=described.body,
        tools=chosen.tools,
        without=chosen.without,
        left_out=(*chosen.left_out, *unknown, *described.list_unknown(_ROLE_KEYS)),
        model="" if model.lower() in _OWN_MODEL else model,
        effort=read_words(fields.get("effort")),
        is_isolated=is_isolated,
        is_background=fields.get("background") is True,
    )


def build_roles_note(roles: Iterable[Role]) -> ContextNote:
    lines = [f"- {role.name}: {role.description}{_describe_place(role)}" for role in roles]
    listed = "\n".join(limit_lines(lines))
    text, loaded = f"Roles for delegate:\n{listed}", pluralize(len(lines), "role")
    return ContextNote(text=text, why=NoteReason.INSTRUCTIONS, loaded=loaded)


def _describe_place(role: Role) -> str:
    words = [
        *(["works beside you; you get a note when it ends"] if role.is_background else []),
        *(["in a worktree, its changes come as a patch"] if role.is_isolated else []),
    ]
    return f" ({', '.join(words)})" if words else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChosenTools:
    tools: tuple[str, ...] | None
    without: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def _choose_tools(
    fields: Mapping[str, Any], *, known: Collection[str], inherits: bool
) -> _ChosenTools:
    """Return the tools of a role. Unknown ones are left out, and named."""
    written = fields.get("tools")
    refused = read_names(fields.get("disallowedTools") or fields.get("disallowed-tools"))
    if isinstance(written, dict):  # which of the parent's tools are on or off
        refused += [str(name) for name, is_on in written.items() if is_on is False]
        written = None
        inherits = True
    names = read_names(written)
    default = (EVERY_TOOL,) if inherits else None
    without = tuple(one for name in refused for one in translate_tool(name, known))
    if not names:
        return _ChosenTools(tools=default, without=without)
    if "*" in names:
        return _ChosenTools(tools=(EVERY_TOOL,), without=without)
    found = {name: translate_tool(name, known) for name in names}
    unknown = [
        f"tool {show_controls(name)[:NAME_SHOWN]}" for name, ours in found.items() if not ours
    ]
    limited = [
        f"the limit of {show_controls(name)[:NAME_SHOWN]}"
        for name, ours in found.items()
        if ours and "(" in name
    ]
    tools = tuple(dict.fromkeys(one for ours in found.values() for one in ours))
    return _ChosenTools(tools=tools or None, without=without, left_out=(*unknown, *limited))


def translate_tool(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return our tools for a name that a file uses; empty if there is none."""
    plain = re.sub(r"\(.*", "", name, flags=re.DOTALL).strip()
    if plain in known:
        return (plain,)
    if "__" in plain:  # a tool of a server, which may be known later
        return (plain.removeprefix("mcp__"),)
    return tuple(find_own_tools(plain, known))[:1]


# Prompts that users and projects have written for a slash command, of agentcli and other agents.
#
# `$ARGUMENTS`, `$1` to `$9` and `{{args}}` are replaced, and `\$` is a dollar sign. Commands that a
# prompt wants to run first are never run here: the model is told, and its calls pass the rules.


NAME_CHARS = 64
HELP_CHARS = 60

_GAP = compile_later(r"\\\$|\$ARGUMENTS\b|\{\{args\}\}|\$([1-9])(?!\d)")
_NOT_IN_NAMES = compile_later(r"[^\w:.-]+")
_RUNS_FIRST = compile_later(r"!`[^`\n]+`|!\{[^}\n]+\}")
_RUN_NOTE = (
    "Where it says !`COMMAND` or !{COMMAND}, the output of that command belongs: run it with bash "
    "first."
)
_KEYS = ("description", "argument-hint", "name", "prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCommand:
    name: str
    description: str
    usage: str
    """The arguments, as shown in the list of commands."""
    text: str
    left_out: tuple[str, ...] = ()
    """What the file says that has no effect here."""

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
        if _RUNS_FIRST.search(self.text):
            prompt = f"{prompt}\n\n{_RUN_NOTE}"
        return prompt if has_gap or not arguments else f"{prompt}\n\n{arguments}"


def read_commands(
    texts: Mapping[str, str], *, reserved: Collection[str]
) -> tuple[list[CustomCommand], list[str]]:
    """Read commands by file name; return them and what is wrong with the other files.

    `reserved` are names that already have a meaning."""
    found: list[CustomCommand] = []
    bad: list[str] = []
    for file, text in sorted(texts.items()):
        path = PurePosixPath(file)
        name = ":".join(path.with_suffix("").parts).removesuffix(".prompt")
        read = read_toml_command if path.suffix.lower() == ".toml" else read_command
        if path.name.lower() == "readme.md":
            continue
        try:
            command = read(name, text, reserved={*reserved, *(one.name for one in found)})
        except InvalidFile as why:
            bad.append(f"{file}: {why}")
        else:
            found.append(command)
    return found, bad


def read_command(name: str, text: str, *, reserved: Collection[str] = ()) -> CustomCommand:
    """Read one command in Markdown; raise InvalidFile if it cannot be used."""
    fields, body = split_front_matter(text)
    return _build_command(name, fields, body=body, reserved=reserved)


def read_toml_command(name: str, text: str, *, reserved: Collection[str] = ()) -> CustomCommand:
    """Read one command in TOML (`prompt`, `description`); raise InvalidFile."""
    try:
        fields = tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidFile(f"it is not TOML: {' '.join(str(error).split())[:200]}") from error
    prompt = fields.get("prompt")
    if not isinstance(prompt, str):
        raise InvalidFile("it has no prompt")
    return _build_command(name, fields, body=prompt, reserved=reserved)


def _build_command(
    name: str, fields: Mapping[str, Any], *, body: str, reserved: Collection[str]
) -> CustomCommand:
    name = _NOT_IN_NAMES.sub("-", name).strip("-.:")[:NAME_CHARS]
    if not name:
        raise InvalidFile("its name has neither letters nor digits")
    if name in reserved:
        raise InvalidFile(f"a command /{name} already exists")
    body = body.strip()
    if not body:
        raise InvalidFile("it has no text")
    described = read_words(fields.get("description")) or body.splitlines()[0].lstrip("# ")
    usage = _read_usage(fields.get("argument-hint")) or _derive_usage(body)
    return CustomCommand(
        name=name,
        description=described[:HELP_CHARS],
        usage=usage[:HELP_CHARS],
        text=body,
        left_out=tuple(f"key {key}" for key in fields if key not in _KEYS),
    )


def build_skill_command(skill: Skill) -> CustomCommand:
    """Return the command that calls a skill by its name, with arguments."""
    return CustomCommand(
        name=skill.name,
        description=skill.description[:HELP_CHARS],
        usage=(skill.usage or "[TEXT]")[:HELP_CHARS],
        text=f"Use the skill {skill.name}: read {skill.path} first and follow it.",
        left_out=skill.left_out,
    )


def _read_usage(written: Any) -> str:
    """Return the hint as written. In YAML `[FILE] [WORDS]` without quotes begins a list."""
    if isinstance(written, list) and all(isinstance(one, str) for one in written):
        return f"[{', '.join(written)}]"
    return read_words(written)


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
