"""Skills: folders with a SKILL.md that says what it is for. The model reads one when it fits.

Only name, description and path are told; whatever else a skill holds costs nothing until then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent import front_matter
from agentcli.types.events import ContextNote, NoteReason, Warned


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    path: Path
    """Of its SKILL.md."""


def find_skills(folders: Iterable[Path]) -> tuple[list[Skill], list[Warned]]:
    """All of the folders', the first of a name winning; and what is wrong with the others."""
    paths = (path for folder in folders for path in sorted(folder.glob("*/SKILL.md")))
    return front_matter.read_all(paths, read_skill, code="skill.invalid")


def read_skill(path: Path) -> Skill:
    """Raises BadFile."""
    described = front_matter.read_front_matter(path, default_name=path.parent.name)
    return Skill(name=described.name, description=described.description, path=path)


def build_skills_note(skills: Iterable[Skill]) -> ContextNote:
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
    listed = "\n".join(front_matter.limit_lines(lines))
    text = f"Skills: when one fits the task, read its file first and follow it.\n{listed}"
    return ContextNote(text=text, why=NoteReason.INSTRUCTIONS)
