"""The files a repository brings for agents, the user's trust in them, and their effects.

Before it is trusted, only its rules are used, and they can only refuse. A trusted project may
choose among what the user has, and tighten limits. It can never redirect or loosen anything.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.session.directories import get_trust_directory
from agentcli.settings import SETTINGS_FILE, check_values, get_user_directory, is_ci
from agentcli.system.agent_files import OWN_FOLDER, PERMISSIONS, SERVERS, find_project_root
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.settings import LOWERABLE, Settings
from agentcli.types.verdicts import MODES

if TYPE_CHECKING:
    from agentcli.permissions.claude_settings import ClaudeSettings
    from agentcli.permissions.hooks_file import HooksFile
    from agentcli.permissions.project_files import (
        ProjectFiles,
        Standing,
        TrustedProject,
        TrustStore,
    )
    from agentcli.permissions.rules import PermissionRule

MAY_SET = ("model", "effort", "mode", "verify", *LOWERABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    files: "ProjectFiles"
    standing: "Standing"
    store: "TrustStore"

    @property
    def root(self) -> Path:
        return self.files.root

    @property
    def is_trusted(self) -> bool:
        return self.standing == "trusted"

    @property
    def waits_for_answer(self) -> bool:
        """True if the user can be asked to trust it."""
        return self.files.needs_trust and self.standing in ("unknown", "changed")

    @property
    def summary(self) -> str:
        """The contents that wait for trust: `settings.toml, 2 hooks and 1 command`."""
        from agentcli.permissions.project_files import summarize_files

        return summarize_files(self.files)

    @property
    def warning(self) -> str:
        """One line on what is not used and what to do about it, or "" if everything is used."""
        if self.is_trusted or not self.files.needs_trust:
            return ""
        if self.files.problems:
            return f"ignored {self.files.directory}: {'; '.join(self.files.problems)}"
        why = "changed since it was trusted" if self.standing == "changed" else "is not trusted"
        place = self.root if self.files.foreign.executing else self.files.directory
        return (
            f"ignored {self.summary} in {place}, which {why}; review it with "
            f"agentcli trust --show {self.root}, then run agentcli trust {self.root}, "
            "or use --trust-project for one run"
        )

    def list_contents(self) -> Iterator[str]:
        """Yield one line for each thing that would be used or run."""
        from agentcli.permissions.project_files import describe_files

        return describe_files(self.files)

    def read_text(self, name: str) -> str | None:
        """Return a file below `.agentcli` as it was trusted, or None if missing or not trusted."""
        data = self.files.files.get(name) if self.is_trusted else None
        return None if data is None else data.decode("utf-8", "replace")

    def read_texts(self, directory: str) -> Mapping[str, str]:
        """Return the files in a directory below `.agentcli`, under the same terms."""
        names = [name for name in self.files.files if name.startswith(f"{directory}/")]
        return {name: text for name in names if (text := self.read_text(name)) is not None}

    def read_foreign_commands(self) -> Mapping[str, Mapping[str, str]]:
        """Return the prompts of other agents by folder and name; none if not trusted."""
        found: dict[str, dict[str, str]] = {}
        for name, file, data in self.files.foreign.select_commands() if self.is_trusted else ():
            folder = file.removesuffix(f"/{name}")
            found.setdefault(folder, {})[name] = data.decode("utf-8-sig", "replace")
        return found

    def read_foreign_servers(self) -> Mapping[Path, bytes]:
        """Return the files of other agents with MCP servers, the nearest first."""
        if not self.is_trusted:
            return {}
        foreign = self.files.foreign
        return {foreign.top / name: data for name, data in foreign.select(*SERVERS)}

    def read_claude_settings(self, workspace: Path) -> "Sequence[ClaudeSettings]":
        """Return the settings of another agent. Only their refusals need no trust."""
        if not any(self.files.foreign.select(*PERMISSIONS)):
            return ()
        from agentcli.permissions.claude_settings import read_claude_settings

        return tuple(read_claude_settings(self.files.foreign, workspace))

    @property
    def scripts(self) -> tuple[Path, ...]:
        """The files of the repository that its commands run, or none if it is not trusted."""
        return tuple(map(self.root.joinpath, self.files.scripts)) if self.is_trusted else ()

    def trust(self) -> "Project":
        """Trust the project until something in it changes.

        Raise SettingsError, also if its settings, rules or hooks would stop every session."""
        trusted = replace(self, standing="trusted")
        apply_project(Settings(workspace=self.root), trusted)
        load_project_rules(trusted)
        load_project_hooks(trusted)
        self.store.trust(self.files)
        return trusted

    def is_unchanged(self) -> bool:
        """Return whether the files on disk are still those that were read."""
        from agentcli.permissions.project_files import read_project

        try:
            now = read_project(self.root)
        except OSError:
            return False
        return now is not None and now.fingerprint == self.files.fingerprint


def load_project(
    workspace: Path, *, trust_project: bool = False, environ: Mapping[str, str] = os.environ
) -> Project | None:
    """Return the project, or None if there is none. `trust_project` trusts it for this run."""
    root = find_project_root(workspace)
    return load_project_at(root, trust_project=trust_project, environ=environ) if root else None


def load_project_at(
    root: Path, *, trust_project: bool, environ: Mapping[str, str] = os.environ
) -> Project | None:
    """Return the project of a root, or None if its files are nothing for agents.

    In CI, stored answers do not count: nobody there has looked at the files."""
    from agentcli.permissions.project_files import TrustStore, read_project

    try:
        files = read_project(root)
    except OSError as error:
        raise SettingsError(
            f"cannot read {root / OWN_FOLDER}: {error.strerror}",
            hint=f"ls -la {root / OWN_FOLDER}",
        ) from error
    if files is None:
        return None
    store = TrustStore(get_trust_directory())
    standing = store.find_standing(files)
    if standing != "unusable" and trust_project:
        standing = "trusted"
    elif standing == "trusted" and is_ci(environ):
        standing = "unknown"
    return Project(files=files, standing=standing, store=store)


def list_trusted_projects() -> "Sequence[TrustedProject]":
    from agentcli.permissions.project_files import TrustStore

    return TrustStore(get_trust_directory()).list_trusted()


def revoke_trust(root: Path) -> None:
    from agentcli.permissions.project_files import TrustStore

    TrustStore(get_trust_directory()).revoke(root)


def apply_project(settings: Settings, project: Project | None) -> Settings:
    """Return the settings with a trusted project's choices applied. Raise SettingsError."""
    text = project.read_text("settings.toml") if project else None
    if project is None or text is None:
        return settings
    path = project.files.directory / "settings.toml"
    wanted = _parse_settings(text, path)
    changes = {
        key: _choose_stricter(key, value, own=getattr(settings, key))
        for key, value in wanted.items()
        if key not in settings.explicit_keys
    }
    return replace(settings, **changes)


def load_project_rules(
    project: Project | None, workspace: Path | None = None
) -> "tuple[PermissionRule, ...]":
    """Return the project's rules. Those that only refuse or ask need no trust.

    `workspace` is where relative paths of its rules begin. Raise SettingsError."""
    if project is None:
        return ()
    theirs = [*_load_own_rules(project)]
    for claude in project.read_claude_settings(workspace or project.root):
        theirs += claude.rules
        theirs += claude.allows if project.is_trusted else ()
    return tuple(theirs)


def _load_own_rules(project: Project) -> "tuple[PermissionRule, ...]":
    if project.files.rules is None:
        _require_no_hidden_rules(project)
        return ()
    from agentcli.permissions.policy import parse_rules

    path = project.files.directory / "rules.toml"
    return parse_rules(project.files.rules, path, source="project")


def load_project_hooks(project: Project | None) -> "Sequence[HooksFile]":
    """Return the hooks of a trusted project, by file. Raise SettingsError."""
    if project is None or not project.is_trusted:
        return ()
    from agentcli.permissions.hooks_file import parse_hooks

    found = []
    if (text := project.read_text("hooks.json")) is not None:
        path = project.files.directory / "hooks.json"
        found.append(parse_hooks(text, path, project=project.files.directory.parent))
    for claude in project.read_claude_settings(project.root):
        if claude.hooks_text:
            found.append(
                parse_hooks(claude.hooks_text, claude.path, project=claude.base, is_settings=True)
            )
    return found


def _parse_settings(text: str, path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}", hint=f"edit {path}") from None
    for key in document:
        if key not in MAY_SET:
            raise SettingsError(
                f"{path}:{_find_line(text, key)}: a project may not set {key}",
                hint=(
                    f"it may set {', '.join(MAY_SET)}; your own settings are in "
                    f"{get_user_directory() / SETTINGS_FILE}"
                ),
            )
    wanted = check_values(document, f"{path}: ", error=SettingsError)
    for key, refusal in _find_refusals(wanted):
        raise SettingsError(f"{path}:{_find_line(text, key)}: {refusal}", hint=f"edit {path}")
    return wanted


def _find_refusals(wanted: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if wanted.get("mode") == MODES[-1]:
        yield "mode", f"a project may only tighten the mode: {', '.join(MODES[:-1])}"
    if str(wanted.get("model", "")).startswith("script/"):
        yield "model", "a project may not use a script as its model"


def _choose_stricter(key: str, wanted: Any, *, own: Any) -> Any:
    if key == "mode":
        return min(wanted, own, key=MODES.index)
    if key in LOWERABLE and own is not None:
        return min(wanted, own)
    return wanted


def _require_no_hidden_rules(project: Project) -> None:
    """Raise if rules exist and cannot be read: they may forbid something, so nothing runs."""
    for problem in project.files.problems:
        if problem.startswith((f"{OWN_FOLDER} ", f"{OWN_FOLDER}/rules.toml ")):
            raise SettingsError(
                f"cannot read the rules of {project.root}: {problem}",
                hint=f"replace it with a directory of regular files: {project.files.directory}",
            )


def _find_line(text: str, key: str) -> int:
    found = re.search(rf"^[ \t]*\[*[ \t]*[\"']?{re.escape(key)}\b", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1
