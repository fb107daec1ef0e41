"""Reading a log: every line is validated, and the chain of hashes is followed.

Lines are read up to the first that does not fit; nothing after a broken line is trusted. A fact of
a type that only a newer version knows is skipped: the chain still holds.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentcli.log.decode import READABLE_VERSIONS, UnknownType, parse_fact
from agentcli.log.writer import FIRST_PREV, VERSION, read_lines, verify_seal
from agentcli.types.errors import SettingsError
from agentcli.types.events import Entry
from agentcli.types.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFault:
    """The first line that does not fit."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    entries: Sequence[Entry]
    last_seq: int
    last_hash: str
    """The hash that the next line has to carry."""
    size_bytes: int
    """The size of the lines that were read: the offset of the next one."""
    passed_over: int = 0
    """The number of records of types this version does not know."""
    fault: LogFault | None = None


class UnreadableRecord(Exception):
    """A line that is not the next record of a log; the message says why."""


def read_log(path: Path) -> LoadedLog:
    """Return all whole entries. Raise SettingsError that names the first line that does not fit."""
    recorded = read_valid_part(path)
    if recorded.fault is not None:
        hint = "use another session, or a newer version of agentcli"
        raise build_fault_error(path, recorded.fault, hint=hint)
    return recorded


def read_valid_part(path: Path) -> LoadedLog:
    """Return entries up to the first line that does not fit. Raise SettingsError without a log."""
    entries: list[Entry] = []
    prev, seq, size_bytes, passed_over = FIRST_PREV, 0, 0, 0
    fault = None
    try:
        for number, line in enumerate(read_lines(path), start=1):
            try:
                entry, prev = read_entry(line, prev, seq=seq + 1)
            except UnreadableRecord as misfit:
                fault = LogFault(line=number, reason=str(misfit))
                break
            if entry is None:
                passed_over += 1
            else:
                entries.append(entry)
            seq, size_bytes = seq + 1, size_bytes + len(line) + 1
    except OSError as error:
        raise build_read_error(path, error) from error
    return LoadedLog(
        entries=entries,
        last_seq=seq,
        last_hash=prev,
        size_bytes=size_bytes,
        passed_over=passed_over,
        fault=fault,
    )


def read_session(path: Path, use: str) -> LoadedLog:
    """Return entries up to the first line that does not fit. Raise SettingsError without any.

    `use` says in one word what they are for."""
    recorded = read_valid_part(path)
    if not recorded.entries:
        raise build_empty_error(path, use)
    return recorded


def build_empty_error(path: Path, use: str) -> SettingsError:
    return SettingsError(
        f"{path} holds no session to {use}", hint=f"see why: agentcli audit verify {path}"
    )


def build_fault_error(path: Path, fault: LogFault, *, hint: str) -> SettingsError:
    return SettingsError(f"{path}:{fault.line}: {fault.reason}", hint=hint)


def build_read_error(path: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"cannot read the session log {path}: {error.strerror}",
        hint="agentcli sessions list --all",
    )


def read_entry(line: bytes, prev: str, *, seq: int) -> tuple[Entry | None, str]:
    """Return the entry with its hash; None as entry for a fact this version does not know.

    Raise UnreadableRecord."""
    record, seal = _parse_record(line), verify_seal(line)
    if seal is None:
        raise UnreadableRecord(
            "this record was changed after it was written: its hash does not match"
        )
    if record.get("prev") != prev:
        raise UnreadableRecord("the chain is broken: this record does not follow the one before")
    if record.get("seq") != seq:
        raise UnreadableRecord(f"its number is {record.get('seq')}, expected {seq}")
    try:
        fact = parse_fact(record.get("fact"))
    except UnknownType:
        return None, seal
    except ValueError as error:
        raise UnreadableRecord(
            f"not a record of this format ({str(error).splitlines()[0]})"
        ) from error
    at, session, parent = record.get("at"), record.get("session"), record.get("parent", "")
    if not (
        isinstance(at, str)
        and isinstance(session, str)
        and (parent is None or isinstance(parent, int))
    ):
        raise UnreadableRecord("not a record of this format (at, session or parent)")
    return Entry(seq=seq, at=at, session=session, parent=parent, fact=fact), seal


def _parse_record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise UnreadableRecord("not a JSON object")
    if record.get("v") not in READABLE_VERSIONS:
        raise UnreadableRecord(
            f"written in format {record.get('v')}, this program reads formats up to {VERSION}"
        )
    return record
