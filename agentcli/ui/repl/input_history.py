"""The user's input in a project, stored on disk: the history, and the draft of a message."""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path
from prompt_toolkit.history import History

from agentcli.system.strict_json import parse_whole_number
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.state import ReplState

# Drafts: the text in the input, stored while it is written, so that no crash loses it


SAVE_EVERY_S = 0.3


class Drafts:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / f"draft-{os.getpid()}"
        self._saved = ""

    def take_abandoned(self) -> str:
        """Take the newest draft of a session that is no longer running. Older ones stay."""
        dead = [path for path in self._directory.glob("draft-*") if not _is_alive(path)]
        for path in sorted(dead, key=_read_modification_time, reverse=True):
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text(encoding="utf-8")
                path.unlink()
                if text.strip():
                    return text
        return ""

    def save(self, text: str) -> None:
        """Save the whole draft or nothing. If the disk fails, only the draft is lost."""
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
    """Return whether the draft's session is still running.

    A draft with this process's id counts as abandoned: an earlier process had the same id.
    """
    pid = parse_whole_number(path.name.removeprefix("draft-"))
    if pid is None:
        return True  # a draft that is being written
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _read_modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# The history: one JSON line per message, readable by its owner only, secrets masked


ENTRIES_MAX = 2000
LINE_BYTES_MAX = 8_000_000
READ_BYTES_MAX = 2 * LINE_BYTES_MAX


def find_project_directory(workspace: Path) -> Path:
    """Return the directory of a project's history and drafts, which is outside the project."""
    digest = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = "".join(c for c in workspace.name if c.isalnum() or c in "-_.")[:40] or "root"
    return user_state_path("agentcli", appauthor=False) / "projects" / f"{name}-{digest}"


class ProjectHistory(History):
    def __init__(self, path: Path, *, mask: Callable[[str], str]) -> None:
        """`mask` removes secrets from what is stored permanently."""
        super().__init__()
        self._path = path
        self._mask = mask
        self.complaint = ""
        """The reason why the file cannot be used, if there is one."""

    def load_history_strings(self) -> Iterable[str]:
        """Return the messages, latest first, without duplicates."""
        try:
            lines = _read_last_bytes(self._path).splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            self.complaint = f"cannot read the history {self._path}: {error.strerror}"
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
            self.complaint = f"cannot write the history {self._path}: {error.strerror}"


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


class InputHistory:
    def __init__(self, state: ReplState) -> None:
        directory = find_project_directory(state.settings.workspace)
        self._drafts = Drafts(directory)
        self._reported: set[str] = set()
        self.history = ProjectHistory(directory / "history.jsonl", mask=state.mask_secrets)

    def take_complaint(self) -> str:
        """Return why the history cannot be used. Empty if it can, or if this was reported."""
        complaint = self.history.complaint
        if not complaint or complaint in self._reported:
            return ""
        self._reported.add(complaint)
        return complaint

    def offer_draft(self, composer: Composer) -> bool:
        """Return whether a dead session left a draft. Up brings it back."""
        draft = self._drafts.take_abandoned()
        if draft:
            composer.buffer.history.append_string(draft)
        return bool(draft)

    async def save_drafts(self, composer: Composer) -> None:
        """Save what is being written, until cancelled."""
        changed = asyncio.Event()
        composer.buffer.on_text_changed += lambda _: changed.set()
        while True:
            await changed.wait()
            changed.clear()
            self.save_draft(composer)
            await asyncio.sleep(SAVE_EVERY_S)

    def save_draft(self, composer: Composer) -> None:
        self._drafts.save(composer.text)
