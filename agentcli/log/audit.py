"""Verification that a log is unchanged: its hash chain, and the order of its events.

It proves that no record was changed, dropped, moved or inserted before the given head. Without a
head kept elsewhere, somebody who rewrites everything to the end leaves no trace.

Facts must be in an order in which they can have happened. A turn begins before anything happens in
it. A reply's calls are judged before they run and are answered once, before the next reply. Nothing
happens in a session that has ended.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agentcli.log.reader import LoadedLog, LogFault, read_valid_part
from agentcli.log.writer import read_lines, verify_seal
from agentcli.types.agents import AgentEnded
from agentcli.types.checks import Verified
from agentcli.types.errors import Ending, SettingsError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    ContextNote,
    Entry,
    Fact,
    ModelFailed,
    ModelReplied,
    OutputStored,
    SessionEnded,
    SessionForked,
    SessionNamed,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Undone,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.tools import ChildTurn, Command, ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict

LEAVE_CALLS_OPEN = {Ending.CANCELLED, Ending.TIME_LIMIT, Ending.INTERNAL}
"""Endings that can come before a reply's later calls were handled."""


@dataclass(slots=True)
class _Asked:
    call: ToolCall
    verdict: Verdict | None = None
    answered: bool = False


class ImpossibleOrder(Exception):
    """The fact cannot follow those before it; the message says why."""


def check_order(entries: Sequence[Entry]) -> tuple[list[LogFault], tuple[str, ...]]:
    """Return what is impossible, and the ids of calls that an interrupted turn left open."""
    order, faults = OrderCheck(), []
    for entry in entries:
        try:
            order.follow(entry.fact)
        except ImpossibleOrder as impossible:
            faults.append(LogFault(line=entry.seq, reason=str(impossible)))
    return faults, tuple(order.left_open)


def is_closed(facts: Sequence[Fact]) -> bool:
    """Return whether its process has ended it.

    The user may name it, undo things and merge its worktree afterwards."""
    afterwards = (SessionNamed, Undone, ContextNote, Checkpointed)
    last = next((fact for fact in reversed(facts) if not isinstance(fact, afterwards)), None)
    return isinstance(last, SessionEnded)


def _is_in_turn(facts: Sequence[Fact]) -> bool:
    turns = (fact for fact in reversed(facts) if isinstance(fact, TurnStarted | TurnEnded))
    return isinstance(next(turns, None), TurnStarted)


class OrderCheck:
    def __init__(self) -> None:
        self._began = False
        self._ended = False
        self._in_turn = False
        self._forked = False
        self._goes_on = False
        self._asked: list[_Asked] = []
        self.left_open: list[str] = []
        """The ids of calls without a result in turns that have ended."""

    def follow(self, fact: Fact) -> None:
        """Check the next fact. Raise ImpossibleOrder, and go on as if the fact had happened."""
        began, self._began = self._began, True
        if began == isinstance(fact, SessionStarted):
            raise ImpossibleOrder("a session starts once, with its first record")
        match fact:
            case SessionEnded():
                self._end(fact)
            case SessionForked():
                self._forked = True
            case SessionResumed():
                self._resume()
            case TurnStarted():
                self._start_turn()
            case ModelReplied() | ModelFailed() | CallJudged() | CallFinished():
                self._check_fact(fact)
            case TurnEnded():
                self._end_turn(fact)
            case _:
                pass

    def _end(self, fact: SessionEnded) -> None:
        """End the session. If the end of its turn could not be recorded, it must have failed."""
        self._ended = True
        if self._in_turn and not self._goes_on and fact.exit_code == 0:
            raise ImpossibleOrder("the session ends without an error within a turn")

    def _resume(self) -> None:
        self._goes_on, self._forked, self._ended = self._forked, False, False
        if self._goes_on:
            return  # a fork may be cut in the middle of a turn
        was_in_turn, self._in_turn = self._in_turn, False
        if was_in_turn:
            raise ImpossibleOrder("resumed, but the turn before had not ended")

    def _start_turn(self) -> None:
        was_in_turn, self._in_turn = self._in_turn, True
        self._asked = []
        if was_in_turn:
            raise ImpossibleOrder("a turn starts within a turn")
        if self._ended:
            raise ImpossibleOrder("a turn starts in a session that has ended")

    def _check_fact(self, fact: Fact) -> None:
        match fact:
            case ModelReplied(message=message):
                unanswered = self._list_unanswered()
                self._asked = [_Asked(call) for call in message.tool_calls]
                if unanswered:
                    raise ImpossibleOrder(
                        f"a reply before {_describe_calls(unanswered)} got a result"
                    )
            case CallJudged(call=call, verdict=verdict):
                self._judge(call, verdict)
            case CallFinished(result=result):
                self._finish(result)
            case _:
                pass
        if not self._in_turn:
            raise ImpossibleOrder(f"{fact.type} outside of a turn")

    def _judge(self, call: ToolCall, verdict: Verdict) -> None:
        asked = self._open(call.id)
        if asked is None and call.caller is not None:
            asked = _Asked(call)  # made by a program that the model wrote
            self._asked.append(asked)
        if asked is None:
            raise ImpossibleOrder(f"a verdict on {call.id}, which is not an open call")
        if asked.verdict is not None:
            raise ImpossibleOrder(f"a second verdict on {call.id}")
        asked.verdict = verdict

    def _finish(self, result: ToolResult) -> None:
        asked = self._open(result.call_id)
        if asked is None:
            raise ImpossibleOrder(f"a result for {result.call_id}, which is not an open call")
        asked.answered = True
        if asked.call.name != result.name:
            raise ImpossibleOrder(f"{result.call_id} was a call of {asked.call.name}")
        if not _was_executed(result):
            return
        if asked.verdict is None:
            raise ImpossibleOrder(f"{result.call_id} ({result.name}) ran without a verdict")
        if asked.verdict.decision not in ("allow", "modify"):
            raise ImpossibleOrder(f"{result.call_id} ({result.name}) ran, but it was denied")

    def _end_turn(self, ended: TurnEnded) -> None:
        was_in_turn, self._in_turn = self._in_turn, False
        unanswered, self._asked = self._list_unanswered(), []
        self.left_open += [asked.call.id for asked in unanswered]
        if not was_in_turn and ended.ending is not Ending.DENIED:  # a prompt can be refused
            raise ImpossibleOrder("a turn ends that did not start")
        if unanswered and ended.ending not in LEAVE_CALLS_OPEN:
            raise ImpossibleOrder(
                f"the turn ends before {_describe_calls(unanswered)} got a result"
            )

    def _open(self, call_id: str) -> _Asked | None:
        for asked in self._asked:
            if asked.call.id == call_id and not asked.answered:
                return asked
        return None

    def _list_unanswered(self) -> list[_Asked]:
        return [asked for asked in self._asked if not asked.answered]


def _was_executed(result: ToolResult) -> bool:
    """Return whether the call ran. Errors without details can precede the verdict.

    Those are unknown tools, bad input and limits.
    """
    return result.status == "ok" or result.error is ErrorKind.TIMEOUT or result.details is not None


def _describe_calls(asked: list[_Asked]) -> str:
    return ", ".join(one.call.id for one in asked)


Status = Literal["intact", "open", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """A record's number and hash. Whoever keeps it can prove that nothing before it was changed."""

    session: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    records: int
    head: LogHead | None
    """The head at the last sound record; None if there is none."""
    faults: tuple[LogFault, ...]
    """Everything that is impossible, by line; the first is where to look."""
    notes: tuple[str, ...]
    """Conditions that a crash or a newer version leaves."""
    is_closed: bool
    unanswered: tuple[str, ...] = ()
    """The ids of calls without a result, because their turn was interrupted."""

    @property
    def status(self) -> Status:
        """`open` if it is sound so far, but the session is running or its process died."""
        if self.faults:
            return "broken"
        return "intact" if self.is_closed else "open"


def audit_log(
    path: Path, *, kept: LogHead | None = None, with_children: bool = True
) -> AuditResult:
    """Return the result for a log. Raise SettingsError if there is no log."""
    recorded = read_valid_part(path)
    entries = recorded.entries
    order_faults, unanswered = check_order(entries)
    child_faults, child_notes = _audit_children(path, entries) if with_children else ([], [])
    outputs = path.parent / "out" if with_children else path.parent
    output_faults, output_notes = _check_outputs(outputs, entries)
    faults = [
        *find_identity_faults(entries),
        *order_faults,
        *([recorded.fault] if recorded.fault else []),
        *(_check_head(path, recorded, head=kept) if kept else []),
        *child_faults,
        *output_faults,
    ]
    head = None
    if recorded.last_seq:
        session = entries[-1].session if entries else ""
        head = LogHead(session=session, seq=recorded.last_seq, hash=recorded.last_hash)
    facts = [entry.fact for entry in entries]
    is_whole = recorded.fault is None and not _count_unfinished_bytes(path, recorded)
    return AuditResult(
        records=recorded.last_seq,
        head=head,
        faults=tuple(sorted(faults, key=lambda fault: fault.line)),
        notes=(*_list_notes(path, recorded), *child_notes, *output_notes),
        is_closed=is_closed(facts) and not _is_in_turn(facts) and is_whole,
        unanswered=unanswered,
    )


def _audit_children(path: Path, entries: Sequence[Entry]) -> tuple[list[LogFault], list[str]]:
    """Return faults and notes on the logs of child agents, by the record that names each."""
    faults: list[LogFault] = []
    notes: list[str] = []
    for entry in entries:
        child = _find_child(entry.fact)
        if child is None or not child.log_path:
            continue  # a server asked the model: there is no log
        log = path.parent / "out" / Path(child.log_path).name
        if not log.is_file():
            notes.append(
                f"record {entry.seq}: the log of its child agent, out/{log.name}, is missing"
            )
            continue
        found = audit_log(log, with_children=False)
        faults += [
            LogFault(line=entry.seq, reason=f"out/{log.name}, record {fault.line}: {fault.reason}")
            for fault in found.faults
        ]
        is_same = found.head is not None and found.head.hash == child.log_head
        if child.log_head and not found.faults and not is_same:
            reason = f"out/{log.name} was replaced, or its end is missing"
            faults.append(LogFault(line=entry.seq, reason=reason))
    return faults, notes


def _find_child(fact: Fact) -> ChildTurn | None:
    """Return the turn of a child agent that a fact reports."""
    match fact:
        case CallFinished(result=ToolResult(details=ChildTurn() as child)):
            return child
        case AgentEnded(turn=turn):
            return turn
        case _:
            return None


def _check_outputs(directory: Path, entries: Sequence[Entry]) -> tuple[list[LogFault], list[str]]:
    """Return faults and notes on the stored outputs of commands, by the record with the hash.

    Those of a fork's origin are in the origin's directory, and belong to its log."""
    faults: list[LogFault] = []
    notes: list[str] = []
    forks = [entry.seq for entry in entries if isinstance(entry.fact, SessionForked)]
    for entry in entries:
        log_path, sha256 = _find_output(entry.fact)
        if not sha256 or entry.seq < max(forks, default=0):
            continue
        name = Path(log_path).name
        try:
            with (directory / name).open("rb") as file:
                is_same = hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except OSError as error:
            why = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
            notes.append(f"record {entry.seq}: the output out/{name} {why}")
            continue
        if not is_same:
            faults.append(LogFault(line=entry.seq, reason=f"the output out/{name} was changed"))
    return faults, notes


def _find_output(fact: Fact) -> tuple[str, str]:
    """Return the file of a command's output and its hash; empty if the fact has none."""
    match fact:
        case CallFinished(result=ToolResult(details=Command() as command)):
            return command.log_path, command.output_sha256
        case Verified(log_path=log_path, output_sha256=sha256):
            return log_path, sha256
        case OutputStored(log_path=log_path, sha256=sha256):
            return log_path, sha256
        case _:
            return "", ""


def find_identity_faults(entries: Sequence[Entry]) -> list[LogFault]:
    """Return the records of another session, and those not caused by an earlier record."""
    faults: list[LogFault] = []
    session = entries[0].session if entries else ""
    for entry in entries:
        if isinstance(entry.fact, SessionForked):
            session = entry.fact.session
        if entry.session != session:
            faults.append(LogFault(line=entry.seq, reason=f"belongs to session {entry.session}"))
        if entry.parent is not None and not 0 < entry.parent < entry.seq:
            faults.append(LogFault(line=entry.seq, reason=f"caused by record {entry.parent}"))
    return faults


def read_head(path: Path) -> LogHead:
    """Read a kept head. Raise SettingsError if the file is not one."""
    try:
        head = json.loads(path.read_text(encoding="utf-8"))
        return LogHead(session=str(head["session"]), seq=int(head["seq"]), hash=str(head["hash"]))
    except OSError as error:
        raise SettingsError(
            f"cannot read the exported hash {path}: {error.strerror}",
            hint="agentcli audit head SESSION",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{path} is not an exported hash: it needs session, seq and hash",
            hint=f"agentcli audit head SESSION -o {path}",
        ) from error


def _check_head(path: Path, recorded: LoadedLog, *, head: LogHead) -> list[LogFault]:
    if recorded.fault is not None and recorded.last_seq < head.seq:
        return []  # the fault before it says more
    for number, line in enumerate(read_lines(path), start=1):
        if number == head.seq:
            if verify_seal(line) == head.hash:
                return []
            reason = "not the record whose hash was exported: it, or one before it, was rewritten"
            return [LogFault(line=number, reason=reason)]
    reason = f"missing: the exported hash is that of record {head.seq}"
    return [LogFault(line=recorded.last_seq + 1, reason=reason)]


def _count_unfinished_bytes(path: Path, recorded: LoadedLog) -> int:
    return path.stat().st_size - recorded.size_bytes


def _list_notes(path: Path, recorded: LoadedLog) -> list[str]:
    notes: list[str] = []
    if recorded.fault is None:
        unfinished_bytes = _count_unfinished_bytes(path, recorded)
        if unfinished_bytes:
            notes.append(
                f"record {recorded.last_seq + 1} is unfinished: {unfinished_bytes} bytes "
                "without a newline, which are not part of the log"
            )
        if not is_closed([entry.fact for entry in recorded.entries]):
            notes.append(
                f"no closing record after {recorded.last_seq}: the session is running, was "
                "killed, or the end of the log is missing"
            )
    if recorded.passed_over:
        notes.append(
            f"{recorded.passed_over} records are of types only a newer version knows: "
            "their hashes are right, their content was not checked"
        )
    back = sum(
        later.at < earlier.at
        for earlier, later in zip(recorded.entries, recorded.entries[1:], strict=False)
    )
    if back:
        notes.append(f"the clock went back {back} times")
    return notes
