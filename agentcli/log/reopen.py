"""A log that is taken up again: its chain is followed, and most facts stay lines until needed.

A session that goes on needs few of the fields in its log. A line of this version, with its hash
intact, becomes a fact of its class at once, and is parsed when a field of it is first asked for.
All other lines are read and validated as everywhere.
"""

import re
from dataclasses import field
from pathlib import Path

from agentcli.log.decode import FACTS
from agentcli.log.reader import LogFault, UnreadableRecord, build_read_error, read_entry
from agentcli.log.unread import build_unread_class, leave_unread
from agentcli.log.writer import FIRST_PREV, SEAL_BYTES, VERSION, read_lines, verify_seal
from agentcli.types.events import Fact, SessionResumed, SessionStarted
from agentcli.types.fast_dataclass import dataclass

_HEAD = re.compile(
    rb'\{"v":%d,"seq":(\d+),"at":"([^"\\]*)","session":"([^"\\]*)","parent":(?:\d+|null),'
    rb'"prev":"(.{64})","fact":\{"' % VERSION,
    re.DOTALL,  # otherwise each of the 64 is looked at
)
_TYPE = b'"type":"'
_TYPE_BYTES = 40
"""More than any type takes at the end of a line."""
_LAST_TEXT = b'"type":"text"}]'
_CHILD_TURN = b'"type":"child_turn"'
_FOUND = b'"found":['
_OPENINGS = (SessionStarted, SessionResumed)


@dataclass(slots=True, kw_only=True)
class ReopenedLog:
    facts: list[Fact] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    session: str = ""
    """The session of the last record."""
    last_seq: int = 0
    last_hash: str = FIRST_PREV
    """The hash that the next line has to carry."""
    size_bytes: int = 0
    """The size of the lines that were read: the offset of the next one."""
    fault: LogFault | None = None


def reopen_log(path: Path, *, version: str) -> ReopenedLog:
    """Return all up to the first line that does not fit. Raise SettingsError without a log.

    `version` is that of this program, whose own lines need no validation."""
    log, is_own = ReopenedLog(), False
    facts, seqs, times = log.facts, log.seqs, log.times
    seq, prev, size_bytes = 0, FIRST_PREV, 0
    try:
        for line in read_lines(path):
            unread = _leave_unread(line, prev, seq + 1) if is_own else None
            fact, at, session, prev = unread or _read(line, prev, seq + 1)
            seq, size_bytes = seq + 1, size_bytes + len(line) + 1
            if fact is None:
                continue
            facts.append(fact)
            seqs.append(seq)
            times.append(at)
            log.session = session
            if unread is None and isinstance(fact, _OPENINGS):
                is_own = fact.version == version
    except UnreadableRecord as misfit:
        log.fault = LogFault(line=seq + 1, reason=str(misfit))
    except OSError as error:
        raise build_read_error(path, error) from error
    log.last_seq, log.last_hash, log.size_bytes = seq, prev, size_bytes
    return log


def _read(line: bytes, prev: str, seq: int) -> tuple[Fact | None, str, str, str]:
    """Return the fact of a line, its time, session and hash; None for a fact of an unknown type."""
    entry, seal = read_entry(line, prev, seq)
    return (entry.fact, entry.at, entry.session, seal) if entry else (None, "", "", seal)


def _leave_unread(line: bytes, prev: str, seq: int) -> tuple[Fact, str, str, str] | None:
    """Return the same without reading the fact; None if the line must be read."""
    kind = _UNREAD.get(line[-SEAL_BYTES - _TYPE_BYTES : -SEAL_BYTES].rpartition(_TYPE)[2])
    head = _HEAD.match(line)
    if kind is None or head is None:
        return None
    number, at, session, before = head.groups()
    if before != prev.encode() or int(number) != seq:
        return None
    seal = verify_seal(line)
    if seal is None or (kind is _RESULT and _is_needed(line)):
        return None
    return leave_unread(kind, line), at.decode(), session.decode(), seal


def _is_needed(line: bytes) -> bool:
    """Return whether a session that goes on needs a result: it names an agent, or tools it found.

    Both come after its text."""
    after = max(0, line.rfind(_LAST_TEXT))
    return line.find(_CHILD_TURN, after) >= 0 or line.find(_FOUND, after) >= 0


_UNREAD = {
    f'{name}"}}'.encode(): build_unread_class(FACTS[name])
    for name in (
        *("model_replied", "call_judged", "call_finished"),
        *("checkpointed", "hook_ran", "turn_ended"),
    )
}
"""Classes of the most frequent and longest facts, by how their lines end before the hash."""
_RESULT = _UNREAD[b'call_finished"}']
