"""A log in the structure of its session: turns, requests, and calls with all their records.

Built from whatever can be read. A damaged line is reported and skipped, and the records after it
are still included.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from agentcli.log.decode import parse_fact
from agentcli.log.reader import LogFault, read_valid_part
from agentcli.log.writer import read_lines
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Entry,
    ModelReplied,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import ToolCall
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending, sum_spending

F = TypeVar("F")


@dataclass(slots=True, kw_only=True, eq=False)
class TracedCall:
    call: ToolCall
    record: int = 0
    """The record of the reply that made the call."""
    turn: int = 0
    judged: CallJudged | None = None
    finished: CallFinished | None = None
    finished_record: int = 0

    @property
    def failed(self) -> bool:
        return self.finished is not None and self.finished.result.status == "error"

    @property
    def was_denied(self) -> bool:
        return self.judged is not None and self.judged.verdict.decision == "deny"


@dataclass(slots=True, kw_only=True)
class TracedTurn:
    number: int
    record: int
    prompt: str
    replies: list[tuple[int, ModelReplied]] = field(default_factory=list)
    calls: list[TracedCall] = field(default_factory=list)
    ended: TurnEnded | None = None
    spending: Spending = NO_SPENDING


@dataclass(slots=True, kw_only=True)
class Trace:
    entries: Sequence[Entry]
    faults: Sequence[LogFault] = ()
    """The faults of the log itself."""
    turns: list[TracedTurn] = field(default_factory=list)
    stray: list[tuple[int, CallFinished]] = field(default_factory=list)
    """Results without a call, with their records."""

    @property
    def calls(self) -> list[TracedCall]:
        return [call for turn in self.turns for call in turn.calls]

    @property
    def replies(self) -> list[tuple[int, ModelReplied]]:
        return [reply for turn in self.turns for reply in turn.replies]

    @property
    def spending(self) -> Spending:
        return sum_spending(entry.fact for entry in self.entries)

    def facts(self, kind: type[F]) -> list[tuple[int, F]]:
        """Return every fact of a kind, with its record."""
        return [(entry.seq, entry.fact) for entry in self.entries if isinstance(entry.fact, kind)]


def read_trace(path: Path) -> Trace:
    """Read the trace of a log. Raise SettingsError if there is no log at all."""
    recorded = read_valid_part(path)
    if recorded.fault is None:
        return build_trace(recorded.entries)
    rest, faults = _read_damaged(path, begin=recorded.fault.line)
    return build_trace([*recorded.entries, *rest], faults=[recorded.fault, *faults])


def build_trace(entries: Iterable[Entry], *, faults: Sequence[LogFault] = ()) -> Trace:
    trace = Trace(entries=list(entries), faults=faults)
    fold = _Fold(trace)
    for entry in trace.entries:
        fold.add(entry)
    return trace


Lines: TypeAlias = tuple[list[Entry], list[LogFault]]


def _read_damaged(path: Path, *, begin: int) -> Lines:
    """Read the broken record and those after it one by one: nothing proves they belong together."""
    entries: list[Entry] = []
    faults: list[LogFault] = []
    for number, line in enumerate(read_lines(path), start=1):
        if number < begin:
            continue
        try:
            entries.append(_parse_entry(json.loads(line)))
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
            if number != begin:  # which is already reported
                faults.append(LogFault(line=number, reason="not a record that can be read"))
    return entries, faults


def _parse_entry(record: dict[str, Any]) -> Entry:
    return Entry(
        seq=int(record["seq"]),
        at=str(record["at"]),
        session=str(record["session"]),
        parent=record.get("parent"),
        fact=parse_fact(record["fact"]),
    )


class _Fold:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._waiting: list[TracedCall] = []
        """The calls of the turn that have no result yet."""

    def add(self, entry: Entry) -> None:
        match entry.fact:
            case TurnStarted(message=message):
                prompt = "\n".join(getattr(block, "text", "") for block in message.content)
                self._begin(entry.seq, prompt)
            case ModelReplied() as reply:
                self._reply(entry.seq, reply)
            case CallJudged(call=call) as judged:
                if call.caller:
                    self._ask(entry.seq, call)
                self._open(call.id).judged = judged
            case CallFinished() as finished:
                self._finish(entry.seq, finished)
            case TurnEnded() as ended:
                self._ensure_turn(entry.seq).ended = ended
            case _:
                pass
        if (spent := compute_spending(entry.fact)) != NO_SPENDING:
            self._ensure_turn(entry.seq).spending += spent

    def _begin(self, record: int, prompt: str) -> TracedTurn:
        self._waiting = []
        turns = self._trace.turns
        turns.append(TracedTurn(number=len(turns) + 1, record=record, prompt=prompt))
        return turns[-1]

    def _ensure_turn(self, record: int) -> TracedTurn:
        """Return the current turn, or one without a prompt if its beginning is lost."""
        return self._trace.turns[-1] if self._trace.turns else self._begin(record, "")

    def _reply(self, record: int, reply: ModelReplied) -> None:
        self._ensure_turn(record).replies.append((record, reply))
        for call in reply.message.tool_calls:
            self._ask(record, call)

    def _ask(self, record: int, call: ToolCall) -> None:
        turn = self._ensure_turn(record)
        asked = TracedCall(call=call, record=record, turn=turn.number)
        turn.calls.append(asked)
        self._waiting.append(asked)

    def _finish(self, record: int, finished: CallFinished) -> None:
        result = finished.result
        found = self._open(result.call_id)
        caller = self._open(result.call_id.rpartition(".")[0])
        if not found.record and caller.record:  # a call by a program, refused before it was judged
            call = ToolCall(id=result.call_id, name=result.name, input={}, caller=caller.call.id)
            self._ask(record, call)
            found = self._open(call.id)
        if found.record:
            found.finished, found.finished_record = finished, record
            self._waiting.remove(found)
        else:
            self._trace.stray.append((record, finished))

    def _open(self, call_id: str) -> TracedCall:
        """Return the first call of that id without a result, because ids may repeat.

        If there is none, return one with record 0."""
        nobody = TracedCall(call=ToolCall(id=call_id, name="", input=None))
        return next((one for one in self._waiting if one.call.id == call_id), nobody)
