"""Prompts that users and projects have written for a slash command, of agentcli and other agents.

`$ARGUMENTS`, `$1` to `$9` and `{{args}}` are replaced, and `\\$` is a dollar sign. Commands that a
prompt wants to run first are never run here: the model is told, and its calls pass the rules.
"""

import re
import shlex
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agentcli.agent.front_matter import (
    InvalidFile,
    read_words,
    split_front_matter,
)
from agentcli.agent.markdown_files import Skill
from agentcli.system.lazy import compile_later
from agentcli.types.errors import UsageError

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
    return _build_command(name, fields, body, reserved=reserved)


def read_toml_command(name: str, text: str, *, reserved: Collection[str] = ()) -> CustomCommand:
    """Read one command in TOML (`prompt`, `description`); raise InvalidFile."""
    try:
        fields = tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidFile(f"it is not TOML: {' '.join(str(error).split())[:200]}") from error
    prompt = fields.get("prompt")
    if not isinstance(prompt, str):
        raise InvalidFile("it has no prompt")
    return _build_command(name, fields, prompt, reserved=reserved)


def _build_command(
    name: str, fields: Mapping[str, Any], body: str, *, reserved: Collection[str]
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
