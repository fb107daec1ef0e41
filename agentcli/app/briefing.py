"""What the model is told besides prompts: instructions and skills of the person and the project."""

from collections.abc import Sequence
from pathlib import Path

from agentcli.agent.instructions import Instructions
from agentcli.settings import Settings, settings_file
from agentcli.types.events import CallJudged, Event, Told, Warned

PROJECT_FOLDERS = (".agentcli", ".claude")
"""Where in a workspace skills and roles may be, besides the person's own directory."""


def skill_folders(settings: Settings) -> tuple[Path, ...]:
    return _folders(settings, "skills")


def role_folders(settings: Settings) -> tuple[Path, ...]:
    return _folders(settings, "agents")


def _folders(settings: Settings, name: str) -> tuple[Path, ...]:
    project = [settings.workspace / folder / name for folder in PROJECT_FOLDERS]
    return tuple(
        folder for folder in (settings_file().with_name(name), *project) if folder.is_dir()
    )


class Briefing:
    """Listens to a session, so that it knows which directories are worked in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._instructions = Instructions(settings.workspace, own=settings_file().parent)
        self._due: list[Told | Warned] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, CallJudged) and event.verdict.decision != "deny":
            path = event.call.input.get("path") if isinstance(event.call.input, dict) else None
            if isinstance(path, str) and path and "\0" not in path:
                self._due += self._instructions.of(Path(path))

    def at_start(self) -> Sequence[Told | Warned]:
        return [*self._instructions.at_start(), *self._skills()]

    def notices(self) -> Sequence[Told | Warned]:
        """Of directories that were first touched since the last request."""
        due, self._due = self._due, []
        return due

    def _skills(self) -> Sequence[Told | Warned]:
        folders = skill_folders(self._settings)
        if not folders:
            return ()
        from agentcli.agent import skills

        found, bad = skills.find_skills(folders)
        return [*bad, *([skills.told(found)] if found else [])]
