"""What was sent in a project: one JSON line each, readable by its owner only, secrets masked.

Nothing here may keep a session from working: a file that cannot be read or written is said once
and then done without.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from platformdirs import user_state_path
from prompt_toolkit.history import History

ENTRIES_MAX = 2000
LINE_BYTES_MAX = 8_000_000
READ_BYTES_MAX = 2 * LINE_BYTES_MAX


def find_project_directory(workspace: Path) -> Path:
    """Where a project's history and drafts live: outside of the project."""
    digest = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = "".join(c for c in workspace.name if c.isalnum() or c in "-_.")[:40] or "root"
    return user_state_path("agentcli", appauthor=False) / "projects" / f"{name}-{digest}"


class ProjectHistory(History):
    def __init__(self, path: Path, *, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._mask = mask
        self.complaint = ""
        """Why the file cannot be used, if it cannot."""

    def load_history_strings(self) -> Iterable[str]:
        """The latest first, and no text twice."""
        try:
            lines = _read_last_bytes(self._path).splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            self.complaint = f"the history {self._path} cannot be read: {error.strerror}"
            return []
        texts = (_parse_entry(line) for line in reversed(lines[-ENTRIES_MAX:]))
        return dict.fromkeys(text for text in texts if text)

    def store_string(self, string: str) -> None:
        if not string.strip() or string.startswith(" "):
            return
        line = json.dumps({"text": self._mask(string)}, ensure_ascii=True) + "\n"
        if len(line) > LINE_BYTES_MAX:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            self.complaint = f"the history {self._path} cannot be written: {error.strerror}"


def _read_last_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - READ_BYTES_MAX))
        return file.read()


def _parse_entry(line: bytes) -> str:
    try:
        found = json.loads(line)
    except ValueError:
        return ""
    text = found.get("text") if isinstance(found, dict) else None
    return text if isinstance(text, str) else ""
