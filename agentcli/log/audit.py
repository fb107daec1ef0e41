"""Verification that a log is unchanged: its hash chain, and the order of its events.

It proves that no record was changed, dropped, moved or inserted before the given head. Without a
head kept elsewhere, somebody who rewrites everything to the end leaves no trace.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agentcli.log.order import check_order, is_closed
from agentcli.log.reader import LoadedLog, LogFault, read_valid_part
from agentcli.log.writer import read_lines, verify_seal
from agentcli.types.agents import AgentEnded
from agentcli.types.checks import Verified
from agentcli.types.errors import SettingsError
from agentcli.types.events import CallFinished, Entry, Fact, OutputStored, SessionForked
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ChildTurn, Command, ToolResult
from agentcli.types.turns import is_in_turn

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
        *(_check_head(path, recorded, kept) if kept else []),
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
        is_closed=is_closed(facts) and not is_in_turn(facts) and is_whole,
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


def _check_head(path: Path, recorded: LoadedLog, head: LogHead) -> list[LogFault]:
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
