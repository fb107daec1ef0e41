"""What the model is told besides prompts: instructions and skills of the person and the project."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.context_notes import EnvironmentNotes, InstructionFiles, PlanTracker
from agentcli.agent.journal import Listener
from agentcli.settings import Settings, get_settings_file
from agentcli.tools.contracts import BUILT_IN
from agentcli.types.events import CallFinished, CallJudged, ContextNote, Event, Fact, Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, ToolResult, ToolSpec

if TYPE_CHECKING:
    from agentcli.agent.children import Role


PROJECT_FOLDERS = (".agentcli", ".claude")
"""Where in a workspace skills and roles may be, besides the person's own directory."""
SCANNED_CHARS = 2_000
_WORD = re.compile(r"[^\s'\"`|&;<>()$=,]{1,255}")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def find_skill_folders(settings: Settings) -> tuple[Path, ...]:
    return _find_folders(settings, "skills")


def find_role_folders(settings: Settings) -> tuple[Path, ...]:
    return _find_folders(settings, "agents")


def _find_folders(settings: Settings, name: str) -> tuple[Path, ...]:
    """Of a workspace only what is in it: what they hold may be read without a question."""
    own = get_settings_file().with_name(name)
    root = Path(os.path.realpath(settings.workspace))
    project = (settings.workspace / folder / name for folder in PROJECT_FOLDERS)
    inside = (path for path in project if Path(os.path.realpath(path)).is_relative_to(root))
    return tuple(folder for folder in (own, *inside) if folder.is_dir())


def is_foreign(tool: ToolSpec) -> bool:
    """Whether it is a server's or a plugin's."""
    return tool.source != "built-in"


def load_roles(
    settings: Settings, *, tools: Iterable[ToolSpec]
) -> "tuple[list[Role], list[ContextNote | Warned]]":
    """For child agents, and what is told of them. `tools`: those of their parent."""
    folders = find_role_folders(settings)
    if not folders:
        return [], []
    from agentcli.agent import markdown_files

    names = [spec.name for spec in tools if spec.name in BUILT_IN or is_foreign(spec)]
    found, bad = markdown_files.find_roles(folders, tools=names)
    return found, [*bad, *([markdown_files.build_roles_note(found)] if found else [])]


class ProjectInstructions:
    """Listens to a session, so that it knows which directories are worked in."""

    def __init__(
        self,
        settings: Settings,
        *,
        past: Iterable[Fact] = (),
        clean: Callable[[str], str] = str,
    ) -> None:
        """`past`: of a session that is taken up: what it was told is not told again.
        `clean`: what it takes out of a text is not in what was told, either."""
        self._settings = settings
        self._instructions = InstructionFiles(
            settings.workspace, user_directory=get_settings_file().parent
        )
        self._known = {fact.text for fact in past if isinstance(fact, ContextNote)}
        self._clean = clean
        self._due: list[ContextNote | Warned] = []

    def __call__(self, event: Event) -> None:
        match event:
            case CallJudged(call=call, verdict=verdict) if verdict.decision != "deny":
                self._collect_instructions(find_touched_paths(call, self._settings.workspace))
            case CallFinished(result=ToolResult(details=Command(command=command, cwd=cwd))):
                self._collect_instructions([Path(cwd), *_find_named_paths(command, Path(cwd))])
            case _:
                pass

    def build_start_notes(self) -> Sequence[ContextNote | Warned]:
        return [*self._instructions.build_start_notes(), *self._build_skills_notes()]

    def collect_notes(self) -> Sequence[ContextNote | Warned]:
        """Of directories that were first touched since the last request."""
        due, self._due = self._due, []
        return self.filter_new(due)

    def filter_new(self, found: Iterable[ContextNote | Warned]) -> list[ContextNote | Warned]:
        """Without what the session was told before it was taken up."""
        return [one for one in found if not (isinstance(one, ContextNote) and self._is_known(one))]

    def _is_known(self, note: ContextNote) -> bool:
        return bool(self._known) and self._clean(note.text) in self._known

    def _collect_instructions(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._due += self._instructions.collect_notes(path)

    def _build_skills_notes(self) -> Sequence[ContextNote | Warned]:
        folders = find_skill_folders(self._settings)
        if not folders:
            return ()
        from agentcli.agent import markdown_files

        found, bad = markdown_files.find_skills(folders)
        return [*bad, *([markdown_files.build_skills_note(found)] if found else [])]


def find_touched_paths(call: ToolCall, workspace: Path) -> Iterator[Path]:
    """The files and directories a call is about, whoever's tool it calls."""
    given = call.input if isinstance(call.input, dict) else {}
    for name, value in given.items():
        if not isinstance(value, str) or not value or "\0" in value:
            continue
        if name == "patch":
            yield from map(Path, _PATCHED.findall(value))
        elif name == "path" or os.path.lexists(workspace / value):
            yield Path(value)


def _find_named_paths(text: str, directory: Path) -> Iterator[Path]:
    """What a line of text names that there is: relative paths of that directory, or absolute."""
    for word in _WORD.findall(text[:SCANNED_CHARS]):
        if os.path.lexists(directory / word):
            yield directory / word


# What a model is told besides what was said: instructions, where and when it works, the plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSources:
    instructions: ProjectInstructions
    environment: EnvironmentNotes
    plan_tracker: PlanTracker

    @property
    def listeners(self) -> tuple[Listener, ...]:
        return self.instructions, self.environment, self.plan_tracker

    def collect_notes(self) -> Sequence[ContextNote | Warned]:
        return (
            *self.instructions.collect_notes(),
            *self.plan_tracker.collect_notes(),
            *self.environment.collect_notes(),
        )


def build_context_sources(
    settings: Settings, past: Sequence[Fact], *, clean: Callable[[str], str]
) -> ContextSources:
    """`past`: of a session that goes on: what was told in it is not told again."""
    return ContextSources(
        instructions=ProjectInstructions(settings, past=past, clean=clean),
        environment=EnvironmentNotes(settings.workspace, past),
        plan_tracker=PlanTracker(past),
    )
