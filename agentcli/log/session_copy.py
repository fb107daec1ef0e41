"""A new session that begins with a copy of another one's log."""

from collections.abc import Sequence
from pathlib import Path

from agentcli.log.paths import SessionPaths, create_session_paths
from agentcli.log.writer import FIRST_PREV, LogWriter, read_lines, verify_seal
from agentcli.system import clock
from agentcli.types.errors import SettingsError
from agentcli.types.events import Entry, Fact, SessionForked


def copy_session(
    origin: SessionPaths, entries: Sequence[Entry], until_seq: int, *, sessions: Path | None = None
) -> SessionPaths:
    """Create a session that begins as the origin did. Raise SettingsError if it cannot be made.

    `until_seq` is the last record they share."""
    paths = create_session_paths(sessions)
    prev = FIRST_PREV
    try:
        with paths.log.open("xb") as copy:
            for number, line in enumerate(read_lines(origin.log), start=1):
                if number > until_seq:
                    break
                copy.write(line + b"\n")
                prev = verify_seal(line) or ""
    except OSError as error:
        raise SettingsError(
            f"cannot copy the session {origin.id}: {error.strerror}", hint="free some space"
        ) from error
    shared = next((one.session for one in entries if one.seq == until_seq), origin.id)
    append_facts(
        paths, until_seq, prev, SessionForked(session=paths.id, origin=shared, at_seq=until_seq)
    )
    return paths


def append_facts(paths: SessionPaths, seq: int, prev: str, *facts: Fact) -> None:
    """Add facts to the end of a session's log, after the record `seq` with the hash `prev`."""
    log = LogWriter(paths.log, prev=prev)
    try:
        for number, fact in enumerate(facts, start=seq + 1):
            parent = number - 1 or None
            log.append(
                Entry(seq=number, at=clock.read_clock(), session=paths.id, parent=parent, fact=fact)
            )
    finally:
        log.close()
