"""What the person and the project have written for the session: commands, and skills to list."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent.front_matter import LIMIT_BYTES
from agentcli.agent.own_commands import OwnCommand, read_commands
from agentcli.agent.skills import find_skills
from agentcli.app.briefing import skill_folders
from agentcli.app.project import open_project
from agentcli.machine.plain import visible
from agentcli.settings import Settings, settings_file
from agentcli.ui.render.escape import escape
from agentcli.ui.repl.desk import Desk, SlashCommand

FOLDER = "commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    commands: list[SlashCommand]
    problems: list[str]


def own_commands(settings: Settings, *, taken: Collection[str]) -> Found:
    """The person's, then those of a project that is trusted; the first of a name wins."""
    project = open_project(settings.workspace, trust_project=settings.trust_project)
    theirs = project.texts(FOLDER) if project else {}
    sources = {
        "yours": _texts(settings_file().with_name(FOLDER)),
        "project": {Path(name).name: text for name, text in theirs.items()},
    }
    found = Found(commands=[], problems=[])
    for source, texts in sources.items():
        names = {*taken, *(one.name for one in found.commands)}
        markdown = {name: text for name, text in texts.items() if name.endswith(".md")}
        commands, bad = read_commands(markdown, taken=names)
        found.commands.extend(_slash_command(one, source) for one in commands)
        found.problems.extend(f"{source} {FOLDER}/{visible(problem)}" for problem in bad)
    return found


def skills_command(own: Found) -> SlashCommand:
    async def run(desk: Desk, rest: str) -> None:
        skills, bad = find_skills(skill_folders(desk.settings))
        rows = [(skill.name, skill.description) for skill in skills]
        rows += [(f"/{one.name} {one.usage}", one.help) for one in own.commands]
        desk.table(rows)
        for problem in (*(warned.message for warned in bad), *own.problems):
            desk.say(f"not used: {escape(problem)}", "dim")
        if not rows:
            desk.say("none yet: .agentcli/skills/NAME/SKILL.md, .agentcli/commands/NAME.md", "dim")

    return SlashCommand(
        name="skills", usage="", help="what the model can read up on, and your commands", run=run
    )


def _texts(folder: Path) -> dict[str, str]:
    texts = {}
    for path in sorted(folder.glob("*.md")):
        if path.is_file():
            with path.open("rb") as file:
                texts[path.name] = file.read(LIMIT_BYTES).decode("utf-8-sig", "replace")
    return texts


def _slash_command(command: OwnCommand, source: str) -> SlashCommand:
    async def run(desk: Desk, rest: str) -> None:
        desk.send(command.prompt(rest))

    shown = f"{source}: {visible(command.description)}"
    return SlashCommand(name=command.name, usage=visible(command.usage), help=shown, run=run)
