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
NOT_INTO_OTHERS = "--ignore-submodules=dirty"
"""A repository in a repository has settings of its own, which git would follow in there."""
PLAIN_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", NOT_INTO_OTHERS)


def git(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What it prints. Raises SettingsError with its last words where it fails."""
    command, own = safely(*arguments, cwd=cwd, env=env)
    ran = _run(command, cwd=cwd, env=own)
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SettingsError(
            f"git {arguments[0]} failed: {''.join(said)}", hint=f"git -C {cwd} status"
        )
    return ran.stdout.decode("utf-8", "replace")


def safely(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIME_LIMIT_S,
) -> tuple[list[str], dict[str, str]]:
    """The command and its environment, for whoever runs it. Raises SettingsError without git."""
    own = {**_own_environment(), **(env or {})}
    settings = {**_CONFIG, **_without_filters(cwd, own, timeout_s)}
    return ["git", *arguments], own | _as_environment(settings)


def _as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Not as options: a name may hold the sign that would end it there."""
    pairs = {
        name: text
        for number, (key, value) in enumerate(settings.items())
        for name, text in ((f"GIT_CONFIG_KEY_{number}", key), (f"GIT_CONFIG_VALUE_{number}", value))
    }
    return {"GIT_CONFIG_COUNT": str(len(settings)), **pairs}


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
