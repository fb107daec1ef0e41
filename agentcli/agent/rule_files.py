"""Instructions for certain files, from `.claude/rules`, `.cursor/rules` and folders like them.

Their front matter says when they hold: always, for files that match, or when the model asks for
them by their description. One that only a user can mention is not sent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from agentcli.agent.front_matter import (
    DESCRIPTION_CHARS,
    InvalidFile,
    read_names,
    read_text,
    read_words,
    split_front_matter,
)
from agentcli.system.agent_files import RULES, expand_braces, is_inside, walk_files
from agentcli.system.plain_text import show_controls
from agentcli.types.events import ContextNote, NoteReason
from agentcli.types.words import pluralize

Applies = Literal["always", "files", "on request", "by mention"]

LISTED_LIMIT = 50
GLOBS_LIMIT = 50
_GLOB_KEYS = ("globs", "paths", "applyTo", "apply_to", "fileMatchPattern")
_WHEN: Mapping[str, Applies] = {
    "always_on": "always",
    "always": "always",
    "model_decision": "on request",
    "auto": "on request",
    "manual": "by mention",
}
"""The values of `trigger` and `inclusion`, by which some agents say when a rule holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    path: str
    """Its path from the root of the repository."""
    applies: Applies
    globs: tuple[str, ...] = ()
    """Patterns of the files that it is for, from the folder that it belongs to."""
    description: str = ""

    @property
    def folder(self) -> PurePosixPath:
        """The directory that it speaks for: the one with `.claude`, `.cursor` and the like."""
        parts = PurePosixPath(self.path).parts
        names = [PurePosixPath(folder).parts[0] for folder in RULES]
        at = next(at for at, part in enumerate(parts) if part in names)
        return PurePosixPath(*parts[:at])

    def covers(self, path: PurePosixPath) -> bool:
        """Return whether it is for this file. The path is from the root of the repository."""
        if not path.is_relative_to(self.folder):
            return False
        name = path.relative_to(self.folder)
        return any(_matches(name, glob) for glob in self.globs)


def find_rule_files(root: Path, folder: PurePosixPath) -> Iterator[RuleFile]:
    """Yield the rule files of a folder below the repository, as far as they can be read."""
    directory = root / folder
    if not is_inside(directory, root):
        return
    for name in walk_files(directory, (".md", ".mdc")):
        if is_inside(directory / name, root):
            yield read_rule_file(root, str(folder / name))


def read_rule_file(root: Path, path: str) -> RuleFile:
    """Read when a file holds. One that cannot be read always holds: reading it says why not."""
    try:
        fields = split_front_matter(read_text(root / path))[0]
    except InvalidFile:
        return RuleFile(path=path, applies="always")
    globs = _read_globs(fields)
    description = show_controls(read_words(fields.get("description")))[:DESCRIPTION_CHARS]
    return RuleFile(
        path=path,
        applies=_choose_when(path, fields, globs=globs, description=description),
        globs=globs,
        description=description,
    )


def _read_globs(fields: dict[str, Any]) -> tuple[str, ...]:
    written = next((fields[key] for key in _GLOB_KEYS if fields.get(key)), None)
    return tuple(show_controls(glob) for glob in read_names(written))[:GLOBS_LIMIT]


def _choose_when(
    path: str, fields: dict[str, Any], *, globs: tuple[str, ...], description: str
) -> Applies:
    always = fields.get("alwaysApply")
    written = _WHEN.get(read_words(fields.get("trigger") or fields.get("inclusion")))
    if written is not None:
        return "by mention" if written == "on request" and not description else written
    if always is True or any(glob in ("*", "**", "**/*") for glob in globs):
        return "always"
    if globs:
        return "files"
    if ".cursor/" not in f"/{path}" or not fields:
        return "always"
    return "on request" if description else "by mention"


def _matches(name: PurePosixPath, glob: str) -> bool:
    """Return whether a path matches, in bounded time. Without a slash, its last part does."""
    if "/" not in glob.strip("/"):
        glob = f"**/{glob}"
    return any(
        _match_parts(name.parts, one.strip("/").split("/"))
        for one in expand_braces(glob, limit=GLOBS_LIMIT)
    )


def _match_parts(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Match part by part. `reached` are the places in the pattern that the parts so far lead to."""
    reached = _skip_any(pattern, {0})
    for part in parts:
        after = {at for at in reached if at < len(pattern) and pattern[at] == "**"}
        after |= {
            at + 1
            for at in reached
            if at < len(pattern) and pattern[at] != "**" and fnmatchcase(part, pattern[at])
        }
        reached = _skip_any(pattern, after)
    return len(pattern) in reached


def _skip_any(pattern: Sequence[str], reached: set[int]) -> set[int]:
    """Add the places that are reached if `**` stands for no part at all."""
    found = set(reached)
    for at, part in enumerate(pattern):
        if at in found and part == "**":
            found.add(at + 1)
    return found


def build_rules_note(rules: Iterable[RuleFile]) -> ContextNote:
    """Return the list of rules that the model may read when they fit."""
    lines = [
        f"- {rule.description} ({show_controls(rule.path)})" for rule in list(rules)[:LISTED_LIMIT]
    ]
    text = "Rules of this project: read the file of one that fits the task.\n" + "\n".join(lines)
    loaded = f"a list of {pluralize(len(lines), 'rule')}"
    return ContextNote(text=text, why=NoteReason.INSTRUCTIONS, loaded=loaded)
