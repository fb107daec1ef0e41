"""The plugins that the user has installed, and what of them a session uses.

Each is a copy in the user's own directory, in a folder named by its content hash. A record pins the
hash that the user agreed to. A plugin whose content differs from it is not used at all, and neither
is one that is disabled.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_data_path

from agentcli.settings import PLUGINS_FOLDER, get_user_directory
from agentcli.system.files import write_private
from agentcli.system.lazy import compile_later
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

if TYPE_CHECKING:
    from agentcli.permissions.hooks import Hook
    from agentcli.permissions.hooks_file import HooksFile
    from agentcli.permissions.plugin_files import PluginFiles

RECORD = "record.json"
_PLACES = compile_later(r"\$\{(?:CLAUDE_)?PLUGIN_(ROOT|DATA)\}")
_PORTABLE_PLACES = compile_later(r"\$\{PLUGIN_(ROOT|DATA)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRecord:
    """What was installed from where, as the user agreed to it."""

    name: str
    source: str
    """The path or the address that was given."""
    sha256: str
    path: str = ""
    """The folder in the source that is the plugin; empty for the whole."""
    ref: str = ""
    commit: str = ""
    is_enabled: bool = True

    @property
    def root(self) -> Path:
        return get_plugins_directory() / self.name / self.sha256[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedPlugins:
    plugins: tuple["PluginFiles", ...] = ()
    problems: tuple[str, ...] = ()
    """Plugins that are enabled and not used, each with the reason."""


def get_plugins_directory() -> Path:
    return get_user_directory() / PLUGINS_FOLDER


def get_data_directory(name: str) -> Path:
    """Return where a plugin keeps what must survive its updates."""
    return user_data_path("agentcli", appauthor=False) / "plugins" / name


def list_records() -> list[PluginRecord]:
    found = (_read_record(path) for path in sorted(get_plugins_directory().glob(f"*/{RECORD}")))
    return [record for record in found if record is not None]


def save_record(record: PluginRecord) -> None:
    """Store what the user agreed to, all or nothing. Raise SettingsError."""
    path = get_plugins_directory() / record.name / RECORD
    write_private(path, json.dumps(asdict(record), indent=2))


def _read_record(path: Path) -> PluginRecord | None:
    """Return a stored record; None if we have not written it ourselves."""
    try:
        record = PluginRecord(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    is_ours = record.name == path.parent.name and re.fullmatch(r"[0-9a-f]{64}", record.sha256)
    return record if is_ours else None


def load_plugins() -> UsedPlugins:
    """Return the plugins that are enabled and unchanged. Must not raise."""
    if not get_plugins_directory().is_dir():
        return UsedPlugins()
    used, problems = [], []
    for record in list_records():
        if record.is_enabled:
            try:
                used.append(read_installed(record))
            except SettingsError as error:
                problems.append(f"plugin {record.name} is not used: {error}")
    return UsedPlugins(plugins=tuple(used), problems=tuple(problems))


def read_installed(record: PluginRecord) -> "PluginFiles":
    """Return an installed plugin. Raise SettingsError if it is not what the user agreed to."""
    try:
        files = _read_once(record.root, _stamp_content(record.root))
    except OSError as error:
        raise SettingsError(f"cannot read {record.root}: {error.strerror}") from error
    if files.fingerprint != record.sha256:
        raise SettingsError(
            "it changed since you agreed to it; review it with agentcli plugins enable "
            f"{record.name}, or bring it back with agentcli plugins update {record.name}"
        )
    return replace(files, name=record.name)


@lru_cache(maxsize=64)
def _read_once(root: Path, stamp: tuple[object, ...]) -> "PluginFiles":
    """Read a plugin. `stamp` stands for its content: several parts of a session need the same."""
    from agentcli.permissions.plugin_files import read_plugin

    return read_plugin(root)


def _stamp_content(root: Path) -> tuple[object, ...]:
    from agentcli.permissions.plugin_files import list_content

    # Not with a Path: there may be thousands, at every start.
    found = ((name, os.lstat(f"{root}/{name}")) for name in list_content(root))
    return tuple(
        (name, one.st_ino, one.st_size, one.st_mode, one.st_ctime_ns) for name, one in found
    )


# The parts of a plugin, with its own directories filled in


def build_variables(plugin: "PluginFiles") -> dict[str, str]:
    """Return the variables by which a plugin's programs find its directories."""
    root, data = str(plugin.root), str(get_data_directory(plugin.name))
    names = {"PLUGIN_ROOT": root, "PLUGIN_DATA": data}
    return names | {f"CLAUDE_{name}": value for name, value in names.items()}


def fill_places(plugin: "PluginFiles", text: str, *, places: re.Pattern[str] = _PLACES) -> str:
    """Return a text with `${PLUGIN_ROOT}` and its relatives replaced, once."""
    paths = {"ROOT": str(plugin.root), "DATA": str(get_data_directory(plugin.name))}
    return places.sub(lambda found: paths[found[1]], text)


def load_plugin_hooks(
    plugins: "Sequence[PluginFiles]",
) -> "tuple[Sequence[HooksFile], Sequence[str]]":
    """Return the hooks by file, and the plugins whose hooks cannot be read."""
    found, problems = [], []
    for plugin in plugins:
        try:
            found += [parse_plugin_hooks(plugin, path, text=text) for path, text in plugin.hooks]
        except SettingsError as error:
            problems.append(f"plugin {plugin.name} has no working hooks: {error}")
    return found, problems


def parse_plugin_hooks(plugin: "PluginFiles", path: Path, *, text: str) -> "HooksFile":
    """Parse a hooks file of a plugin. Raise SettingsError."""
    from agentcli.permissions.hooks_file import parse_hooks

    read = parse_hooks(text, path)
    return replace(read, hooks=tuple(_adapt_hook(plugin, hook) for hook in read.hooks))


def _adapt_hook(plugin: "PluginFiles", hook: "Hook") -> "Hook":
    command = (
        fill_places(plugin, hook.command)
        if isinstance(hook.command, str)
        else tuple(fill_places(plugin, word) for word in hook.command)
    )
    variables = tuple(build_variables(plugin).items())
    return replace(hook, command=command, plugin=plugin.name, variables=variables)


def is_plugin_unchanged(name: str) -> bool:
    """Return whether the plugin on disk is still the one that the user agreed to."""
    return any(plugin.name == name for plugin in load_plugins().plugins)


def build_server_table(plugin: "PluginFiles") -> Mapping[str, Any]:
    """Return the servers of a plugin by name, in the format of our own file."""
    return {name: _adapt_server(plugin, entry) for name, entry in plugin.servers.items()}


def _adapt_server(plugin: "PluginFiles", entry: Any) -> Any:
    """Return an entry with its directories. What is no object is reported later."""
    if not isinstance(entry, dict):
        return entry
    filled = {key: _fill(plugin, key, value=value) for key, value in entry.items()}
    if not isinstance(command := filled.get("command"), str):
        return filled
    env = filled.get("env", {})
    if isinstance(env, dict):
        filled["env"] = env | build_variables(plugin)
    if plugin.is_portable:
        filled["cwd"] = os.path.normpath(plugin.root / str(filled.get("cwd", "")))
    if command.startswith("./"):
        filled["command"] = str(plugin.root / command)
    return filled


def _fill(plugin: "PluginFiles", key: str, *, value: Any) -> Any:
    """Fill in what the format says: of the portable one `args`, values of `env`, and `cwd`."""
    if plugin.is_portable and key not in ("args", "env", "cwd"):
        return value
    match value:
        case str():
            places = _PORTABLE_PLACES if plugin.is_portable else _PLACES
            return fill_places(plugin, value, places=places)
        case list():
            return [_fill(plugin, key, value=one) for one in value]
        case dict():
            return {name: _fill(plugin, key, value=one) for name, one in value.items()}
        case _:
            return value


def iter_commands(plugin: "PluginFiles") -> Iterator[tuple[str, Path]]:
    """Yield the prompts of a plugin: the name of each below the plugin's own, and its file."""
    from agentcli.system.agent_files import walk_files

    for place in plugin.commands:
        if place.is_file():
            yield f"{plugin.name}/{place.name}", place
        else:
            for name in walk_files(place, [".md"]):
                yield f"{plugin.name}/{name}", place / name
