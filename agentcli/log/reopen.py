"""A log that is taken up again: its chain is followed, and most facts stay lines until needed.

A session that goes on needs few of the fields in its log. A line of this version, with its hash
intact, becomes a fact of its class at once, and is parsed when a field of it is first asked for.
All other lines are read and validated as everywhere.

A running session seldom reads what it recorded long ago: such a fact is put away, and read from the
log whenever a field is asked for. So is its message or result. Either stays the same object, which
others hold and compare by identity.
"""

import json
import re
from dataclasses import field
from pathlib import Path
from threading import RLock
from typing import Any

from agentcli.log.decode import FACTS, parse_fact
from agentcli.log.reader import LogFault, UnreadableRecord, build_read_error, read_entry
from agentcli.log.writer import FIRST_PREV, SEAL_BYTES, VERSION, StoredLine, read_lines, verify_seal
from agentcli.types.errors import SettingsError
from agentcli.types.events import CallFinished, Fact, ModelReplied, SessionResumed, SessionStarted
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage
from agentcli.types.tools import ToolResult

_LOADING = RLock()


def is_read(fact: Fact) -> bool:
    """Return whether a fact was ever read. The others name no agent, and no tool was found."""
    return not isinstance(fact, Unread) or isinstance(_find_line(fact), StoredLine)


class Unread:
    """A value that is in a line so far. Each use of a field reads it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(_load(self), name)

    def __eq__(self, other: object) -> bool:
        return bool(_load(self) == other)

    def __hash__(self) -> int:
        return hash(_load(self))

    def __repr__(self) -> str:
        return repr(_load(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _return, (_load(self),)


def _return(value: Any) -> Any:
    """Return the value: what a copy of an unread one is made by."""
    return value


def leave_unread(kind: Any, line: bytes) -> Any:
    """Return a fact of a class of unread ones. It becomes an ordinary fact when it is read."""
    fact = object.__new__(kind)
    kind.keep.__set__(fact, line)
    return fact


def put_away(fact: Fact, line: StoredLine) -> None:
    """Let a fact, and the message or result in it, be read from the log from now on."""
    match fact:
        case ModelReplied(message=part) | CallFinished(result=part):
            _put_away(part, line)
        case _:
            pass
    _put_away(fact, line)


def _put_away(value: Any, line: StoredLine) -> None:
    kind = type(value)
    unread = _PUT_AWAY.get(kind)
    if unread is None:
        return
    with _LOADING:  # a thread must not see half of it
        object.__setattr__(value, "__class__", unread)
        for name in kind.__dataclass_fields__:
            vars(kind)[name].__delete__(value)
        unread.keep.__set__(value, line)


def _load(value: Any) -> Any:
    """Return the value with its fields. One that was left unread is the same object."""
    with _LOADING:
        unread: Any = type(value)
        if not issubclass(unread, Unread):
            return value
        line = _find_line(value)
        if isinstance(line, StoredLine):
            fact = line.read(_parse)
            part = _PARTS.get(unread)
            return getattr(fact, part) if part else fact
        parsed = _parse(line)
        for name in parsed.__dataclass_fields__:
            getattr(type(parsed), name).__set__(value, getattr(parsed, name))
        object.__setattr__(value, "__class__", type(parsed))
        return value


def _find_line(value: Any) -> bytes | StoredLine:
    line: bytes | StoredLine = vars(type(value))["keep"].__get__(value)
    return line


def _parse(line: bytes) -> Any:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise SettingsError(f"the log of this session has been changed: {error}") from error
    try:
        return parse_fact(record["fact"])
    except ValueError as error:
        raise SettingsError(
            f"record {record['seq']} of the log is not of this format: {error}",
            hint=f"agentcli audit verify {record['session']}",
        ) from error


def build_unread_class(kind: Any) -> Any:
    """Return a subclass that keeps a line where its class has the first field."""
    first = next(iter(kind.__dataclass_fields__))
    constants = {
        name: field.default
        for name, field in kind.__dataclass_fields__.items()
        if name in ("type", "role")
    }
    return type(
        kind.__name__,
        (Unread, kind),
        {
            "__slots__": (),
            "__module__": __name__,
            # A copy with other values is an ordinary one.
            "__new__": lambda unread, **fields: kind(**fields),
            "keep": vars(kind)[first],
            first: property(lambda value: getattr(_load(value), first)),
            **constants,
        },
    )


_PUT_AWAY = {
    kind: build_unread_class(kind)
    for kind in (
        *(FACTS[name] for name in ("model_replied", "call_judged", "call_finished")),
        *(FACTS[name] for name in ("checkpointed", "hook_ran")),
        *(AssistantMessage, ToolResult),
    )
}
"""The classes of the most frequent and longest facts and of what is in them, by the read ones."""
_PARTS = {_PUT_AWAY[AssistantMessage]: "message", _PUT_AWAY[ToolResult]: "result"}
"""Where a fact has these values."""


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
            unread = _leave_unread(line, prev, seq=seq + 1) if is_own else None
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
    entry, seal = read_entry(line, prev, seq=seq)
    return (entry.fact, entry.at, entry.session, seal) if entry else (None, "", "", seal)


def _leave_unread(line: bytes, prev: str, *, seq: int) -> tuple[Fact, str, str, str] | None:
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
