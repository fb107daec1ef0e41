"""The configuration of a session as one value: settings, rules and hooks of all who may set them.

The policy of the machine is above the command line, and that is above the user's own files. A
project can tighten all of it; what it may choose besides needs the user's trust.

The policy of the machine is in `/etc/agentcli`: the files that a user has, `settings.toml`,
`rules.toml` and `hooks.json`. Flags, the environment, the user's own files and projects cannot
loosen it. A file that cannot be read or understood stops the program: a refusal could be missing.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.settings import (
    HOOKS_FILE,
    PLUGINS_FOLDER,
    RULES_FILE,
    SETTINGS_FILE,
    build_unreadable_error,
    check_values,
    get_user_directory,
    read_toml,
)
from agentcli.system.agent_files import find_project_root
from agentcli.system.files import read_regular
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS
from agentcli.types.settings import LOWERABLE, Settings
from agentcli.types.tools import Effect
from agentcli.types.verdicts import MODES

if TYPE_CHECKING:
    from agentcli.permissions.hooks import Hook
    from agentcli.permissions.hooks_file import HooksFile
    from agentcli.permissions.plugin_files import PluginFiles
    from agentcli.permissions.rules import PermissionRule
    from agentcli.session.project import Project


MANAGED_DIRECTORY = Path(
    "/Library/Application Support/agentcli" if sys.platform == "darwin" else "/etc/agentcli"
)


def read_managed_settings(directory: Path = MANAGED_DIRECTORY) -> Mapping[str, Any]:
    """Return the managed settings; empty if there are none. Raise SettingsError."""
    path = directory / SETTINGS_FILE
    return check_values(read_toml(path), f"{path}: ", error=SettingsError)


def apply_managed(settings: Settings, directory: Path = MANAGED_DIRECTORY) -> Settings:
    """Return the settings as far as the policy permits them. Raise SettingsError."""
    managed = read_managed_settings(directory)
    if not managed:
        return settings
    changes = {
        key: _choose(key, value, own=getattr(settings, key)) for key, value in managed.items()
    }
    return replace(
        settings,
        managed=tuple(managed.items()),
        explicit_keys=settings.explicit_keys | set(managed),
        **changes,
    )


def _choose(key: str, managed: Any, *, own: Any) -> Any:
    if key == "mode":
        return min(managed, own, key=MODES.index)
    if key in LOWERABLE and own is not None:
        return min(managed, own)
    if key == "sandbox" and managed == "auto" and own != "off":
        return own
    return managed


def keeps_sandbox(settings: Settings) -> bool:
    """Return whether the policy lets nothing run outside the sandbox."""
    return bool(dict(settings.managed).get("sandbox", "off") != "off")


def require_permitted_model(settings: Settings, name: str) -> None:
    """Raise SettingsError for a model besides those that the policy names, if it sets the model."""
    managed = dict(settings.managed)
    named = [managed.get(key) for key in ("model", "small_model", "evaluator", "fallback")]
    if "model" in managed and name not in named:
        raise SettingsError(
            f"the policy of this machine sets the model: {managed['model']}",
            hint="agentcli doctor",
        )


def load_managed_rules(directory: Path = MANAGED_DIRECTORY) -> "tuple[PermissionRule, ...]":
    """Return the managed rules. Raise SettingsError."""
    path = directory / RULES_FILE
    if not path.exists():
        return ()
    from agentcli.permissions.policy import load_rules

    return load_rules(path, source="managed")


def load_managed_hooks(directory: Path = MANAGED_DIRECTORY) -> "Sequence[HooksFile]":
    """Return the managed hooks, by file. Raise SettingsError."""
    path = directory / HOOKS_FILE
    if not path.exists():
        return ()
    from agentcli.permissions.hooks_file import parse_hooks

    try:
        text = read_regular(path).decode("utf-8-sig", "replace")
    except OSError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror}", hint=f"ls -l {path}"
        ) from error
    return [parse_hooks(text, path)]


def describe_managed(directory: Path = MANAGED_DIRECTORY) -> str:
    """Return what the policy sets, in one line; empty if there is none. Raise SettingsError."""
    settings = read_managed_settings(directory)
    rules, hooks = load_managed_rules(directory), load_managed_hooks(directory)
    parts = [f"{key} = {value}" for key, value in settings.items()]
    parts += [str(rule) for rule in rules]
    parts += [f"{hook.event} hook {hook.name}" for file in hooks for hook in file.hooks]
    return f"{directory}: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    settings: Settings
    rules: "tuple[PermissionRule, ...]" = ()
    project: "Project | None" = None
    """None if the repository brings nothing for agents."""
    hooks: "tuple[Hook, ...]" = ()
    """Empty if they were not loaded."""
    hook_problems: tuple[str, ...] = ()
    """Plugins whose hooks cannot be read, and entries of hooks files that have no effect."""
    plugins: "tuple[PluginFiles, ...]" = ()
    plugin_problems: tuple[str, ...] = ()
    """Plugins that are enabled and not used, each with the reason."""
    scripts: tuple[Path, ...] = ()
    """The files of a trusted repository that its own commands run."""

    @property
    def granted_hosts(self) -> tuple[str, ...]:
        """The hosts that rules give to every command."""
        if not any(rule.hosts for rule in self.rules):
            return ()
        from agentcli.permissions.decide import compute_given

        return compute_given(NO_GRANTS, self.rules).hosts

    def find_read_rule(self, path: Path) -> str:
        """Return the rule against reading a file unasked, or "" if there is none."""
        strict = [rule for rule in self.rules if rule.decision != "allow"]
        if not strict:
            return ""
        from agentcli.permissions.command_patterns import MatchResult
        from agentcli.permissions.subject import CallSubject, ReachedPath

        root = Path(os.path.realpath(self.settings.workspace))
        reached = ReachedPath(path, Path(os.path.realpath(path)))
        subject = CallSubject(
            tool="read_file", root=root, cwd=root, paths=(reached,), effect=Effect.READ
        )
        found = (rule.cited for rule in strict if rule.match_broadly(subject) is MatchResult.YES)
        return next(found, "")


def load_configuration(
    settings: Settings, *, uses_project: bool = True, uses_hooks: bool = False
) -> Configuration:
    """Load what the machine, the user and the project configure, besides `settings`.

    Raise SettingsError if a file cannot be read or understood."""
    project = None
    root = find_project_root(settings.workspace) if uses_project else None
    if root is not None:
        from agentcli.session.project import apply_project, load_project_at

        project = load_project_at(root, trust_project=settings.trust_project)
        settings = apply_project(settings, project)
    if MANAGED_DIRECTORY.exists():
        settings = apply_managed(settings)
    rules = load_rules(settings, project)
    plugins, plugin_problems = _load_plugins()
    hooks, problems = _load_hooks(project, plugins) if uses_hooks else ((), ())
    return Configuration(
        settings=settings,
        rules=rules,
        project=project,
        hooks=hooks,
        hook_problems=problems,
        plugins=plugins,
        plugin_problems=plugin_problems,
        scripts=project.scripts if project else (),
    )


def _load_plugins() -> "tuple[tuple[PluginFiles, ...], tuple[str, ...]]":
    """Return the plugins that are used, and why others are not."""
    if not (get_user_directory() / PLUGINS_FOLDER).is_dir():
        return (), ()
    from agentcli.session.plugins import load_plugins

    used = load_plugins()
    return used.plugins, used.problems


def _load_hooks(
    project: "Project | None", plugins: "Sequence[PluginFiles]"
) -> "tuple[tuple[Hook, ...], tuple[str, ...]]":
    """Load the hooks of the machine, the user, plugins and a trusted project, and problems.

    Raise SettingsError if a file is so broken that a check is lost."""
    own = read_user_hooks(get_user_directory() / HOOKS_FILE)
    files = [*(load_managed_hooks() if MANAGED_DIRECTORY.exists() else ()), *([own] if own else ())]
    problems: Sequence[str] = ()
    if plugins:
        from agentcli.session.plugins import load_plugin_hooks

        of_plugins, problems = load_plugin_hooks(plugins)
        files += of_plugins
    if project is not None:
        from agentcli.session.project import load_project_hooks

        files += load_project_hooks(project)
    return (
        tuple(hook for file in files for hook in file.hooks),
        (*problems, *(line for file in files for line in file.warnings)),
    )


def load_rules(
    settings: Settings, project: "Project | None" = None
) -> "tuple[PermissionRule, ...]":
    """Return the rules of the machine, the user, `--policy`, the command line and the project.

    None of them leads out of a sandbox that the machine's policy wants."""
    rules = _load_all_rules(settings, project)
    if rules:
        from agentcli.permissions.policy import extend_to_worktree

        rules = extend_to_worktree(rules, settings.workspace)
    if not rules or not keeps_sandbox(settings):
        return rules
    return tuple(
        replace(rule, grants=replace(rule.grants, outside=False)) if rule.grants.outside else rule
        for rule in rules
    )


def _load_all_rules(settings: Settings, project: "Project | None") -> "tuple[PermissionRule, ...]":
    own = get_user_directory() / RULES_FILE
    theirs = load_managed_rules() if MANAGED_DIRECTORY.exists() else ()
    if project is not None:
        from agentcli.session.project import load_project_rules

        theirs += load_project_rules(project, settings.workspace)
    given = settings.policy or settings.allow or settings.deny or settings.network
    if not (os.path.lexists(own) or given):
        return theirs
    from agentcli.permissions import policy

    return (
        *policy.load_rules(own, source="user"),
        *(
            policy.load_rules(settings.policy, source="policy", must_exist=True)
            if settings.policy
            else ()
        ),
        *policy.parse_option_rules(
            allow=settings.allow, deny=settings.deny, network=settings.network
        ),
        *theirs,
    )


def read_user_hooks(path: Path) -> "HooksFile | None":
    """Read the user's hooks file. Return None if it does not exist. Raise SettingsError."""
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise build_unreadable_error(path, error) from error
    from agentcli.permissions.hooks_file import parse_hooks

    return parse_hooks(data.decode("utf-8-sig", "replace"), path)
