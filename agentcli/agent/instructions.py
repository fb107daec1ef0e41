"""What a person and a project want of every agent: AGENTS.md and its neighbours, told when due.

The person's own and those from the repository's root down to the workspace are told at the start,
those of other directories when something there is first touched. All of it is bounded, nothing is
read through a link that leads out of the repository, and what is installed or checked out in it
from elsewhere speaks for others, not for this project.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from agentcli.machine.plain import show_controls
from agentcli.machine.text import NotText, decode, to_lf
from agentcli.machine.workspace import Workspace
from agentcli.types.errors import ToolError
from agentcli.types.events import ContextNote, NoteReason, Warned

NAMES = (
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
)
"""The first that a directory has is read, and the others are not."""
FOREIGN_FOLDERS = frozenset(("node_modules", "site-packages", "vendor", "third_party", ".git"))
"""Directories whose contents somebody else wrote."""
LIMIT_BYTES = 32_000
ALL_LIMIT_BYTES = 64_000
INCLUDED_DEPTH = 3
SKIPPED_SHOWN = 5

_INCLUDE = re.compile(r"^@(\S+)$", re.MULTILINE)


class InstructionFiles:
    def __init__(self, workspace: Path, *, user_directory: Path) -> None:
        """`own`: the directory with the person's file."""
        self._base = workspace
        self._repository = Workspace(_find_repository(workspace))
        self._user_root = Workspace(user_directory)
        self._visited: set[PurePosixPath] = set()
        self._known: set[str] = set()
        """Files and directories on the way to which nothing is new any more."""
        self._left_bytes = ALL_LIMIT_BYTES
        self._skipped: list[str] = []

    def build_start_notes(self) -> list[ContextNote | Warned]:
        return [
            *self._read_folder(self._user_root, PurePosixPath(), owner="the person"),
            *self.collect_notes(self._base),
        ]

    def collect_notes(self, path: Path) -> list[ContextNote | Warned]:
        """For a file or directory that is being worked on: what is new on the way to it."""
        try:
            place = os.path.realpath(self._base / path)
        except OSError:  # a link that nobody may follow, such as another's in /proc
            return []
        if place in self._known:
            return []
        real = Path(place)
        if not real.is_relative_to(self._repository.root):
            return []
        relative = PurePosixPath(real.relative_to(self._repository.root).as_posix())
        facts: list[ContextNote | Warned] = []
        for folder in (*reversed(relative.parents), relative):
            if self._is_foreign(folder):
                break
            if folder not in self._visited:
                self._visited.add(folder)
                facts += self._read_folder(self._repository, folder, owner="this project")
        else:
            self._known.add(place)
        return facts

    def _is_foreign(self, folder: PurePosixPath) -> bool:
        """Whether it belongs to another repository, or was installed."""
        place = self._repository.root / folder
        is_root = place == self._repository.root
        return folder.name in FOREIGN_FOLDERS or (not is_root and os.path.lexists(place / ".git"))

    def _read_folder(
        self, root: Workspace, folder: PurePosixPath, *, owner: str
    ) -> Iterator[ContextNote | Warned]:
        for name in NAMES:
            place = str(folder / name)
            if not os.path.lexists(root.root / place):
                continue
            text = self._read(root, place, within=())
            if text.strip():
                yield ContextNote(
                    text=_format_instructions(place, text, owner), why=NoteReason.INSTRUCTIONS
                )
            break
        yield from self._take_warnings()

    def _take_warnings(self) -> Iterator[Warned]:
        skipped, self._skipped = list(dict.fromkeys(self._skipped)), []
        more = len(skipped) - SKIPPED_SHOWN
        for why in skipped[:SKIPPED_SHOWN]:
            yield Warned(code="instructions.skipped", message=why)
        if more > 0:
            yield Warned(code="instructions.skipped", message=f"and {more} more files")

    def _read(self, root: Workspace, path: str, *, within: Sequence[str]) -> str:
        """Empty where it cannot be read; why is kept for the person."""
        if path in within or len(within) > INCLUDED_DEPTH:
            self._skipped.append(f"{path} is not included again from {within[-1]}")
            return ""
        try:
            with os.fdopen(root.open_file(root.locate(path)), "rb") as file:
                data = file.read(LIMIT_BYTES + 1)
            used = self._limit_data(data)
            text = to_lf(decode(used)[0])
        except (ToolError, NotText, OSError) as error:
            self._skipped.append(f"{path} is not read: {error}")
            return ""
        self._left_bytes -= len(used)
        if len(used) < len(data):
            self._skipped.append(f"{path} is too long: only its first {len(used)} bytes are used")
        if (shown := show_controls(text)) != text:
            self._skipped.append(f"{path} has characters that nobody sees: they are taken out")
            text = shown
        folder = PurePosixPath(path).parent

        def include_file(found: re.Match[str]) -> str:
            target = str(folder / found[1])
            if not (root.root / target).is_file():
                return found[0]  # not every line that begins with @ names a file
            return self._read(root, target, within=(*within, path))

        return _INCLUDE.sub(include_file, text)

    def _limit_data(self, data: bytes) -> bytes:
        """Cut at the end of a line, or of a character where a line is too long."""
        limit = min(LIMIT_BYTES, self._left_bytes)
        if len(data) <= limit:
            return data
        end = data.rfind(b"\n", 0, limit) + 1
        return data[:end] if end else data[:limit].decode("utf-8", "ignore").encode()


def _find_repository(workspace: Path) -> Path:
    """The directory with `.git` that the workspace is in; itself where there is none."""
    return next(
        (folder for folder in (workspace, *workspace.parents) if (folder / ".git").exists()),
        workspace,
    )


def _format_instructions(path: str, text: str, owner: str) -> str:
    heading = f"Instructions of {owner}, from {path}; follow them unless the person says otherwise."
    return f"{heading}\n\n{text.strip()}"
