"""The closest existing path to one that does not exist: bounded work for "Did you mean"."""

import os
from collections import deque
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from agentcli.machine.text import printable

ENTRIES_LOOKED_AT = 5_000
CUTOFF = 0.8
_SKIPPED = frozenset({".git", ".agentcli", "node_modules", "__pycache__", ".venv", "venv"})


def closest_path(root: Path, given: str) -> str | None:
    """Below the root, printable. Links are not followed."""
    parts = [part for part in given.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if not parts or "\0" in given:
        return None
    near = _find_respelling(root, parts) or _find_elsewhere(root, parts)
    return printable(near) if near else None


def _find_respelling(root: Path, parts: list[str]) -> str | None:
    """Every component exactly or nearly as given."""
    found: list[str] = []
    for part in parts:
        names = _names(root.joinpath(*found))
        near = [part] if part in names else get_close_matches(part, names, n=1, cutoff=CUTOFF)
        if not near:
            return None
        found += near
    return "/".join(found)


def _find_elsewhere(root: Path, parts: list[str]) -> str | None:
    """The same name in another directory; the one that shares most of the given path."""
    candidates = [path for path in _paths(root) if path.rsplit("/", 1)[-1] == parts[-1]]
    wanted = set(parts)
    return max(candidates, key=lambda path: len(wanted & set(path.split("/"))), default=None)


def _names(folder: Path) -> list[str]:
    try:
        if folder.is_symlink():
            return []
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, ENTRIES_LOOKED_AT)]
    except OSError:
        return []


def _paths(root: Path) -> Iterator[str]:
    """Files breadth first, in a fixed order, up to a limit."""
    waiting = deque([""])
    left = ENTRIES_LOOKED_AT
    while waiting and left > 0:
        folder = waiting.popleft()
        for name in sorted(_names(root / folder)):
            left -= 1
            path = f"{folder}/{name}" if folder else name
            if (root / path).is_dir() and not (root / path).is_symlink():
                if name not in _SKIPPED:
                    waiting.append(path)
            else:
                yield path
