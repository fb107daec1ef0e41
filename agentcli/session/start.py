"""The start of a session: its paths are locked for this process, new or to be continued.

Here the records that a dead process left open are closed, by records that say so. An unfinished
line is stored beside the log, an open call gets a result, an open turn an end. No record is
rewritten.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.agent.journal import Journal
from agentcli.log.lock import SessionLock
from agentcli.log.paths import SessionPaths, create_session_paths
from agentcli.log.writer import FIRST_PREV, LogWriter
from agentcli.tools.contracts import DELEGATE
from agentcli.types.agents import AgentEnded, AgentStarted
from agentcli.types.errors import UNANSWERED, Ending, SettingsError
from agentcli.types.events import (
    NO_PAST,
    CallFinished,
    CallJudged,
    ContextNote,
    Fact,
    ModelReplied,
    NoteReason,
    PastFacts,
    SessionForked,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    TurnWithdrawn,
    build_missing_failures,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.spending import (
    NO_SPENDING,
    Spending,
    compute_child_spending,
    select_own_facts,
    sum_spending,
)
from agentcli.types.tools import ChildTurn

if TYPE_CHECKING:
    from agentcli.log.reopen import ReopenedLog
    from agentcli.permissions.secrets import Redactor

CUT_SHORT = "agentcli ended before the turn finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """A session that this process has locked. Without a past it is a new one."""

    paths: SessionPaths
    session: str
    lock: SessionLock
    past: PastFacts = NO_PAST
    last_seq: int = 0
    last_hash: str = FIRST_PREV
    repaired: tuple[str, ...] = ()
    lost: tuple[ChildTurn, ...] = ()
    """Child agents that were killed with their parent, so that no result mentions them."""
    lost_agents: tuple[AgentEnded, ...] = ()
    """Background agents that were killed with it."""

    def sum_spending(self) -> Spending:
        """Return all spending of this session so far. A fork's origin has paid for its part."""
        turns = (*self.lost, *(agent.turn for agent in self.lost_agents))
        own = sum_spending(select_own_facts(self.past.facts))
        return own + sum(map(compute_child_spending, turns), NO_SPENDING)


def open_new(sessions: Path | None) -> SessionStart:
    paths = create_session_paths(sessions)
    return SessionStart(paths=paths, session=paths.id, lock=SessionLock(paths.directory))


def open_existing(paths: SessionPaths) -> SessionStart:
    """Open a session to continue. Raise InUse if another process has it.

    Raise SettingsError if it cannot be continued."""
    from agentcli.log.reader import build_fault_error
    from agentcli.log.reopen import is_read, reopen_log

    lock = SessionLock(paths.directory)
    try:
        recorded = reopen_log(paths.log, version=__version__)
        if recorded.fault is not None:
            raise build_fault_error(paths.log, recorded.fault, hint=f"agentcli fork {paths.id}")
        repaired = _move_unfinished_line(paths, recorded)
        paths.out.mkdir(mode=0o700, exist_ok=True)
        own = list(filter(is_read, select_own_facts(recorded.facts)))
        lost_agents = tuple(_find_lost_agents(paths, own))
        lost = tuple(_find_lost_children(paths, own))
    except OSError as error:
        lock.release()
        raise SettingsError(
            f"cannot repair the session {paths.directory}: {error.strerror}",
            hint=f"free some space, or work on a copy: agentcli fork {paths.id}",
        ) from error
    except SettingsError:
        lock.release()
        raise
    return SessionStart(
        paths=paths,
        session=recorded.session or paths.id,
        lock=lock,
        past=PastFacts(facts=recorded.facts, seqs=recorded.seqs, times=recorded.times),
        last_seq=recorded.last_seq,
        last_hash=recorded.last_hash,
        repaired=repaired,
        lost=lost,
        lost_agents=lost_agents,
    )


@contextmanager
def open_closed_journal(paths: SessionPaths, redactor: "Redactor") -> Iterator[Journal]:
    """Open the record of a session that nobody is working in. Raise SessionInUse if one is."""
    from agentcli.permissions.masking import EventMasking

    start = open_existing(paths)
    log = LogWriter(paths.log, prev=start.last_hash)
    try:
        yield Journal(
            start.session,
            record=log.append,
            past=start.past,
            last_seq=start.last_seq,
            mask=EventMasking(redactor),
        )
    finally:
        log.close()
        start.lock.release()


def add_fact(paths: SessionPaths, fact: Fact) -> None:
    """Append one fact to a session that nobody is working in."""
    from agentcli.session.secrets import build_redactor

    with open_closed_journal(paths, build_redactor()) as journal:
        journal.append(fact)


def close_unfinished(
    journal: Journal, lost: Sequence[ChildTurn] = (), *, lost_agents: Sequence[AgentEnded] = ()
) -> tuple[str, ...]:
    """Close the records that the previous process left open. Return what was repaired.

    `lost` are child agents that were at work; the results of their calls say what they used.
    `lost_agents` were at work in the background.
    A fork was cut on purpose: its turn stays open, to be continued."""
    from agentcli.log.audit import is_closed

    if _is_fresh_fork(journal.facts):
        return ()
    was_closed = is_closed(journal.facts)
    return (
        *end_open_turn(journal, lost),
        *(_record_lost_agent(journal, agent) for agent in lost_agents),
        *(() if was_closed else ("it was not closed",)),
    )


def _record_lost_agent(journal: Journal, lost: AgentEnded) -> str:
    """Record what became of a background agent. Return it for the user."""
    journal.append_silently(lost)
    note = f"[Agent {lost.agent} did not finish: {lost.message}.]"
    journal.append_silently(ContextNote(text=note, why=NoteReason.BACKGROUND))
    return f"agent {lost.agent} did not finish: {lost.message}"


def end_open_turn(journal: Journal, lost: Sequence[ChildTurn] = ()) -> tuple[str, ...]:
    """Record the end of the turn that is open, if one is. Return what was repaired."""
    if not journal.is_in_turn:
        return ()
    done: list[str] = []
    for failure in build_missing_failures(journal.facts):
        journal.append_silently(failure)
    children = iter(lost)  # in the order of their calls
    for result in journal.history.build_missing_results():
        if result.name == DELEGATE:
            result = replace(result, details=next(children, None))
        journal.append_silently(CallFinished(result=result))
        done.append(f"the call {result.call_id} ({result.name}) had no result")
    journal.append_silently(TurnEnded(ending=Ending.CANCELLED, message=CUT_SHORT))
    return (*done, "its last turn had no end")


def _find_lost_children(paths: SessionPaths, own: Sequence[Fact]) -> Iterator[ChildTurn]:
    """Yield the child agents whose logs no fact of this session names."""
    results = [fact.result for fact in own if isinstance(fact, CallFinished)]
    known = {
        *(one.details.log_path for one in results if isinstance(one.details, ChildTurn)),
        *(fact.log_path for fact in own if isinstance(fact, AgentStarted)),
    }
    names = {Path(path).name for path in known}
    for log in paths.iter_child_logs():
        if log.name not in names:
            yield _build_lost_turn(log)


def _find_lost_agents(paths: SessionPaths, own: Sequence[Fact]) -> Iterator[AgentEnded]:
    """Yield the ends of background agents that were killed with the session."""
    ended = {fact.agent for fact in own if isinstance(fact, AgentEnded)}
    for fact in own:
        if isinstance(fact, AgentStarted) and fact.agent not in ended:
            log = paths.out / Path(fact.log_path).name
            where = f"; its changes are in the worktree {fact.worktree}" if fact.worktree else ""
            yield AgentEnded(
                agent=fact.agent,
                turn=replace(_build_lost_turn(log), role=fact.role),
                message=f"agentcli ended while it was at work{where}",
                was_lost=True,
            )


def _build_lost_turn(log: Path) -> ChildTurn:
    """Return the turn of a child agent, as far as its log goes."""
    from agentcli.log.reader import read_valid_part

    recorded = read_valid_part(log)
    facts = [entry.fact for entry in recorded.entries]
    spent = sum_spending(facts)
    return ChildTurn(
        role="",
        ending=Ending.CANCELLED,
        calls=sum(isinstance(fact, CallJudged) for fact in facts),
        usage=spent.usage,
        cost_usd=spent.cost_usd,
        log_path=str(log),
        log_head=recorded.last_hash if recorded.last_seq else "",
    )


def _move_unfinished_line(paths: SessionPaths, recorded: "ReopenedLog") -> tuple[str, ...]:
    """Move an unfinished last line out of the log into its own file. Return what was done."""
    unfinished_bytes = paths.log.stat().st_size - recorded.size_bytes
    if not unfinished_bytes:
        return ()
    from shutil import copyfileobj

    from agentcli.system.files import open_private

    moved_to = _find_free_path(paths.directory / f"unfinished-{recorded.last_seq + 1}.txt")
    with paths.log.open("rb") as file, open_private(moved_to) as copy:
        file.seek(recorded.size_bytes)
        copyfileobj(file, copy)
    os.truncate(paths.log, recorded.size_bytes)
    return (f"{unfinished_bytes} bytes of an unfinished record were moved to {moved_to.name}",)


def _find_free_path(path: Path) -> Path:
    """Return the path, or a numbered one if it exists: a record can be cut more than once."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def _is_fresh_fork(facts: Sequence[Fact]) -> bool:
    for fact in reversed(facts):
        if isinstance(fact, SessionForked | SessionResumed | SessionStarted):
            return isinstance(fact, SessionForked)
    return False


def is_unanswered(facts: Sequence[Fact], endings: frozenset[Ending] = UNANSWERED) -> bool:
    """Return whether the last turn ended without any reply, because no model could be reached."""
    for fact in reversed(facts):
        match fact:
            case TurnStarted():
                return True
            case TurnEnded(ending=ending) if ending in endings:
                continue
            case ModelReplied() | TurnEnded() | TurnWithdrawn():
                return False
            case _:
                continue
    return False
