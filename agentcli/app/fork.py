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
from agentcli.record.fork.course import Course, course_of
from agentcli.record.fork.forking import Cut, append, cut_at, fork, given_result
from agentcli.record.fork.trees import tree_diff
from agentcli.record.place import SessionPlace, fork_tree
from agentcli.record.reading import read_what_fits
from agentcli.record.rebuild import lay_out_at
from agentcli.settings import Settings
from agentcli.types.errors import EXIT_OF_ENDING, Exit, SettingsError, UsageError
from agentcli.types.events import Entry, Fact, SessionStarted, TurnEnded
from agentcli.types.messages import Image, Text, UserMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
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

    place: SessionPlace
    cut: Cut
    origin: SessionPlace
    entries: Sequence[Entry]
    """Of the origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    original: Course
    fork: Course
    tree: Path
    """Where the fork worked."""
    diff: str
    """From what the original made of the tree to what the fork made of it."""
    exit_code: Exit
    """Of the fork's turn."""


def fork_session(origin: SessionPlace, wish: Wish, *, sessions: Path | None = None) -> Fork:
    """Raises UsageError where there is no such turn or call, SettingsError where no session."""
    recorded = read_what_fits(origin.log)
    if not recorded.entries:
        raise SettingsError(
            f"{origin.log} holds no session that could be forked",
            hint=f"see why: agentcli audit verify {origin.log}",
        )
    cut = cut_at(recorded.entries, wish.at)
    if wish.result is not None and cut.call is None:
        raise UsageError("a result is given to a call", hint="name the call: --at CALL_ID")
    place = fork(origin, recorded.entries, cut, sessions=sessions)
    if wish.result is not None and cut.call is not None:
        last = read_what_fits(place.log)
        append(place, last.last_seq, last.last_hash, *given_result(cut.call, wish.result))
    return Fork(place=place, cut=cut, origin=origin, entries=recorded.entries)


async def go_on(
    made: Fork,
    wish: Wish,
    settings_in: Callable[[Path], Settings],
    *,
    listeners: Sequence[Listener] = (),
) -> Branches:
    """Plays the fork's own continuation to the end of its turn."""
    tree = fork_tree(made.place.id)
    tree.mkdir(mode=0o700, parents=True)
    lay_out_at(made.origin, made.entries, made.cut.seq, into=tree)
    seen: list[Fact] = []
    session = open_session(settings_in(tree), listeners=listeners, resume=made.place)
    shared = len(session.facts) - 1
    code = Exit.INTERNAL
    try:
        ended = await _continuation(session, made.cut, wish)
        code = EXIT_OF_ENDING[ended.ending]
        seen = list(session.facts[shared:])
    finally:
        await session.close(code)
    return Branches(
        original=_original(made),
        fork=course_of(seen),
        tree=tree,
        diff=_difference(made, tree),
        exit_code=code,
    )


async def _continuation(session: Session, cut: Cut, wish: Wish) -> TurnEnded:
    if cut.call is not None:
        return await session.go_on()
    if wish.prompt.strip():
        return await session.turn(wish.prompt)
    prompt, *attached = _parts(cut.prompt)
    if not isinstance(prompt, str) or not prompt.strip():
        raise UsageError("nothing is asked of the fork", hint="agentcli fork SESSION PROMPT")
    return await session.repeat(prompt, attached=attached)


def _parts(message: UserMessage | None) -> list[str | Image]:
    """What was asked, and what was attached to it."""
    content = message.content if message else (Text(text=""),)
    return [block.text if isinstance(block, Text) else block for block in content]


def _original(made: Fork) -> Course:
    first = made.entries[0].fact
    model = first.model if isinstance(first, SessionStarted) else ""
    seq, until = made.cut.seq, made.cut.until
    before = course_of((one.fact for one in made.entries if one.seq <= seq), model=model)
    after = (one.fact for one in made.entries if seq < one.seq <= until)
    return course_of(after, model=before.model)


def _difference(made: Fork, tree: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="agentcli-fork-") as scratch:
        lay_out_at(made.origin, made.entries, made.cut.until, into=Path(scratch))
        return tree_diff(Path(scratch), tree)
