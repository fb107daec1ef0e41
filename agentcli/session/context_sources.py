"""The context of a model besides prompts: instructions and skills of the user and the project."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.context_notes import EnvironmentNotes, PlanTracker
from agentcli.agent.instructions import InstructionFiles
from agentcli.session.configuration import Configuration
from agentcli.settings import get_user_directory
from agentcli.system.agent_files import (
    ROLES,
    SKILLS,
    is_inside,
    list_levels,
    list_user_folders,
)
from agentcli.system.files import is_directory, is_file
from agentcli.system.lazy import compile_later
from agentcli.tools.contracts import DELEGATE, load_spec
from agentcli.types.events import CallFinished, CallJudged, ContextNote, Event, Fact, Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.settings import Settings
from agentcli.types.tools import Command, ToolResult, ToolSpec

if TYPE_CHECKING:
    from agentcli.agent.children import Role
    from agentcli.agent.markdown_files import SourceFolder
    from agentcli.permissions.plugin_files import PluginFiles


SCANNED_CHARS = 2_000
_WORD = compile_later(r"[^\s'\"`|&;<>()$=,]{1,255}")
_PATCHED = compile_later(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def find_skill_folders(settings: Settings, plugins: "Sequence[PluginFiles]") -> tuple[Path, ...]:
    """Return the folders of skills: the user's, of plugins, of the repository, nearest first."""
    return (
        *_find_user_folders("skills"),
        *(folder for plugin in plugins for folder in plugin.skills),
        *_find_project_folders(settings, SKILLS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableFolders:
    """The session's outputs, skills and plugins, which may be outside the workspace."""

    by_tools: tuple[Path, ...]
    by_commands: tuple[Path, ...]
    """What commands must see to run the scripts of skills: also where links of the user lead to.
    Of the folders of a repository around the workspace, links are not followed."""


def find_readable_folders(
    settings: Settings, plugins: "Sequence[PluginFiles]", *, out: Path
) -> ReadableFolders:
    roots = tuple(plugin.root for plugin in plugins)
    own = _find_user_folders("skills")
    of_plugins = (folder for plugin in plugins for folder in plugin.skills)
    of_project = _find_project_folders(settings, SKILLS)
    around = (one for one in of_project if not one.is_relative_to(settings.workspace))
    files = (file for folder in own for file in folder.glob("*/SKILL.md") if is_file(file))
    skills = (Path(os.path.realpath(file.parent)) for file in files)
    return ReadableFolders(
        by_tools=(out, *own, *of_plugins, *of_project, *roots),
        by_commands=(out, *own, *roots, *around, *skills),
    )


def find_role_folders(settings: Settings, plugins: "Sequence[PluginFiles]") -> tuple[Path, ...]:
    of_plugins = (folder for plugin in plugins for folder in plugin.agents)
    return (*_find_user_folders("agents"), *of_plugins, *_find_project_folders(settings, ROLES))


def _find_user_folders(name: str) -> tuple[Path, ...]:
    folders = (get_user_directory() / name, *list_user_folders(name))
    return tuple(folder for folder in folders if is_directory(folder))


def _find_project_folders(settings: Settings, names: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders at every level of the repository, where they exist.

    A link out of the repository is left out: these folders may be read without approval."""
    levels = list_levels(settings.workspace)
    found = [
        folder
        for level in levels
        for name in names
        if is_directory(folder := level / name) and is_inside(folder, levels[-1])
    ]
    if not found:
        return ()
    users = {
        os.path.realpath(folder)
        for kind in ("skills", "agents")
        for folder in list_user_folders(kind)
    }
    return tuple(folder for folder in found if os.path.realpath(folder) not in users)


def build_source_folders(
    folders: Iterable[Path], *, settings: Settings, plugins: "Sequence[PluginFiles]"
) -> "list[SourceFolder]":
    """Return folders with the repository or plugin that their files must not lead out of."""
    from agentcli.agent.markdown_files import SourceFolder

    top = list_levels(settings.workspace)[-1]
    found = []
    for folder in folders:
        plugin = next((one for one in plugins if folder.is_relative_to(one.root)), None)
        if plugin is not None:
            found.append(SourceFolder(folder, plugin.root, plugin.name))
        else:
            found.append(SourceFolder(folder, top if folder.is_relative_to(top) else None))
    return found


def is_foreign(tool: ToolSpec) -> bool:
    """Return whether the tool comes from a server or is the user's own in Python."""
    return tool.source != "built-in"


def load_roles(
    configuration: Configuration, *, tools: Iterable[ToolSpec]
) -> "tuple[list[Role], list[ContextNote | Warned]]":
    """Return the roles for child agents, and the notes on them. `tools` are the parent's tools."""
    settings, plugins = configuration.settings, configuration.plugins
    folders = find_role_folders(settings, plugins)
    if not folders:
        return [], []
    from agentcli.agent import markdown_files

    names = [spec.name for spec in tools if spec.name in BUILT_IN or is_foreign(spec)]
    sources = build_source_folders(folders, settings=settings, plugins=plugins)
    found, bad = markdown_files.find_roles(sources, tools=names)
    return found, [*bad, *([markdown_files.build_roles_note(found)] if found else [])]


def build_delegate_spec(
    settings: Settings, plugins: "Sequence[PluginFiles]", *, past: Sequence[Fact]
) -> ToolSpec:
    """Return the declaration of delegate: deferred, unless it is set, called, or of use to roles.

    This is decided at the start: a later declaration would cost the provider's cache."""
    is_used = settings.delegate or find_role_folders(settings, plugins) or _has_delegated(past)
    return replace(load_spec(DELEGATE), deferred=not is_used)


def _has_delegated(past: Sequence[Fact]) -> bool:
    if not past:
        return False
    from agentcli.log.reopen import is_read

    results = (one.result for one in past if isinstance(one, CallFinished) and is_read(one))
    return any(result.name == DELEGATE for result in results)


class ProjectInstructions:
    """A listener that learns which directories are worked in, and loads their instructions."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        past: Iterable[Fact] = (),
        clean: Callable[[str], str] = str,
    ) -> None:
        """`past` holds the facts of a resumed session: its context notes are not repeated.
        `clean` is applied before comparing, since recorded notes were cleaned too."""
        self._configuration = configuration
        self._settings = configuration.settings
        self._clean = clean
        self._due: list[ContextNote | Warned] = []
        self.rewind(past)

    def rewind(self, facts: Iterable[Fact]) -> None:
        """Go on from these facts: notes that are not among them are due again."""
        self._instructions = InstructionFiles(
            self._settings.workspace,
            user_directory=get_user_directory(),
            other_user_directories=list_user_folders("instructions"),
            find_rule=self._configuration.find_read_rule,
        )
        self._known = {fact.text for fact in facts if isinstance(fact, ContextNote)}
        self._due = []

    def __call__(self, event: Event) -> None:
        match event:
            case CallJudged(call=call, verdict=verdict) if verdict.decision != "deny":
                self._collect_instructions(find_touched_paths(call, self._settings.workspace))
            case CallFinished(result=ToolResult(details=Command(command=command, cwd=cwd))):
                self._collect_instructions([Path(cwd), *_find_named_paths(command, Path(cwd))])
            case _:
                pass

    def build_start_notes(
        self, others: Iterable[ContextNote | Warned] = ()
    ) -> Sequence[ContextNote | Warned]:
        """Return the notes at the start, then `others`, without those of a resumed session."""
        own = (*self._instructions.build_start_notes(), *self._build_skills_notes())
        return self._filter_new((*own, *others))

    def collect_notes(self) -> Sequence[ContextNote | Warned]:
        """Return the notes of directories that were first touched since the last request."""
        due, self._due = self._due, []
        return self._filter_new(due)

    def _filter_new(self, found: Iterable[ContextNote | Warned]) -> list[ContextNote | Warned]:
        """Return `found` without the notes that the session had before it was resumed."""
        return [one for one in found if not (isinstance(one, ContextNote) and self._is_known(one))]

    def _is_known(self, note: ContextNote) -> bool:
        return bool(self._known) and self._clean(note.text) in self._known

    def _collect_instructions(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._due += self._instructions.collect_notes(path)

    def _build_skills_notes(self) -> Sequence[ContextNote | Warned]:
        settings, plugins = self._settings, self._configuration.plugins
        folders = find_skill_folders(settings, plugins)
        if not folders:
            return ()
        from agentcli.agent import markdown_files

        found, bad = markdown_files.find_skills(
            build_source_folders(folders, settings=settings, plugins=plugins)
        )
        listed = [skill for skill in found if skill.is_listed]
        return [*bad, *([markdown_files.build_skills_note(listed)] if listed else [])]


def find_touched_paths(call: ToolCall, workspace: Path) -> Iterator[Path]:
    """Yield the files and directories that a call names, for built-in and foreign tools."""
    given = call.input if isinstance(call.input, dict) else {}
    for name, value in given.items():
        if not isinstance(value, str) or not value or "\0" in value:
            continue
        if name == "patch":
            yield from map(Path, _PATCHED.findall(value))
        elif name == "path" or os.path.lexists(os.path.join(workspace, value)):  # noqa: PTH118 - most are no paths
            yield Path(value)


def _find_named_paths(text: str, directory: Path) -> Iterator[Path]:
    """Yield the existing paths that a text names, relative to the directory or absolute."""
    for word in _WORD.findall(text[:SCANNED_CHARS]):
        if os.path.lexists(os.path.join(directory, word)):  # noqa: PTH118 - most are no paths
            yield directory / word


# Context besides the conversation: instructions, environment and plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSources:
    instructions: ProjectInstructions
    environment: EnvironmentNotes
    plan_tracker: PlanTracker

    def rewind(self, facts: Sequence[Fact]) -> None:
        """Go on from these facts, those in effect after a rewind."""
        self.instructions.rewind(facts)
        self.environment.rewind(facts)
        self.plan_tracker.rewind(facts)


def build_context_sources(
    configuration: Configuration,
    past: Sequence[Fact],
    *,
    clean: Callable[[str], str],
    wants_plan: bool = True,
) -> ContextSources:
    """Build the sources. `past` holds the facts of a resumed session: no note is repeated."""
    settings = configuration.settings
    return ContextSources(
        instructions=ProjectInstructions(configuration, past=past, clean=clean),
        environment=EnvironmentNotes(
            settings.workspace,
            past,
            hosts=configuration.granted_hosts,
            has_sandbox=settings.sandbox != "off",
        ),
        plan_tracker=PlanTracker(past, wants_plan=wants_plan),
    )
