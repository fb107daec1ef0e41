"""What git's settings name: the directories its hooks are in, and the settings that they include.

Includes are followed as git follows them, and whatever their condition: it may hold later.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from agentcli.guard.sandbox.gitfiles import common_directory, small_text
from agentcli.guard.sandbox.kinds import is_directory
from agentcli.machine.home import config_home, expand_home, home

Named: TypeAlias = tuple[Path, Literal["file", "directory"]]

_MOST_FILES = 64
_SYSTEM = Path("/etc/gitconfig")
# An entry may stand in the line of its section, whose name may hold anything in quotes.
_REFERENCE = re.compile(
    r"""^[^\S\n]*(?:\[(?:"(?:\\.|[^"\\\n])*"|[^]"\n])*\][^\S\n]*)*"""
    r"""(hookspath|path)[^\S\n]*=[^\S\n]*"?([^"\n;#]+)""",
    re.IGNORECASE | re.MULTILINE,
)


def find_named_paths(git: Path, root: Path) -> Iterator[Named]:
    """By all settings that hold in a git directory; `root` is the top of its worktree."""
    own = (git / "config", common_directory(git) / "config", git / "config.worktree")
    yield from _find_in_settings((*own, *_user_settings()), root)


def _find_in_settings(settings: Iterable[Path], root: Path) -> Iterator[Named]:
    seen: set[Path] = set()
    waiting = list(dict.fromkeys(settings))
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        for key, value in _REFERENCE.findall(small_text(file)):
            if key.lower() == "hookspath":
                hooks = _real(value, root)
                # husky: the scripts in `_` only call those beside it
                yield hooks.parent if hooks.name == "_" else hooks, "directory"
            elif is_directory((included := _real(value, file.parent)).parent):
                yield included, "file"
                waiting.append(included)


def _real(value: str, base: Path) -> Path:
    named = value.strip()
    return Path(os.path.realpath(base / expand_home(named)))


def _user_settings() -> tuple[Path, ...]:
    """Settings that hold for every repository."""
    instead = os.environ.get("GIT_CONFIG_GLOBAL")
    usual = (home() / ".gitconfig", config_home() / "git/config", _SYSTEM)
    return (*usual, Path(instead)) if instead else usual
