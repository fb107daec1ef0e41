"""Commands that the person or the project has written: Markdown files, each a prompt.

`$ARGUMENTS` stands for all that is typed behind the name, `$1` to `$9` for its words, `\\$` for a
dollar. Fields before the text are optional: `description`, and `argument-hint` for the list.
"""

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agentcli.agent import front_matter
from agentcli.agent.front_matter import InvalidFile
from agentcli.types.errors import UsageError

COMMAND_NAME = re.compile(r"[A-Za-z0-9][\w:.-]{0,63}")
HELP_CHARS = 60

_GAP = re.compile(r"\\\$|\$ARGUMENTS\b|\$([1-9])(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCommand:
    name: str
    description: str
    usage: str
    """The arguments it takes, for the list."""
    text: str

    def build_prompt(self, arguments: str) -> str:
        """Raises UsageError where an argument is missing."""
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
    """By file name. `taken`: names that mean something else. And what is wrong with the others."""
    found: list[CustomCommand] = []
    bad: list[str] = []
    for file, text in sorted(texts.items()):
        try:
            found.append(read_command(file.removesuffix(".md"), text, reserved=reserved))
        except InvalidFile as why:
            bad.append(f"{file}: {why}")
    return found, bad


def read_command(name: str, text: str, *, reserved: Collection[str] = ()) -> CustomCommand:
    """Raises BadFile."""
    if not COMMAND_NAME.fullmatch(name):
        raise InvalidFile("a command's name is letters, digits and - _ . :")
    if name in reserved:
        raise InvalidFile(f"there is a command /{name} already")
    fields, body = front_matter.split_front_matter(text) if text.startswith("---") else ({}, text)
    body = body.strip()
    if not body:
        raise InvalidFile("it has no text")
    described = fields.get("description") or body.splitlines()[0].lstrip("# ")
    usage = fields.get("argument-hint") or _derive_usage(body)
    if not isinstance(described, str) or not isinstance(usage, str):
        raise InvalidFile("description and argument-hint must be texts")
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
