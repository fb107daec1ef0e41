"""The text in the input, kept on disk while it is being written, so that no end of us loses it.

A draft is one file per running session; what a session that died has left is offered to the next.
"""

import os
from contextlib import suppress
from pathlib import Path

from agentcli.machine.numbers import parse_whole_number

SAVE_EVERY_S = 0.3


class Drafts:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / f"draft-{os.getpid()}"
        self._saved = ""

    def take_abandoned(self) -> str:
        """The newest draft of a session that is no longer running; the older ones stay."""
        dead = [path for path in self._directory.glob("draft-*") if not _is_alive(path)]
        for path in sorted(dead, key=_modification_time, reverse=True):
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text(encoding="utf-8")
                path.unlink()
                if text.strip():
                    return text
        return ""

    def save(self, text: str) -> None:
        """Whole or not at all. A disk that does not take it costs the draft, nothing else."""
        if text == self._saved:
            return
        self._saved = text
        with suppress(OSError):
            if not text.strip():
                self._path.unlink(missing_ok=True)
                return
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            fresh.replace(self._path)


def _is_alive(path: Path) -> bool:
    """A draft of this process counts as left behind: it has an earlier owner of the same number."""
    pid = parse_whole_number(path.name.removeprefix("draft-"))
    if pid is None:
        return True  # one that is being written
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
