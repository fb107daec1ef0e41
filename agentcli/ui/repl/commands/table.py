"""All slash commands of a session, in the order of the menu. The user's own come last."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from agentcli.agent.markdown_files import LIMIT_BYTES, CustomCommand, find_skills, read_commands
from agentcli.session.context_sources import find_skill_folders
from agentcli.session.features import SLASH_COMMANDS, SlashEntry
from agentcli.session.project import load_project
from agentcli.settings import Settings, get_settings_file
from agentcli.system.plain_text import show_controls
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands import inspect, session
from agentcli.ui.repl.commands.registry import CommandHost, CommandRegistry, SlashCommand

# Commands and skills that the user and the project have written


FOLDER = "commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCommands:
    commands: list[SlashCommand]
    problems: list[str]


def load_user_commands(settings: Settings, *, used_names: Collection[str]) -> UserCommands:
    """Load the user's commands, then those of a trusted project. The first of a name wins."""
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    theirs = project.read_texts(FOLDER) if project else {}
    sources = {
        "yours": _read_texts(get_settings_file().with_name(FOLDER)),
        "project": {Path(name).name: text for name, text in theirs.items()},
    }
    found = UserCommands(commands=[], problems=[])
    for source, texts in sources.items():
        names = {*used_names, *(one.name for one in found.commands)}
        markdown = {name: text for name, text in texts.items() if name.endswith(".md")}
        commands, bad = read_commands(markdown, reserved=names)
        found.commands.extend(_build_slash_command(one, source) for one in commands)
        found.problems.extend(f"{source} {FOLDER}/{show_controls(problem)}" for problem in bad)
    return found


def build_skills_command(user_commands: UserCommands) -> SlashCommand:
    async def run(host: CommandHost, rest: str) -> None:
        skills, bad = find_skills(find_skill_folders(host.settings))
        rows = [(skill.name, skill.description) for skill in skills]
        rows += [(f"/{one.name} {one.usage}", one.help) for one in user_commands.commands]
        host.print_table(rows)
        for problem in (*(warned.message for warned in bad), *user_commands.problems):
            host.say(f"Not used: {escape(problem)}", "dim")
        if not rows:
            host.say("None yet: .agentcli/skills/NAME/SKILL.md, .agentcli/commands/NAME.md", "dim")

    return SlashCommand(name="skills", usage="", help="skills and your custom commands", run=run)


def _read_texts(folder: Path) -> dict[str, str]:
    texts = {}
    for path in sorted(folder.glob("*.md")):
        if path.is_file():
            with path.open("rb") as file:
                texts[path.name] = file.read(LIMIT_BYTES).decode("utf-8-sig", "replace")
    return texts


def _build_slash_command(command: CustomCommand, source: str) -> SlashCommand:
    async def run(host: CommandHost, rest: str) -> None:
        host.send(command.build_prompt(rest))

    shown = f"{source}: {show_controls(command.description)}"
    return SlashCommand(name=command.name, usage=show_controls(command.usage), help=shown, run=run)


# Commands of features, which are imported when they are used


def _build_feature_command(name: str, entry: SlashEntry) -> SlashCommand:
    word = name.replace("-", "_")

    async def run(host: CommandHost, rest: str) -> None:
        await getattr(import_module(entry.module), f"run_{word}")(host, rest)

    def list_arguments(host: CommandHost) -> Sequence[tuple[str, str]]:
        found: Sequence[tuple[str, str]]
        found = getattr(import_module(entry.module), f"list_{word}_arguments")(host)
        return found

    return SlashCommand(
        name=name,
        usage=entry.usage,
        help=entry.summary,
        run=run,
        list_arguments=list_arguments if entry.lists_arguments else None,
        works_alone=entry.works_alone,
    )


def build_registry(settings: Settings) -> CommandRegistry:
    found: list[SlashCommand] = []
    found += session.list_session_commands(found)
    found += (_build_feature_command(name, entry) for name, entry in SLASH_COMMANDS.items())
    found += inspect.list_inspect_commands()
    found += session.list_look_commands()
    found += session.list_memory_commands()
    own = load_user_commands(settings, used_names={"skills", *(one.name for one in found)})
    found += [build_skills_command(own), *own.commands]
    return CommandRegistry(found, problems=own.problems)
