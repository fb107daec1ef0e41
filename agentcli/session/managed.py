"""The policy of whoever manages this machine: `/etc/agentcli`, above everything else.

It has the files that a user has: `settings.toml`, `rules.toml` and `hooks.json`. Flags, the
environment, the user's own files and projects cannot loosen it. A file that cannot be read or
understood stops the program: a refusal could be missing.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.settings import HOOKS_FILE, RULES_FILE, SETTINGS_FILE, check_values, read_toml
from agentcli.system.regular_file import read_regular
from agentcli.types.errors import SettingsError
from agentcli.types.settings import LOWERABLE, Settings
from agentcli.types.verdicts import MODES

if TYPE_CHECKING:
    from agentcli.permissions.hooks_file import HooksFile
    from agentcli.permissions.rules import PermissionRule


MANAGED_DIRECTORY = Path(
    "/Library/Application Support/agentcli" if sys.platform == "darwin" else "/etc/agentcli"
)


def read_managed_settings(directory: Path = MANAGED_DIRECTORY) -> Mapping[str, Any]:
    """Return the managed settings; empty if there are none. Raise SettingsError."""
    path = directory / SETTINGS_FILE
    return check_values(read_toml(path), f"{path}: ", SettingsError)


def apply_managed(settings: Settings, directory: Path = MANAGED_DIRECTORY) -> Settings:
    """Return the settings as far as the policy permits them. Raise SettingsError."""
    managed = read_managed_settings(directory)
    if not managed:
        return settings
    changes = {key: _choose(key, value, getattr(settings, key)) for key, value in managed.items()}
    return replace(
        settings,
        managed=tuple(managed.items()),
        explicit_keys=settings.explicit_keys | set(managed),
        **changes,
    )


def _choose(key: str, managed: Any, own: Any) -> Any:
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
        text = read_regular(path).decode("utf-8", "replace")
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
