"""The summary of a part of a session: its end, its cost, its calls and changes."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.log.checkpoint.changes import describe_changes, merge_changes
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.system.diff import compare
from agentcli.system.regular_file import read_regular
from agentcli.types.answers import AnswerParts
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    CallFinished,
    Fact,
    ModelChanged,
    SessionResumed,
    SessionStarted,
    TurnEnded,
)
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending
from agentcli.types.tools import ErrorKind
from agentcli.ui.tally import Tally


@dataclass(slots=True)
class CourseSummary:
    model: str = ""
    ending: str = "none"
    spending: Spending = NO_SPENDING
    calls: int = 0
    failed: int = 0
    denied: int = 0
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    answer: str = ""


def summarize_course(
    facts: Sequence[Fact], store: ObjectStore, *, model: str = ""
) -> CourseSummary:
    """Summarize the facts.

    `store` holds the states around their calls, `model` is the model of the session before them.
    """
    course, answer = CourseSummary(model=model), AnswerParts()
    for fact in facts:
        course.spending += compute_spending(fact)
        answer(fact)
        match fact:
            case SessionStarted(model=name) | SessionResumed(model=name) | ModelChanged(model=name):
                course.model = name
            case CallFinished():
                _finish(course, fact)
            case TurnEnded(ending=ending):
                course.ending = ending
            case _:
                pass
    course.answer = answer.whole
    course.changed = _find_changes(facts, store)
    return course


def _finish(course: CourseSummary, fact: CallFinished) -> None:
    result = fact.result
    course.calls += 1
    course.denied += result.error is ErrorKind.DENIED
    course.failed += result.status == "error" and result.error is not ErrorKind.DENIED


def _find_changes(facts: Sequence[Fact], store: ObjectStore) -> dict[str, tuple[int, int]]:
    """Return the lines added and removed by path, also by commands."""
    tally = Tally()
    for fact in facts:
        tally(fact)
    own = [fact for fact in tally.checkpoints if not fact.root]
    try:
        files = describe_changes(store, merge_changes(store, own).values())
    except SettingsError:
        return tally.changed  # the states were deleted: only what tools reported is left
    tally.replace_changes((*tally.list_unstored_diffs(), *files))
    return tally.changed


# The difference between two directories as one unified diff.


TEXT_LIMIT_BYTES = 2 * 1024 * 1024
LEFT_OUT = {".git", "__pycache__"}
"""Names that change by themselves and are nobody's work."""


def diff_trees(old: Path, new: Path) -> str:
    return "".join(
        _diff_file(old / path, new / path, path)
        for path in sorted({*_iter_files(old), *_iter_files(new)})
    )


def _iter_files(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in names:
            yield str((Path(folder) / name).relative_to(root))


def _diff_file(old: Path, new: Path, path: str) -> str:
    before, after = _read_content(old), _read_content(new)
    if before == after:
        return ""
    if before is None or after is None:
        return f"only in the {'second' if before is None else 'first'}: {path}\n" + _diff_text(
            before or b"", after or b"", path
        )
    return _diff_text(before, after, path)


def _diff_text(before: bytes, after: bytes, path: str) -> str:
    old, new = _decode_text(before), _decode_text(after)
    if old is None or new is None:
        return f"Binary files a/{path} and b/{path} differ\n"
    return compare(old, new, path=path).unified


def _read_content(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none."""
    if path.is_symlink():
        return os.fsencode(path.readlink())
    try:
        return read_regular(path)
    except OSError:
        return None


def _decode_text(data: bytes) -> str | None:
    """Return the data as text; None if it is not text or too long."""
    if len(data) > TEXT_LIMIT_BYTES or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")
