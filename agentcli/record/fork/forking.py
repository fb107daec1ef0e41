"""A session's beginning, taken over into a session of its own.

The lines are copied byte by byte, so the chain shows that both begin alike. The first line of its
own says where it comes from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from agentcli.machine import clock
from agentcli.record.log import FIRST_PREV, LogWriter, read_lines, verify_seal
from agentcli.record.place import SessionPaths, create_session_paths
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Entry,
    Fact,
    ModelReplied,
    SessionForked,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import Text, ToolCall, UserMessage
from agentcli.types.tools import Effect, ToolResult
from agentcli.types.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """Where two courses part."""

    seq: int
    """The last record they share."""
    until: int
    """The last record of the turn that was cut, in the original."""
    prompt: UserMessage | None = None
    """To be asked again, where the cut is before a turn."""
    call: ToolCall | None = None
    """The first call that is open, where the cut is within a turn."""


def find_cut(entries: Sequence[Entry], at: str | None) -> ForkPoint:
    """`at`: a turn's number, counted from 1, or a call's id; None: at the end."""
    last = entries[-1].seq if entries else 0
    if at is None:
        return ForkPoint(seq=last, until=last)
    if at.isdecimal():
        return _before_turn(entries, int(at))
    return _before_call(entries, at)


def fork(
    origin: SessionPaths, entries: Sequence[Entry], cut: ForkPoint, *, sessions: Path | None = None
) -> SessionPaths:
    """A new session that begins as the origin did. Raises SettingsError when it cannot be made."""
    place = create_session_paths(sessions)
    prev = FIRST_PREV
    try:
        with place.log.open("xb") as copy:
            for number, line in enumerate(read_lines(origin.log), start=1):
                if number > cut.seq:
                    break
                copy.write(line + b"\n")
                prev = verify_seal(line) or ""
    except OSError as error:
        raise SettingsError(
            f"cannot copy the session {origin.id}: {error.strerror}", hint="free some space"
        ) from error
    shared = next((one.session for one in entries if one.seq == cut.seq), origin.id)
    append_facts(
        place, cut.seq, prev, SessionForked(session=place.id, origin=shared, at_seq=cut.seq)
    )
    return place


def make_user_result(call: ToolCall, text: str) -> tuple[Fact, Fact]:
    """A call answered by the person, as if it had run: what if it had said this?"""
    verdict = Verdict(decision="allow", by="person", reason="its result was given instead of run")
    result = ToolResult(call_id=call.id, name=call.name, status="ok", content=(Text(text=text),))
    return (
        CallJudged(call=call, effect=Effect.READ, verdict=verdict),
        CallFinished(result=result),
    )


def append_facts(paths: SessionPaths, seq: int, prev: str, *facts: Fact) -> None:
    log = LogWriter(paths.log, prev=prev)
    try:
        for number, fact in enumerate(facts, start=seq + 1):
            parent = number - 1 or None
            log.append(
                Entry(seq=number, at=clock.now(), session=paths.id, parent=parent, fact=fact)
            )
    finally:
        log.close()


def _before_turn(entries: Sequence[Entry], number: int) -> ForkPoint:
    starts = [entry for entry in entries if isinstance(entry.fact, TurnStarted)]
    if not 1 <= number <= len(starts):
        raise UsageError(
            f"there is no turn {number}: the session has {len(starts)}",
            hint="agentcli sessions show SESSION lists them",
        )
    start = starts[number - 1]
    assert isinstance(start.fact, TurnStarted)
    return ForkPoint(
        seq=start.seq - 1, until=_end_of_turn(entries, start.seq), prompt=start.fact.message
    )


def _before_call(entries: Sequence[Entry], call_id: str) -> ForkPoint:
    """After the reply that made the call, or later, where no call beside it was running."""
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
        raise _no_such_call(entries, call_id)
    return ForkPoint(seq=seq, until=_end_of_turn(entries, seq), call=made)


def _end_of_turn(entries: Sequence[Entry], seq: int) -> int:
    for entry in entries:
        if entry.seq > seq and isinstance(entry.fact, TurnEnded):
            return entry.seq
    return entries[-1].seq


def _no_such_call(entries: Sequence[Entry], call_id: str) -> UsageError:
    ids = [
        call.id
        for entry in entries
        if isinstance(entry.fact, ModelReplied)
        for call in entry.fact.message.tool_calls
    ]
    near = get_close_matches(call_id, ids, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return UsageError(
        f"there is no call {call_id!r} in this session.{meant}",
        hint="agentcli trace SESSION shows them; a number means a turn",
    )
