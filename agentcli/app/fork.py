"""What if: a session's beginning with another continuation, and the two side by side.

The new continuation works in a directory of its own, laid out as the workspace was at that point.
Neither the original session nor the workspace is touched.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent.journal import Listener
from agentcli.app.opening import open_session
from agentcli.app.session import Session
from agentcli.record.fork.course import CourseSummary, summarize_course
from agentcli.record.fork.forking import ForkPoint, append_facts, find_cut, fork, make_user_result
from agentcli.record.fork.trees import diff_trees
from agentcli.record.place import SessionPaths, fork_tree
from agentcli.record.reading import read_valid_part
from agentcli.record.rebuild import rebuild_at
from agentcli.settings import Settings
from agentcli.types.errors import EXIT_OF_ENDING, Exit, SettingsError, UsageError
from agentcli.types.events import Entry, Fact, SessionStarted, TurnEnded
from agentcli.types.messages import Image, Text, UserMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkChanges:
    """What is to be otherwise. The model and the rules come with the settings."""

    at: str | None = None
    """A turn's number or a call's id; None: at the end."""
    prompt: str = ""
    """Instead of the one that was given there."""
    result: str | None = None
    """Instead of what the call at the cut came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A session of its own, ready to go on."""

    paths: SessionPaths
    cut: ForkPoint
    origin: SessionPaths
    entries: Sequence[Entry]
    """Of the origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkComparison:
    original: CourseSummary
    fork: CourseSummary
    tree: Path
    """Where the fork worked."""
    diff: str
    """From what the original made of the tree to what the fork made of it."""
    exit_code: Exit
    """Of the fork's turn."""


def fork_session(
    origin: SessionPaths, changes: ForkChanges, *, sessions: Path | None = None
) -> Fork:
    """Raises UsageError where there is no such turn or call, SettingsError where no session."""
    recorded = read_valid_part(origin.log)
    if not recorded.entries:
        raise SettingsError(
            f"{origin.log} holds no session that could be forked",
            hint=f"see why: agentcli audit verify {origin.log}",
        )
    cut = find_cut(recorded.entries, changes.at)
    if changes.result is not None and cut.call is None:
        raise UsageError("a result is given to a call", hint="name the call: --at CALL_ID")
    place = fork(origin, recorded.entries, cut, sessions=sessions)
    if changes.result is not None and cut.call is not None:
        last = read_valid_part(place.log)
        append_facts(
            place, last.last_seq, last.last_hash, *make_user_result(cut.call, changes.result)
        )
    return Fork(paths=place, cut=cut, origin=origin, entries=recorded.entries)


async def continue_fork(
    new_fork: Fork,
    changes: ForkChanges,
    build_settings: Callable[[Path], Settings],
    *,
    listeners: Sequence[Listener] = (),
) -> ForkComparison:
    """Plays the fork's own continuation to the end of its turn."""
    tree = fork_tree(new_fork.paths.id)
    tree.mkdir(mode=0o700, parents=True)
    rebuild_at(new_fork.origin, new_fork.entries, new_fork.cut.seq, into=tree)
    seen: list[Fact] = []
    session = open_session(build_settings(tree), listeners=listeners, resume=new_fork.paths)
    shared = len(session.facts) - 1
    code = Exit.INTERNAL
    try:
        ended = await _run_continuation(session, new_fork.cut, changes)
        code = EXIT_OF_ENDING[ended.ending]
        seen = list(session.facts[shared:])
    finally:
        await session.close(code)
    return ForkComparison(
        original=_build_original_course(new_fork),
        fork=summarize_course(seen),
        tree=tree,
        diff=_diff_trees(new_fork, tree),
        exit_code=code,
    )


async def _run_continuation(session: Session, cut: ForkPoint, changes: ForkChanges) -> TurnEnded:
    if cut.call is not None:
        return await session.continue_turn()
    if changes.prompt.strip():
        return await session.run_turn(changes.prompt)
    prompt, *attached = _split_message(cut.prompt)
    if not isinstance(prompt, str) or not prompt.strip():
        raise UsageError("nothing is asked of the fork", hint="agentcli fork SESSION PROMPT")
    return await session.repeat_turn(prompt, attachments=attached)


def _split_message(message: UserMessage | None) -> list[str | Image]:
    """What was asked, and what was attached to it."""
    content = message.content if message else (Text(text=""),)
    return [block.text if isinstance(block, Text) else block for block in content]


def _build_original_course(new_fork: Fork) -> CourseSummary:
    first = new_fork.entries[0].fact
    model = first.model if isinstance(first, SessionStarted) else ""
    seq, until = new_fork.cut.seq, new_fork.cut.until
    before = summarize_course((one.fact for one in new_fork.entries if one.seq <= seq), model=model)
    after = (one.fact for one in new_fork.entries if seq < one.seq <= until)
    return summarize_course(after, model=before.model)


def _diff_trees(new_fork: Fork, tree: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="agentcli-fork-") as scratch:
        rebuild_at(new_fork.origin, new_fork.entries, new_fork.cut.until, into=Path(scratch))
        return diff_trees(Path(scratch), tree)
