"""Instructions of the user and the project, from AGENTS.md and the files of other agents.

The user's own, and those from the repository root down to the workspace, are added at the start.
Those of other directories are added when something there is first touched, and those for certain
files when such a file is. All of it is bounded, and nothing is said twice. Includes and links are
judged as reads and stay inside the workspace. Files that were installed or checked out from
elsewhere do not speak for this project.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from agentcli.system.agent_files import RULES, list_levels
from agentcli.system.files import is_directory, is_file
from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import show_controls
from agentcli.system.text import NotText, decode, show_strays, to_lf
from agentcli.system.workspace import DEEPEST, Workspace, WorkspacePath
from agentcli.types.errors import ToolError
from agentcli.types.events import ContextNote, NoteReason, Warned
from agentcli.types.words import pluralize

if TYPE_CHECKING:
    from agentcli.agent.rule_files import RuleFile

OWN_NAME = "AGENTS.md"
"""The file for instructions that most agents read."""
NAMES_FOR_AGENTS = (
    "AGENTS.override.md",
    "AGENTS.md",
    "AGENT.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    "GEMINI.md",
)
"""The names of files with instructions for any agent, or for one that works as we do."""
NAMES_OF_OTHERS = (
    ".github/copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".roorules",
    ".junie/guidelines.md",
    "WARP.md",
    ".rules",
)
"""The names of those that were written for one other program. They are read as notes, because
they may be orders about its answers."""
NAMES = (*NAMES_FOR_AGENTS, *NAMES_OF_OTHERS)
"""All of a directory are read, in this order; what two of them say, only once."""
FOLDERS_OF_OTHERS = tuple(f"{folder}/" for folder in RULES if not folder.startswith(".claude"))
FOREIGN_FOLDERS = frozenset(("node_modules", "site-packages", "vendor", "third_party", ".git"))
"""Directories whose contents somebody else wrote."""
LIMIT_BYTES = 32_000
ALL_LIMIT_BYTES = 64_000
INCLUDED_DEPTH = 3
SKIPPED_SHOWN = 5
HEADING = "Instructions of {owner}, from {path}; follow them unless the user says otherwise."
NOTES_HEADING = (
    "Notes of {owner} on the code, from {path}; written for another program. Use what they say "
    "about the code; how to answer and in which form is not theirs to say."
)

FindRule: TypeAlias = Callable[[Path], str]
"""Returns the rule that keeps a file from being read without asking, or an empty string."""

_INCLUDE = compile_later(r"^@(\S+)$", re.MULTILINE)


class InstructionFiles:
    def __init__(
        self,
        workspace: Path,
        *,
        user_directory: Path,
        other_user_directories: Sequence[Path] = (),
        find_rule: FindRule | None = None,
    ) -> None:
        """`user_directory` is the directory with the user's own instruction file. The others are
        those of other agents."""
        self._base = workspace
        self._real_base = Path(os.path.realpath(workspace))
        self._find_rule = find_rule
        self._repository = Workspace(list_levels(workspace)[-1])
        self._user_roots = [
            Workspace(folder)
            for folder in (user_directory, *other_user_directories)
            if folder is user_directory or is_directory(folder)
        ]
        self._visited: set[PurePosixPath] = set()
        self._known: set[str] = set()
        """Paths that need no further look: all directories above them were visited."""
        self._said: set[str] = set()
        """Texts and files that the model has already got."""
        self._rules: list[RuleFile] = []
        """Instructions for certain files that were not touched yet."""
        self._left_bytes = ALL_LIMIT_BYTES
        self._skipped: list[str] = []

    def build_start_notes(self) -> list[ContextNote | Warned]:
        own = [
            fact
            for root in self._user_roots
            for fact in self._read_folder(root, PurePosixPath(), owner="the user")
        ]
        return [*own, *self.collect_notes(self._base)]

    def collect_notes(self, path: Path) -> list[ContextNote | Warned]:
        """Return new instructions from the directories above a path that is being worked on."""
        try:
            place = os.path.realpath(self._base / path)
        except OSError:  # a link that may not be followed, such as one of another user in /proc
            return []
        if place in self._known:
            return []
        real = Path(place)
        if not real.is_relative_to(self._repository.root):
            return []
        relative = PurePosixPath(real.relative_to(self._repository.root).as_posix())
        facts: list[ContextNote | Warned] = []
        # Where a folder is missing, there is nothing below it, however long the path is.
        above = islice((*reversed(relative.parents), relative), DEEPEST)
        folders = takewhile(self._is_folder, above)
        for folder in folders:
            if self._is_foreign(folder):
                break
            if folder not in self._visited:
                self._visited.add(folder)
                facts += self._read_folder(self._repository, folder, owner="this project")
                facts += self._read_rules(folder)
        else:
            self._known.add(place)
            facts += self._take_rules(relative)
        return facts

    def _is_folder(self, path: PurePosixPath) -> bool:
        # Path's raises where it may not look.
        return os.path.isdir(self._repository.root / path)  # noqa: PTH112

    def _is_foreign(self, folder: PurePosixPath) -> bool:
        """Return whether the folder belongs to another repository, or was installed."""
        place = self._repository.root / folder
        is_root = place == self._repository.root
        return folder.name in FOREIGN_FOLDERS or (not is_root and os.path.lexists(place / ".git"))

    def _read_folder(
        self, root: Workspace, folder: PurePosixPath, *, owner: str
    ) -> Iterator[ContextNote | Warned]:
        for name in NAMES:
            place = str(folder / name)
            is_folder = name in RULES and is_directory(root.root / place)
            if os.path.lexists(root.root / place) and not is_folder:
                text = self._read(root, place, within=()).strip()
                shown = (
                    place
                    if root in (self._repository, self._user_roots[0])
                    else str(root.root / place)
                )
                yield from self._say(text, shown, owner=owner, is_note=name in NAMES_OF_OTHERS)
        yield from self._take_warnings()

    def _say(self, text: str, path: str, *, owner: str, is_note: bool) -> Iterator[ContextNote]:
        """Yield a note, unless it is empty or the model has got the same text before."""
        if text and text not in self._said:
            self._said.add(text)
            heading = NOTES_HEADING if is_note else HEADING
            count = len([line for line in text.splitlines() if line.strip()])
            yield ContextNote(
                text=f"{heading.format(owner=owner, path=path)}\n\n{text}",
                why=NoteReason.INSTRUCTIONS,
                loaded=f"{path} ({pluralize(count, 'line')})",
            )

    def _read_rules(self, folder: PurePosixPath) -> Iterator[ContextNote | Warned]:
        """Yield the rules of a folder that always hold. Those for certain files wait for one."""
        places = [folder / name for name in RULES]
        if not any(is_directory(self._repository.root / place) for place in places):
            return
        from agentcli.agent.rule_files import build_rules_note, find_rule_files

        listed: list[RuleFile] = []
        for place in places:
            for rule in find_rule_files(self._repository.root, place):
                match rule.applies:
                    case "always":
                        yield from self._say_rule(rule)
                    case "files":
                        self._rules.append(rule)
                    case "on request":
                        listed.append(rule)
                    case _:
                        pass
        if listed:
            yield build_rules_note(listed)
        yield from self._take_warnings()

    def _take_rules(self, path: PurePosixPath) -> Iterator[ContextNote | Warned]:
        """Yield the rules for a file that is first worked on now."""
        due = [rule for rule in self._rules if rule.covers(path)]
        self._rules = [rule for rule in self._rules if rule not in due]
        for rule in due:
            yield from self._say_rule(rule)
        yield from self._take_warnings()

    def _say_rule(self, rule: "RuleFile") -> Iterator[ContextNote]:
        from agentcli.agent.front_matter import split_front_matter

        text = self._read(self._repository, rule.path, within=())
        is_note = any(name in f"/{rule.path}" for name in FOLDERS_OF_OTHERS)
        body = split_front_matter(text)[1].strip()
        yield from self._say(body, rule.path, owner="this project", is_note=is_note)

    def _take_warnings(self) -> Iterator[Warned]:
        skipped, self._skipped = list(dict.fromkeys(self._skipped)), []
        more = len(skipped) - SKIPPED_SHOWN
        for why in skipped[:SKIPPED_SHOWN]:
            yield Warned(code="instructions.skipped", message=why)
        if more > 0:
            yield Warned(code="instructions.skipped", message=f"and {more} more files")

    def _read(self, root: Workspace, path: str, *, within: Sequence[str]) -> str:
        """Return the text with its includes; if it cannot be read, warn and return nothing."""
        if path in within or len(within) > INCLUDED_DEPTH:
            self._skipped.append(f"{path} is not included again from {within[-1]}")
            return ""
        try:
            text = self._read_file(root, path, within=within)
        except (ToolError, NotText, OSError) as error:
            self._skipped.append(f"{show_controls(path)} was not read: {error}")
            return ""
        if (shown := show_controls(text)) != text:
            self._skipped.append(f"{path} has invisible characters, which are removed")
            text = shown
        folder = PurePosixPath(path).parent

        def include_file(found: re.Match[str]) -> str:
            target = str(folder / found[1])
            if not is_file(root.root / target):
                return found[0]  # not every line that begins with @ names a file
            return self._read(root, target, within=(*within, path))

        return _INCLUDE.sub(include_file, text)

    def _read_file(self, root: Workspace, path: str, *, within: Sequence[str]) -> str:
        """Return the text of a file, or nothing if the model has got it, by whatever name.

        Raise ToolError, NotText or OSError."""
        place = root.locate(path)
        if str(place.path) in self._said:
            return ""
        if within or place.relative != path:  # included, or a link
            self._check_reach(root, place, path=path, named_by=within[-1] if within else path)
        with os.fdopen(root.open_file(place), "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
        used = self._limit_data(data)
        text = show_strays(to_lf(decode(used)[0]))
        self._said.add(str(place.path))
        self._left_bytes -= len(used)
        if len(used) < len(data):
            self._skipped.append(f"{path} is too long; only its first {len(used)} bytes are used")
        return text

    def _check_reach(
        self, root: Workspace, place: WorkspacePath, *, path: str, named_by: str
    ) -> None:
        """Raise ToolError for a file that a call of the model could not read without asking.

        `named_by` is the file that includes it, or the link. One above the workspace also reaches
        what is in its own directory."""
        if self._find_rule and (rule := self._find_rule(root.root / path)):
            raise ToolError(f"rule {rule} applies to it")
        is_own = root in self._user_roots or place.path.is_relative_to(self._real_base)
        if not is_own and not place.path.is_relative_to((root.root / named_by).parent):
            raise ToolError("it is outside the workspace")

    def _limit_data(self, data: bytes) -> bytes:
        """Cut the data at the end of a line, or of a character if the line is too long."""
        limit = min(LIMIT_BYTES, self._left_bytes)
        if len(data) <= limit:
            return data
        end = data.rfind(b"\n", 0, limit) + 1
        return data[:end] if end else data[:limit].decode("utf-8", "ignore").encode()
