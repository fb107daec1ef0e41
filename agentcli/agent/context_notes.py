"""Context notes: the instructions of the user and the project, the environment, and the plan.

Instructions come from AGENTS.md and similar files. The user's own, and those from the repository
root down to the workspace, are added at the start. Those of other directories are added when
something there is first touched. All of it is bounded. Includes and links are judged as reads and
stay inside the workspace. Files that were installed or checked out from elsewhere do not speak for
this project.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from agentcli.system.plain_text import show_controls
from agentcli.system.text import NotText, decode, to_lf
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.system.worktree import UncommittedChanges, abbreviate, find_branch
from agentcli.types.answers import AnswerParts
from agentcli.types.deltas import CallDelta, TextDelta, ThinkingDelta
from agentcli.types.errors import Ending, ToolError
from agentcli.types.events import (
    CallJudged,
    Compacted,
    ContextNote,
    DirectoryAdded,
    Event,
    Fact,
    ModeChanged,
    ModelReplied,
    NoteReason,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.tools import Effect

NAMES = (
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
)
"""The names of instruction files; only the first one that exists in a directory is read."""
NAMES_OF_OTHERS = frozenset((".github/copilot-instructions.md", ".cursorrules"))
"""Those that were written for one other program, and may be orders about its answers."""
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

_INCLUDE = re.compile(r"^@(\S+)$", re.MULTILINE)


class InstructionFiles:
    def __init__(
        self,
        workspace: Path,
        *,
        user_directory: Path,
        find_rule: FindRule = lambda path: "",
    ) -> None:
        """`user_directory` is the directory with the user's own instruction file."""
        self._base = workspace
        self._real_base = Path(os.path.realpath(workspace))
        self._find_rule = find_rule
        self._repository = Workspace(_find_repository(workspace))
        self._user_root = Workspace(user_directory)
        self._visited: set[PurePosixPath] = set()
        self._known: set[str] = set()
        """Paths that need no further look: all directories above them were visited."""
        self._left_bytes = ALL_LIMIT_BYTES
        self._skipped: list[str] = []

    def build_start_notes(self) -> list[ContextNote | Warned]:
        return [
            *self._read_folder(self._user_root, PurePosixPath(), owner="the user"),
            *self.collect_notes(self._base),
        ]

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
        """Return whether the folder belongs to another repository, or was installed."""
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
                heading = NOTES_HEADING if name in NAMES_OF_OTHERS else HEADING
                yield ContextNote(
                    text=f"{heading.format(owner=owner, path=place)}\n\n{text.strip()}",
                    why=NoteReason.INSTRUCTIONS,
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
        """Return the text with its includes; if it cannot be read, warn and return nothing."""
        if path in within or len(within) > INCLUDED_DEPTH:
            self._skipped.append(f"{path} is not included again from {within[-1]}")
            return ""
        try:
            place = root.locate(path)
            if within or place.relative != path:  # included, or a link
                self._check_reach(root, place, path, named_by=within[-1] if within else path)
            with os.fdopen(root.open_file(place), "rb") as file:
                data = file.read(LIMIT_BYTES + 1)
            used = self._limit_data(data)
            text = to_lf(decode(used)[0])
        except (ToolError, NotText, OSError) as error:
            self._skipped.append(f"{path} was not read: {error}")
            return ""
        self._left_bytes -= len(used)
        if len(used) < len(data):
            self._skipped.append(f"{path} is too long; only its first {len(used)} bytes are used")
        if (shown := show_controls(text)) != text:
            self._skipped.append(f"{path} has invisible characters, which are removed")
            text = shown
        folder = PurePosixPath(path).parent

        def include_file(found: re.Match[str]) -> str:
            target = str(folder / found[1])
            if not (root.root / target).is_file():
                return found[0]  # not every line that begins with @ names a file
            return self._read(root, target, within=(*within, path))

        return _INCLUDE.sub(include_file, text)

    def _check_reach(
        self, root: Workspace, place: WorkspacePath, path: str, *, named_by: str
    ) -> None:
        """Raise ToolError for a file that a call of the model could not read without asking.

        `named_by` is the file that includes it, or the link. One above the workspace also reaches
        what is in its own directory."""
        if rule := self._find_rule(root.root / path):
            raise ToolError(f"rule {rule} applies to it")
        is_own = root is self._user_root or place.path.is_relative_to(self._real_base)
        if not is_own and not place.path.is_relative_to((root.root / named_by).parent):
            raise ToolError("it is outside the workspace")

    def _limit_data(self, data: bytes) -> bytes:
        """Cut the data at the end of a line, or of a character if the line is too long."""
        limit = min(LIMIT_BYTES, self._left_bytes)
        if len(data) <= limit:
            return data
        end = data.rfind(b"\n", 0, limit) + 1
        return data[:end] if end else data[:limit].decode("utf-8", "ignore").encode()


def _find_repository(workspace: Path) -> Path:
    """Return the closest directory with `.git`, or the workspace if there is none."""
    return next(
        (folder for folder in (workspace, *workspace.parents) if (folder / ".git").exists()),
        workspace,
    )


# The environment of a session: noted at its start, and again when it changes.


"""Limits of the environment notes."""
PATHS_SHOWN = 10
DIRECTORY_CHARS = 500
_HEADING = "[Environment: "


class EnvironmentNotes:
    """The notes on date, directory and git; listens to events to learn when a request is sent.

    They are added between messages, so that what was already sent stays the same to the byte. The
    git status is read while the first reply arrives. It is noted once, and only if it was known
    before any of our calls could have changed the work tree."""

    def __init__(self, workspace: Path, past: Iterable[Fact] = (), *, reach: str = "") -> None:
        """`past` is the facts of a resumed session; its work tree is not noted again. `reach` says
        what commands may reach."""
        self._workspace = workspace
        self._reach = reach
        self._last_text = ""
        self._changes: UncommittedChanges | None = UncommittedChanges(workspace)
        """None if the changes were noted, or must no longer be noted."""
        self._is_asked = False
        self._added: list[str] = []
        for fact in past:
            self._changes = None
            self._note_directory(fact)
            if isinstance(fact, ContextNote) and fact.text.startswith(_HEADING):
                self._last_text = fact.text

    def __call__(self, event: Event) -> None:
        match event:
            case Compacted():
                self._last_text = ""
            case DirectoryAdded():
                self._note_directory(event)
            case TextDelta() | ThinkingDelta() | CallDelta() | ModelReplied():
                self._request_changes()
            case CallJudged(effect=effect) if effect is not Effect.READ:
                if self._changes is not None and self._changes.known is None:
                    self.close()
            case _:
                pass

    def _describe(self) -> str:
        return describe_environment(self._workspace, self._added, reach=self._reach)

    def build_start_notes(self) -> Sequence[ContextNote]:
        self._last_text = self._describe()
        return [ContextNote(text=self._last_text, why=NoteReason.ENVIRONMENT)]

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return notes on everything that changed or became known since the last notes."""
        told = [] if self._describe() == self._last_text else [*self.build_start_notes()]
        if self._changes is not None and self._changes.known is not None:
            told.append(
                ContextNote(text=describe_changes(self._changes.known), why=NoteReason.ENVIRONMENT)
            )
            self._changes = None
        return told

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _note_directory(self, event: Event) -> None:
        if isinstance(event, DirectoryAdded):
            access = "" if event.writable else " (read-only)"
            self._added = [*self._added, f"also {abbreviate(event.path, DIRECTORY_CHARS)}{access}"]

    def _request_changes(self) -> None:
        if self._is_asked or self._changes is None:
            return
        self._is_asked = True
        if find_branch(self._workspace):
            self._changes.request()


def describe_reach(hosts: Sequence[str], *, has_sandbox: bool) -> str:
    """Return what commands may reach, and how to ask for more, in one line."""
    if not has_sandbox:
        return "commands run without a sandbox"
    network = " ".join(hosts) or "none"
    return (
        f"commands reach: network {network}; write: workspace, /tmp; the user's home is hidden. For"
        " more give bash needs, which the user may grant: network:HOST, write:PATH, read:PATH,"
        " credentials:git, outside, reason:TEXT"
    )


def describe_environment(workspace: Path, added: Sequence[str] = (), *, reach: str = "") -> str:
    machine = os.uname().machine if hasattr(os, "uname") else ""
    parts = (
        f"today is {date.today():%A, %Y-%m-%d}",
        f"working directory {abbreviate(str(workspace), DIRECTORY_CHARS)}",
        *added,
        f"{sys.platform} {machine}".strip(),
        f"git {branch}" if (branch := find_branch(workspace)) else "no git repository",
        *([reach] if reach else []),
    )
    return f"{_HEADING}{'; '.join(parts)}]"


def describe_changes(changes: Sequence[str]) -> str:
    """Describe the lines of `git status`: two letters and a path each."""
    if not changes:
        return "[Work tree as the session found it: clean]"
    new = sum(change.startswith("??") for change in changes)
    counts = [f"{len(changes) - new} changed", f"{new} untracked"]
    shown = [f"\n{change[:3]}{abbreviate(change[3:])}" for change in changes[:PATHS_SHOWN]]
    left_out = len(changes) - len(shown)
    more = f"\n... and {left_out} more" if left_out else ""
    return f"[Work tree as the session found it: {', '.join(counts)}:{''.join(shown)}{more}]"


# The plan of a session: the result of a turn in plan mode, and what the user accepted.


_PLANNING = "Plan mode: "
"""The start of the note in every version, so that a resumed session recognizes its own."""
BEGINS = (
    f"{_PLANNING}calls that do more than read are denied, and nothing may be changed yet. Find out "
    "what you need to know, then end with the plan: the steps in order, the files each of them "
    "changes, how each is checked, and what the user has to decide. They read it, may change it, "
    "and say when it is carried out. If only they can tell you something first, ask just that: a "
    "reply that ends with a question and has no steps is not taken for the plan."
)
ENDS = "Plan mode is over: whatever the mode now in force allows can be done again."
ACCEPTED = "Plan mode is over. The user accepted this plan: carry it out, step by step."
CHANGED = (
    "Plan mode is over. The user changed your plan and accepted it in this form: carry it "
    "out, step by step."
)
DEPARTING = " Where it turns out to be wrong, say so before you do otherwise."

_LISTED = r"(?:[-*+•–]|\(?(?:[0-9]{1,2}|[A-Za-z])[.)])\s"
_QUESTION_MARKS = ("?", "？", "؟")
_AFTER_A_SENTENCE = "*_`)]\"'”’»」"


class PlanTracker:
    """Listens to a session for its mode and its plan."""

    def __init__(self, past: Iterable[Fact] = (), *, wants_plan: bool = True) -> None:
        """`wants_plan` is False if the task itself says how plan mode ends."""
        self._wants_plan = wants_plan
        self.proposed = ""
        """The answer of the last turn, if it was in plan mode and is not accepted yet."""
        self.asked = ""
        """The answer of the last turn in plan mode, if it is a question to the user."""
        self.accepted = ""
        self._mode = ""
        self._said = AnswerParts()
        self._is_noted = False
        for fact in past:
            self(fact)

    def __call__(self, event: Event) -> None:
        self._said(event)
        match event:
            case SessionStarted(mode=mode) | SessionResumed(mode=mode) | ModeChanged(mode=mode):
                self._mode = mode
            case ContextNote():
                self._handle_note(event)
            case Compacted() if self._mode == "plan":
                self._is_noted = False
            case TurnStarted():
                self.proposed = self.asked = ""
            case TurnEnded(ending=Ending.DONE) if self._mode == "plan":
                answer = self._said.whole.strip()
                if is_question(answer):
                    self.asked = answer
                else:
                    self.proposed = answer
            case _:
                pass

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return the note about plan mode that the model needs before its next reply."""
        is_planning = self._mode == "plan"
        if is_planning == self._is_noted or (is_planning and not self._wants_plan):
            return ()
        return (ContextNote(text=BEGINS if is_planning else ENDS, why=NoteReason.PLAN_MODE),)

    def build_accepted_note(self, plan: str) -> ContextNote:
        """Build the note for an accepted plan, unchanged or as the user changed it."""
        is_changed = bool(self.proposed) and plan.strip() != self.proposed
        heading = (CHANGED if is_changed else ACCEPTED) + DEPARTING
        return ContextNote(text=f"{heading}\n\n{plan.strip()}", why=NoteReason.PLAN)

    def _handle_note(self, note: ContextNote) -> None:
        if note.why == NoteReason.PLAN:
            self.accepted, self.proposed, self.asked = note.text.partition("\n\n")[2], "", ""
            self._is_noted = False
        elif note.why == NoteReason.PLAN_MODE:
            self._is_noted = note.text.startswith(_PLANNING)


def is_question(reply: str) -> bool:
    """Return whether a reply is a question to the user, not a plan.

    It ends with a question, or with the choices for one. It has no heading, and its lists hold only
    questions and choices."""
    is_asking = False
    for line in filter(None, map(str.strip, reply.splitlines())):
        is_heading, is_listed = line.startswith("#"), re.match(_LISTED, line) is not None
        if is_heading or (is_listed and not is_asking and not _ends_with_question(line)):
            return False
        is_asking = _ends_with_question(line) or (is_listed and is_asking)
    return is_asking


def _ends_with_question(line: str) -> bool:
    return line.rstrip(_AFTER_A_SENTENCE).endswith(_QUESTION_MARKS)
