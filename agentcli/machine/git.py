"""The few git commands we need, run so that nothing of a repository's own can make git run more."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.types.errors import SettingsError

TIME_LIMIT_S = 300

_CONFIG = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.untrackedCache": "false",
    "diff.external": "",
    "gc.auto": "0",
}
PLAIN_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames")


def git(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What it prints. Raises SettingsError with its last words where it fails."""
    command, own = safely(*arguments, cwd=cwd, env=env)
    ran = _run(command, cwd=cwd, env=own)
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SettingsError(f"git {arguments[0]} failed: {''.join(said)}")
    return ran.stdout.decode("utf-8", "replace")


def safely(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIME_LIMIT_S,
) -> tuple[list[str], dict[str, str]]:
    """The command and its environment, for whoever runs it. Raises SettingsError without git."""
    own = {**_own_environment(), **(env or {})}
    pairs = {**_CONFIG, **_without_filters(cwd, own, timeout_s)}.items()
    settings = [part for pair in pairs for part in ("-c", "=".join(pair))]
    return ["git", *settings, *arguments], own


def _run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float = TIME_LIMIT_S,
) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        is_missing = isinstance(error, FileNotFoundError) and error.filename == "git"
        why = "git is not installed" if is_missing else f"git did not work: {error}"
        raise SettingsError(why, hint="install git") from error


def _without_filters(cwd: Path, env: Mapping[str, str], timeout_s: float) -> dict[str, str]:
    """Reading a changed file runs the filters that are set for it: none is, for us."""
    command = ("git", "config", "--list", "--name-only", "-z")
    listed = _run(command, cwd=cwd, env=env, timeout_s=timeout_s)
    names = listed.stdout.decode("utf-8", "replace").split("\0")
    return {
        name: "false" if name.endswith(".required") else ""
        for name in names
        if name.startswith("filter.")
    }


def _own_environment() -> dict[str, str]:
    """Ours, without what would point git to another repository or make it wait for a person."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
