"""The prompts that can be called by name: commands of the user and the project, and skills.

The user's own come first, then those of plugins and of a trusted project, then skills. The first of
a name wins, and the others are named. Skills need no trust: their text goes to the model in any
case.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.front_matter import InvalidFile, read_text
from agentcli.agent.markdown_files import (
    CustomCommand,
    SourceFolder,
    build_skill_command,
    find_skills,
    read_commands,
)
from agentcli.session.context_sources import build_source_folders, find_skill_folders
from agentcli.session.plugins import fill_places, iter_commands, load_plugins
from agentcli.session.project import Project, load_project
from agentcli.settings import get_user_directory
from agentcli.system.agent_files import PROMPT_SUFFIXES, list_user_folders, walk_files
from agentcli.system.files import is_directory, shorten_home
from agentcli.system.plain_text import show_controls
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.settings import Settings

if TYPE_CHECKING:
    from agentcli.permissions.plugin_files import PluginFiles

FOLDER = "commands"
PROBLEMS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCommand:
    command: CustomCommand
    source: str
    """Where it comes from, in a word: yours, plugin, project or skill."""
    where: str
    """The folder or file that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCommands:
    commands: list[PromptCommand]
    problems: list[str]
    """Files that cannot be used, each with the reason."""
    bad_skills: list[str]
    """Skills that cannot be used. A session warns of them in any case."""

    @property
    def shown_problems(self) -> list[str]:
        """The first problems, and the number of the others."""
        more = len(self.problems) - PROBLEMS_SHOWN
        return [*self.problems[:PROBLEMS_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def load_prompt_commands(settings: Settings, *, used_names: Collection[str] = ()) -> PromptCommands:
    """Load all commands and skills. `used_names` already have a meaning."""
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    plugins = load_plugins().plugins
    found = PromptCommands(commands=[], problems=[], bad_skills=[])
    for source, where, texts in (*_read_own(), *_read_plugins(plugins), *_read_project(project)):
        names = {*used_names, *(one.command.name for one in found.commands)}
        commands, bad = read_commands(texts, reserved=names)
        found.commands.extend(
            PromptCommand(command=one, source=source, where=where) for one in commands
        )
        found.problems.extend(f"{where}/{show_controls(problem)}" for problem in bad)
    folders = build_source_folders(
        find_skill_folders(settings, plugins), settings=settings, plugins=plugins
    )
    _add_skills(found, folders, used_names=used_names)
    return found


def _add_skills(
    found: PromptCommands, folders: Sequence[SourceFolder], *, used_names: Collection[str]
) -> None:
    skills, bad = find_skills(folders)
    found.bad_skills.extend(one.message for one in bad if one.code == "skill.invalid")
    for skill in skills:
        if not skill.is_callable:
            continue
        names = {*used_names, *(one.command.name for one in found.commands)}
        if skill.name in names:
            found.problems.append(f"skill {skill.name}: the command /{skill.name} wins over it")
            continue
        found.commands.append(
            PromptCommand(command=build_skill_command(skill), source="skill", where=str(skill.path))
        )


def _read_own() -> Iterator[tuple[str, str, Mapping[str, str]]]:
    yield "yours", f"yours {FOLDER}", _read_texts(get_user_directory() / FOLDER)
    for folder in list_user_folders(FOLDER):
        if is_directory(folder):
            yield "yours", shorten_home(folder), _read_texts(folder)


def _read_plugins(
    plugins: "Sequence[PluginFiles]",
) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    for plugin in plugins:
        texts = {}
        for name, path in iter_commands(plugin):
            try:
                texts[name] = fill_places(plugin, read_text(path))
            except InvalidFile:  # not a regular file, or binary: it cannot be a prompt
                continue
        yield "plugin", f"plugin {plugin.name}", texts


def _read_project(project: Project | None) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    if project is None:
        return
    own = project.read_texts(FOLDER)
    yield "project", f"project {FOLDER}", {Path(name).name: text for name, text in own.items()}
    for folder, texts in project.read_foreign_commands().items():
        yield "project", folder, texts


def _read_texts(folder: Path) -> dict[str, str]:
    texts = {}
    for name in walk_files(folder, PROMPT_SUFFIXES):
        try:
            texts[name] = read_text(folder / name)
        except InvalidFile:  # not a regular file, or binary: it cannot be a prompt
            continue
    return texts
