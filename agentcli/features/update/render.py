"""Where this installation comes from, and whether there is something newer.

pip, pipx and uv record where a package came from. Only that place is ever asked, and only on
request: on a package index, our name may belong to somebody else.
"""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agentcli import __version__
from agentcli.system import own_process
from agentcli.system.extras import (
    build_install_command,
    is_pipx_environment,
    list_installed_extras,
)
from agentcli.system.files import resolve_directory
from agentcli.types.errors import SettingsError
from agentcli.ui.streams import write_out

PATIENCE_S = 30.0
_SCHEMES = ("https", "ssh", "file")


class InstallSource(NamedTuple):
    """Where a package was installed from."""

    url: str = ""
    """Empty if that is not recorded: from a package index."""
    commit: str = ""
    """Empty if it is no git repository."""
    revision: str = ""
    """The branch, tag or commit that was asked for; empty for the default branch."""
    is_editable: bool = False


def read_source(record: str | None) -> InstallSource:
    """Return the source from what an installer recorded, as `direct_url.json`."""
    try:
        data: Any = json.loads(record or "{}")
        vcs = data.get("vcs_info") or {}
        return InstallSource(
            url=str(data.get("url") or ""),
            commit=str(vcs.get("commit_id") or ""),
            revision=str(vcs.get("requested_revision") or ""),
            is_editable=bool((data.get("dir_info") or {}).get("editable")),
        )
    except (ValueError, AttributeError):
        return InstallSource()


def show_update(*, asks: bool) -> None:
    try:
        record = distribution("agentcli").read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    source = read_source(record)
    write_out(f"agentcli {__version__}, {_describe(source)}\n")
    if not asks:
        write_out(f"to update: {build_advice(source, source.revision)}\n")
        return
    if not source.commit:
        raise SettingsError(
            "only an installation from a git repository can be checked",
            hint=build_advice(source, source.revision),
        )
    newest = find_newest(source)
    if newest == source.commit:
        write_out("it is the newest commit\n")
    else:
        write_out(f"there is a newer commit, {newest}\nto update: {build_advice(source, newest)}\n")


def _describe(source: InstallSource) -> str:
    if source.commit:
        return f"commit {source.commit} of {source.url}"
    if source.is_editable:
        return f"the files in {source.url}"
    return f"installed from {source.url}" if source.url else "from a package index"


def build_advice(source: InstallSource, revision: str) -> str:
    """Return the command that updates this installation, with its extras, if there is one."""
    if not source.url:
        return "with the program that installed it, from the index that you trust"
    if source.is_editable:
        return f"git -C {urlsplit(source.url).path} pull"
    place = source.url
    if source.commit:
        place = f"git+{source.url}" + (f"@{revision}" if revision else "")
    if extras := ",".join(list_installed_extras()):
        place = f"agentcli[{extras}] @ {place}"
    if is_pipx_environment():
        return f"pipx install --force '{place}'"
    if Path(sys.prefix, "uv-receipt.toml").exists():
        return f"uv tool install --force '{place}'"
    return build_install_command("--upgrade", place)


def find_newest(source: InstallSource) -> str:
    """Ask the repository for its newest commit. Raise SettingsError."""
    hint = f"git ls-remote {source.url}"
    if urlsplit(source.url).scheme not in _SCHEMES:
        raise SettingsError(f"{source.url} cannot be asked", hint=hint)
    is_commit = source.revision == source.commit
    wanted = "HEAD" if is_commit or not source.revision else source.revision
    here = resolve_directory(Path())
    try:
        ran = own_process.run(
            ["git", "ls-remote", "--exit-code", "--", source.url, wanted],
            workspace=here,
            cwd=Path("/"),
            env=own_process.build_user_environment(here),
            timeout_s=PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"git cannot be run: {error}", hint=hint) from error
    if ran.returncode != 0:
        lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else f"it has no {wanted}"
        raise SettingsError(f"cannot ask {source.url}: {why}", hint=hint)
    return ran.stdout.decode("ascii", "replace").split()[0]
