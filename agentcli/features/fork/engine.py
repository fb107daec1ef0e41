"""Forks: a session's beginning with another continuation, and the two side by side.

The new continuation works in a directory of its own, with the workspace as it was at that point.
Neither the original session nor the workspace is touched. Of each side its end, its cost, its calls
and its changes are summarized.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from agentcli.agent.journal import Listener
from agentcli.log.checkpoint.keep import forget_session
from agentcli.log.paths import SessionPaths, locate_fork_tree
from agentcli.log.reader import read_session, read_valid_part
from agentcli.log.rebuild import find_workspace, rebuild_at
from agentcli.log.sessions import append_facts, copy_session
from agentcli.session.builder import open_session
from agentcli.session.session import Session
from agentcli.system.diff import compare
from agentcli.system.files import read_regular, remove_tree
from agentcli.system.text import NotText, decode
from agentcli.types.answers import AnswerParts
from agentcli.types.errors import EXIT_OF_ENDING, AgentError, Exit, UsageError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Entry,
    Fact,
    ModelChanged,
    ModelReplied,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import Attachment, Text, ToolCall, UserMessage
from agentcli.types.settings import Settings
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending
from agentcli.types.tools import Effect, ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict
from agentcli.ui.stored_changes import count_changes


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
    facts: Sequence[Fact], *, sessions: Path, workspace: Path, model: str = ""
) -> CourseSummary:
    """Summarize the facts.

    `workspace` and `model` are those of the session before them. The states around their calls are
    beside the directory of all sessions.
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
    course.changed = count_changes(facts, sessions=sessions, workspace=workspace)
    return course


def _finish(course: CourseSummary, fact: CallFinished) -> None:
    result = fact.result
    course.calls += 1
    course.denied += result.error is ErrorKind.DENIED
    course.failed += result.status == "error" and result.error is not ErrorKind.DENIED


# The difference between two directories as one unified diff.


TEXT_LIMIT_BYTES = 2 * 1024 * 1024
LEFT_OUT = {".git", "__pycache__"}
"""Names that change by themselves and are nobody's work."""


def diff_trees(old: Path, new: Path) -> str:
    return "".join(
        _diff_file(old / path, new / path, path=path)
        for path in sorted({*_iter_files(old), *_iter_files(new)})
    )


def _iter_files(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in names:
            yield str((Path(folder) / name).relative_to(root))


def _diff_file(old: Path, new: Path, *, path: str) -> str:
    before, after = _read_content(old), _read_content(new)
    if before == after:
        return ""
    if before is None or after is None:
        return f"only in the {'second' if before is None else 'first'}: {path}\n" + _diff_text(
            before or b"", after or b"", path=path
        )
    return _diff_text(before, after, path=path)


def _diff_text(before: bytes, after: bytes, *, path: str) -> str:
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
    try:
        return decode(data)[0]
    except NotText:
        return None


# Copying a session's beginning into a new session.


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """The point where a fork leaves the original."""

    seq: int
    """The last record they share."""
    until: int
    """The last record of the turn that was cut, in the original."""
    prompt: UserMessage | None = None
    """The prompt to repeat, if the cut is before a turn."""
    call: ToolCall | None = None
    """The first open call, if the cut is within a turn."""


def find_cut(entries: Sequence[Entry], at: str | None) -> ForkPoint:
    """Find the cut. `at` is a turn's number, counted from 1, or a call's id; None is the end."""
    last = entries[-1].seq if entries else 0
    if at is None:
        return ForkPoint(seq=last, until=last)
    if at.isdecimal():
        return _locate_turn(entries, int(at))
    return _locate_call(entries, at)


def fork(
    origin: SessionPaths, entries: Sequence[Entry], *, cut: ForkPoint, sessions: Path | None = None
) -> SessionPaths:
    """Create a session that begins as the origin did. Raise SettingsError if it cannot be made."""
    return copy_session(origin, entries, cut.seq, sessions=sessions)


def make_user_result(call: ToolCall, text: str) -> tuple[Fact, Fact]:
    """Return the facts of a call whose result the user provides, as if it had run."""
    verdict = Verdict(decision="allow", by="user", reason="the user provided its result")
    result = ToolResult(call_id=call.id, name=call.name, status="ok", content=(Text(text=text),))
    return (
        CallJudged(call=call, effect=Effect.READ, verdict=verdict),
        CallFinished(result=result),
    )


def _locate_turn(entries: Sequence[Entry], number: int) -> ForkPoint:
    starts = [entry for entry in entries if isinstance(entry.fact, TurnStarted)]
    if not 1 <= number <= len(starts):
        raise UsageError(
            f"no turn {number}: the session has {len(starts)}",
            hint="agentcli sessions show SESSION lists them",
        )
    start = starts[number - 1]
    assert isinstance(start.fact, TurnStarted)
    return ForkPoint(
        seq=start.seq - 1, until=_locate_turn_end(entries, start.seq), prompt=start.fact.message
    )


def _locate_call(entries: Sequence[Entry], call_id: str) -> ForkPoint:
    """Return the point after the reply with the call, or later if no call beside it was running."""
    made: ToolCall | None = None
    running: set[str] = set()
    seq = 0
    for entry in entries:
        match entry.fact:
            case ModelReplied(message=message):
                made = next((call for call in message.tool_calls if call.id == call_id), None)
                seq = entry.seq
                running.clear()
            case CallJudged(call=call):
                if made and call.id == call_id:
                    break
                running.add(call.id)
            case CallFinished(result=result):
                if made and result.call_id == call_id:
                    break
                running.discard(result.call_id)
                seq = seq if running else entry.seq
            case _:
                pass
    if made is None:
        raise _build_no_call_error(entries, call_id)
    return ForkPoint(seq=seq, until=_locate_turn_end(entries, seq), call=made)


def _locate_turn_end(entries: Sequence[Entry], seq: int) -> int:
    for entry in entries:
        if entry.seq > seq and isinstance(entry.fact, TurnEnded):
            return entry.seq
    return entries[-1].seq


def _build_no_call_error(entries: Sequence[Entry], call_id: str) -> UsageError:
    ids = [
        call.id
        for entry in entries
        if isinstance(entry.fact, ModelReplied)
        for call in entry.fact.message.tool_calls
    ]
    near = get_close_matches(call_id, ids, n=1)
    suggestion = f". Did you mean {near[0]}?" if near else ""
    return UsageError(
        f"no call {call_id!r} in this session{suggestion}",
        hint="agentcli trace SESSION shows them; a number means a turn",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkChanges:
    """The changes in the fork. The model and the rules come with the settings."""

    at: str | None = None
    """A turn's number or a call's id; None for the end."""
    prompt: str = ""
    """The prompt that replaces the one at the cut."""
    result: str | None = None
    """The result that replaces that of the call at the cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A new session, ready to continue."""

    paths: SessionPaths
    cut: ForkPoint
    origin: SessionPaths
    entries: Sequence[Entry]
    """The entries of the origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkComparison:
    original: CourseSummary
    fork: CourseSummary
    tree: Path
    """The directory the fork worked in."""
    diff: str
    """The difference from the tree of the original to that of the fork."""
    exit_code: Exit
    """The exit code of the fork's turn."""


def fork_session(
    origin: SessionPaths, changes: ForkChanges, *, sessions: Path | None = None
) -> Fork:
    """Create the fork.

    Raise UsageError if the turn or the call does not exist, SettingsError if the session does not.
    """
    recorded = read_session(origin.log, "fork")
    cut = find_cut(recorded.entries, changes.at)
    if changes.result is not None and cut.call is None:
        raise UsageError("--result-file needs a call", hint="add --at CALL_ID")
    paths = fork(origin, recorded.entries, cut=cut, sessions=sessions)
    if changes.result is not None and cut.call is not None:
        last = read_valid_part(paths.log)
        facts = make_user_result(cut.call, changes.result)
        append_facts(paths, facts, seq=last.last_seq, prev=last.last_hash)
    return Fork(paths=paths, cut=cut, origin=origin, entries=recorded.entries)


async def continue_fork(
    new_fork: Fork,
    changes: ForkChanges,
    *,
    build_settings: Callable[[Path], Settings],
    listeners: Sequence[Listener] = (),
) -> ForkComparison:
    """Run the fork's own continuation to the end of its turn, and compare."""
    tree = locate_fork_tree(new_fork.paths.id)
    seen: list[Fact] = []
    try:
        tree.mkdir(mode=0o700, parents=True)
        rebuild_at(new_fork.origin, new_fork.entries, seq=new_fork.cut.seq, into=tree)
        session = open_session(build_settings(tree), listeners=listeners, resume=new_fork.paths)
    except AgentError:  # nothing was run: it would only be in the way in lists
        _remove(new_fork.paths, tree)
        raise
    shared = len(session.facts) - 1
    code = Exit.INTERNAL
    try:
        ended = await _run_continuation(session, new_fork.cut, changes=changes)
        code = EXIT_OF_ENDING[ended.ending]
        seen = list(session.facts[shared:])
    finally:
        await session.close(code)
    return ForkComparison(
        original=_build_original_course(new_fork),
        fork=summarize_course(seen, sessions=new_fork.paths.sessions, workspace=tree),
        tree=tree,
        diff=_diff_trees(new_fork, tree),
        exit_code=code,
    )


def _remove(paths: SessionPaths, tree: Path) -> None:
    for directory in (paths.directory, tree):
        remove_tree(directory)
    forget_session(paths.id, paths.sessions)


async def _run_continuation(session: Session, cut: ForkPoint, *, changes: ForkChanges) -> TurnEnded:
    if cut.call is not None:
        return await session.continue_turn()
    if changes.prompt.strip():
        return await session.run_turn(changes.prompt)
    prompt, *attached = _split_message(cut.prompt)
    if not isinstance(prompt, str) or not prompt.strip():
        raise UsageError("the fork has no prompt", hint="agentcli fork SESSION PROMPT")
    return await session.repeat_turn(prompt, attachments=attached)


def _split_message(message: UserMessage | None) -> list[Attachment]:
    """Return the text of a message and its attachments."""
    content = message.content if message else (Text(text=""),)
    return [block.text if isinstance(block, Text) else block for block in content]


def _build_original_course(new_fork: Fork) -> CourseSummary:
    seq, until, model = new_fork.cut.seq, new_fork.cut.until, ""
    for entry in new_fork.entries:
        fact = entry.fact
        if entry.seq <= seq and isinstance(fact, SessionStarted | SessionResumed | ModelChanged):
            model = fact.model
    after = [one.fact for one in new_fork.entries if seq < one.seq <= until]
    return summarize_course(
        after,
        sessions=new_fork.origin.sessions,
        workspace=find_workspace(new_fork.entries),
        model=model,
    )


def _diff_trees(new_fork: Fork, tree: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="agentcli-fork-") as scratch:
        rebuild_at(new_fork.origin, new_fork.entries, seq=new_fork.cut.until, into=Path(scratch))
        return diff_trees(Path(scratch), tree)
