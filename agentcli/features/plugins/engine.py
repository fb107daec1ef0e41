"""Install, enable, update and remove plugins: copies in the user's own directory.

A source is fetched into a temporary directory and read there. Only after the user has agreed is it
copied, into a folder named by its content hash, and its record written. So a stop at any moment
leaves the version before, or the new one.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.permissions.plugin_files import PluginFiles, hash_content, list_content, read_plugin
from agentcli.session.plugins import (
    RECORD,
    PluginRecord,
    get_data_directory,
    get_plugins_directory,
    list_records,
    read_installed,
    save_record,
)
from agentcli.system.agent_files import is_inside
from agentcli.system.files import expand_home, resolve_directory
from agentcli.system.git import fetch_repository, is_git_url
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPlugin:
    """A plugin that was read from its source, and is not installed yet."""

    files: PluginFiles
    record: PluginRecord
    links_out: tuple[str, ...] = ()
    """Links out of the directory, which are not copied."""


@contextmanager
def fetch_plugin(source: str, *, path: str = "", ref: str = "") -> Iterator[FetchedPlugin]:
    """Yield the plugin of a directory or a git URL, as it would be installed.

    Raise UsageError or SettingsError."""
    with TemporaryDirectory(prefix="agentcli-plugin-") as temporary:
        commit, top = "", expand_home(source)
        if is_git_url(source):
            top = Path(temporary, "source")
            top.mkdir()
            commit = fetch_repository(source, top, ref=ref)
        elif ref:
            raise UsageError("--ref is for git URLs", hint=f"agentcli plugins install {source}")
        elif not top.is_dir():
            raise UsageError(
                f"no directory and no git URL: {source}",
                hint="agentcli plugins install https://HOST/REPOSITORY",
            )
        else:
            source = str(resolve_directory(top))
        directory = top / path
        if not directory.is_dir() or not is_inside(directory, top):
            raise UsageError(f"no directory {path} in {source}", hint="--path DIR")
        copy = Path(temporary, "copy", Path(os.path.realpath(directory)).name)
        name = "" if path or not commit else source.rstrip("/").rpartition("/")[2]
        if name:  # a plugin without a manifest has the name of its repository
            copy = copy.with_name(name.removesuffix(".git") or "plugin")
        links_out = _copy_content(Path(os.path.realpath(directory)), copy)
        files = read_plugin(copy, f"{source}/{path}" if path else source)
        record = PluginRecord(
            name=files.name,
            source=source,
            sha256=files.fingerprint,
            path=path,
            ref=ref,
            commit=commit,
        )
        yield FetchedPlugin(files=files, record=record, links_out=links_out)


def install_plugin(files: PluginFiles, record: PluginRecord) -> None:
    """Install what the user has agreed to, in place of an earlier version. Raise SettingsError."""
    root = record.root
    try:
        if not root.is_dir() or hash_content(root) != record.sha256:
            shutil.rmtree(root, ignore_errors=True)
            _copy_content(files.root, root)
        get_data_directory(record.name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot write {root}: {error.strerror}", hint="df -h") from error
    save_record(record)
    _remove_other_versions(record)


def enable_plugin(record: PluginRecord, files: PluginFiles) -> None:
    """Use a plugin from now on, with the content that the user has seen. Raise SettingsError."""
    pinned = replace(record, sha256=files.fingerprint, is_enabled=True)
    if pinned.root != record.root:
        shutil.rmtree(pinned.root, ignore_errors=True)
        record.root.rename(pinned.root)
    save_record(pinned)


def disable_plugin(record: PluginRecord) -> None:
    save_record(replace(record, is_enabled=False))


def remove_plugin(record: PluginRecord) -> None:
    """Remove a plugin with its data. Raise SettingsError."""
    directory = get_plugins_directory() / record.name
    try:
        (directory / RECORD).unlink()
        shutil.rmtree(directory)
        shutil.rmtree(get_data_directory(record.name), ignore_errors=True)
    except OSError as error:
        raise SettingsError(
            f"cannot remove {directory}: {error.strerror}", hint=f"ls -la {directory}"
        ) from error


def find_record(name: str) -> PluginRecord:
    """Return the record of an installed plugin. Raise UsageError if there is none."""
    for record in list_records():
        if record.name == name:
            return record
    raise UsageError(f"no plugin {name}", hint="agentcli plugins list")


def find_state(record: PluginRecord) -> str:
    """Return whether a plugin is used, in a few words."""
    try:
        read_installed(record)
    except SettingsError as error:
        return f"not used: {error}"
    return "enabled" if record.is_enabled else "disabled"


def _copy_content(source: Path, target: Path) -> tuple[str, ...]:
    """Copy a plugin's files and its links inside of it. Return the links that lead out."""
    links_out = []
    hash_content(source)  # within the limits, and no devices or pipes
    target.mkdir(mode=0o700, parents=True)
    for name in list_content(source):
        path, copy = source / name, target / name
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_symlink():
            shutil.copy2(path, copy)
        elif is_inside(path, source) and not path.readlink().is_absolute():
            copy.symlink_to(path.readlink())
        else:
            links_out.append(name)
    return tuple(links_out)


def _remove_other_versions(record: PluginRecord) -> None:
    for one in (get_plugins_directory() / record.name).iterdir():
        if one.is_dir() and one != record.root:
            shutil.rmtree(one, ignore_errors=True)
