"""The stored sessions: finding, listing, summarizing, searching and copying them.

The lines of their logs are not validated.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentcli.log.decode import upgrade_fact
from agentcli.log.paths import LOG, SessionPaths, create_session_paths, locate_sessions
from agentcli.log.writer import FIRST_PREV, LogWriter, read_lines, strip_seal, verify_seal
from agentcli.system.files import resolve_directory
from agentcli.system.strict_json import parse_object
from agentcli.types import events
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import Entry, Fact, SessionForked
from agentcli.types.fast_dataclass import dataclass

SHOWN_TITLE_CHARS = 80


@dataclass(slots=True, kw_only=True)
class SessionSummary:
    """A session in a list of sessions. Everything but the paths may be unknown."""

    paths: SessionPaths
    workspace: str = ""
    model: str = ""
    mode: str = ""
    started: str = ""
    """UTC, ISO 8601."""
    last: str = ""
    """The time of the last record, in UTC."""
    turns: int = 0
    ending: str = ""
    """The ending of the last turn or run; empty while one is running, or if the process died."""
    is_closed: bool = False
    name: str = ""
    first_prompt: str = field(default="", repr=False)
    origin: str = ""
    """The session this one was forked from."""

    def choose_workspace(self, given: Path | None) -> Path:
        """Return the directory to continue in: the one that the user named, or else its own."""
        return given or Path(self.workspace)

    @property
    def id(self) -> str:
        return self.paths.id

    @property
    def title(self) -> str:
        text = self.name or " ".join(self.first_prompt.split())
        return text if len(text) <= SHOWN_TITLE_CHARS else text[: SHOWN_TITLE_CHARS - 1] + "…"


def list_sessions(
    sessions: Path | None = None, *, workspace: Path | None = None
) -> list[SessionSummary]:
    """Return the sessions, the latest first; with `workspace` only those that worked there."""
    found = [summarize(paths) for paths in _list_paths(sessions or locate_sessions())]
    if workspace is not None:
        found = [one for one in found if one.workspace == str(workspace)]
    return sorted(found, key=lambda one: (one.last, one.id), reverse=True)


def find_latest_session(workspace: Path, sessions: Path | None = None) -> SessionSummary:
    """Return the latest session of a workspace. Raise SettingsError if there is none."""
    candidates = sorted(
        _list_paths(sessions or locate_sessions()), key=_read_write_time, reverse=True
    )
    for summary in map(summarize, candidates):
        if summary.turns and summary.workspace == str(workspace):
            return summary
    raise SettingsError(f"no sessions in {workspace} yet", hint="agentcli sessions list --all")


def choose_session(named: str | None, workspace: Path | None) -> SessionSummary:
    """Return the named session, or else the latest that worked in the workspace.

    None is the current directory."""
    if named is None:
        return find_latest_session(resolve_directory(workspace or Path()))
    summary = summarize(find_session(named))
    if not summary.started:
        raise SettingsError(
            f"{summary.paths.log} holds no session to continue",
            hint=f"see why: agentcli audit verify {summary.paths.log}",
        )
    return summary


def find_session(named: str, sessions: Path | None = None) -> SessionPaths:
    """Find a session by its id, its start or end, its name, or a path to its directory or log."""
    if not named.strip():
        raise UsageError("the name of the session is empty", hint="agentcli sessions list")
    if "/" in named or named.endswith(".jsonl"):
        return _open_path(Path(named))
    candidates = list(_list_paths(sessions or locate_sessions()))
    matching = [one for one in candidates if one.id == named] or [
        one for one in candidates if one.id.startswith(named) or one.id.endswith(named)
    ]
    if not matching:
        matching = [one for one in candidates if summarize(one).name == named]
    if len(matching) == 1:
        return matching[0]
    if matching:
        ids = ", ".join(one.id for one in matching[:5])
        raise UsageError(f"{named!r} matches several sessions: {ids}", hint="type more of the id")
    near = get_close_matches(named, [one.id for one in candidates], n=1)
    suggestion = f". Did you mean {near[0]}?" if near else ""
    raise SettingsError(f"no session {named!r}{suggestion}", hint="agentcli sessions list --all")


def find_session_by_id(session_id: str, sessions: Path | None = None) -> SessionPaths | None:
    """Find a session by its whole id only: for programs, which know it and must not guess."""
    candidates = _list_paths(sessions or locate_sessions())
    return next((one for one in candidates if one.id == session_id), None)


def find_log(named: str | None, workspace: Path = Path()) -> Path:
    """Return the log of a session, or any log by its path; None for the latest in the workspace."""
    return find_session_to_read(named, workspace).log


def find_session_to_read(named: str | None, workspace: Path = Path()) -> SessionPaths:
    """Return the same as `find_log`, for callers that also need the files beside the log."""
    if named is None:
        return find_latest_session(resolve_directory(workspace)).paths
    path = Path(named)
    try:
        if path.is_file() and path.name != LOG:
            return SessionPaths(
                id=path.stem, directory=Path(os.path.realpath(path.parent)), log_name=path.name
            )
        return _find_child(named, path) or find_session(named)
    except PermissionError as error:
        raise SettingsError(
            f"cannot read {named}: {error.strerror}", hint="choose a log that you can read"
        ) from error


def _find_child(named: str, path: Path) -> SessionPaths | None:
    """Return a child agent of a session, by the name in its log: `SESSION/child-1`."""
    parent, _, child = named.rpartition("/")
    if not parent or not child.startswith("child-") or path.exists():
        return None
    out = find_session(parent).out
    if not (out / f"{child}.jsonl").is_file():
        raise SettingsError(f"the session {parent} has no {child}", hint=f"ls {out}")
    return SessionPaths(id=named, directory=out, log_name=f"{child}.jsonl")


def summarize(paths: SessionPaths) -> SessionSummary:
    """Summarize what can be read: for a damaged log, everything before the damage."""
    summary = SessionSummary(paths=paths)
    last = b""
    try:
        for last in read_lines(paths.log):
            fold = _FOLDS.get(_read_type(last))
            if fold is not None:
                fold(summary, last)
    except OSError:
        return summary  # no log yet, or not one of ours: listed, so that it can be deleted
    summary.last = _read_text(parse_object(last), "at")
    return summary


def _list_paths(sessions: Path) -> Iterator[SessionPaths]:
    if not sessions.is_dir():
        return
    for directory in sorted(sessions.iterdir()):
        if (directory / LOG).is_file():
            yield SessionPaths(id=directory.name, directory=directory)


def _read_write_time(paths: SessionPaths) -> tuple[int, str]:
    """Return the time of the log's last write."""
    return paths.log.stat().st_mtime_ns, paths.id


def _open_path(path: Path) -> SessionPaths:
    log = path / LOG if path.is_dir() else path
    if not log.is_file():
        raise SettingsError(f"no log at {log}", hint="agentcli sessions list --all")
    if log.name != LOG:
        raise SettingsError(
            f"{log} is not named {LOG}", hint=f"rename it to {LOG}, in a directory of its own"
        )
    directory = Path(os.path.realpath(log.parent))
    return SessionPaths(id=directory.name, directory=directory)


def _read_type(line: bytes) -> bytes:
    """Return the type: the last field of a fact, which is the last of a record before its hash."""
    return strip_seal(line)[-40:].rpartition(b'"type":"')[2].removesuffix(b'"}}')


def _read_fact(line: bytes) -> dict[str, Any]:
    """Return the fact of a record in today's words; empty if it has none."""
    return _get_fact(parse_object(line))


def _get_fact(record: dict[str, Any]) -> dict[str, Any]:
    fact: dict[str, Any] = upgrade_fact(_read_object(record, "fact"))
    return fact


def _read_object(within: dict[str, Any], name: str) -> dict[str, Any]:
    value = within.get(name)
    return value if isinstance(value, dict) else {}


def _read_text(within: dict[str, Any], name: str, *, otherwise: str = "") -> str:
    value = within.get(name)
    if not isinstance(value, str):
        return otherwise
    # Half a character can be neither printed nor part of a path, and no path holds a NUL.
    return value.encode(errors="replace").decode().replace("\0", "?")


def _apply_start(summary: SessionSummary, line: bytes) -> None:
    record = parse_object(line)
    fact = _get_fact(record)
    summary.started = summary.started or _read_text(record, "at")
    summary.workspace = _read_text(fact, "workspace", otherwise=summary.workspace)
    summary.model = _read_text(fact, "model", otherwise=summary.model)
    summary.mode = _read_text(fact, "mode", otherwise=summary.mode)
    summary.is_closed = False


def _apply_turn_start(summary: SessionSummary, line: bytes) -> None:
    summary.turns += 1
    summary.ending = ""
    summary.is_closed = False
    if not summary.first_prompt:
        content = _read_object(_read_fact(line), "message").get("content")
        # Attached content, such as stdin, is no title.
        first = content[0] if isinstance(content, list) and content else None
        summary.first_prompt = _read_text(first, "text") if isinstance(first, dict) else ""


def _apply_turn_end(summary: SessionSummary, line: bytes) -> None:
    summary.ending = _read_text(_read_fact(line), "ending")


def _apply_name(summary: SessionSummary, line: bytes) -> None:
    summary.name = _read_text(_read_fact(line), "name", otherwise=summary.name)


def _apply_fork(summary: SessionSummary, line: bytes) -> None:
    summary.origin = _read_text(_read_fact(line), "origin", otherwise=summary.origin)


def _apply_change(summary: SessionSummary, line: bytes) -> None:
    fact = _read_fact(line)
    summary.model = _read_text(fact, "model", otherwise=summary.model)
    summary.mode = _read_text(fact, "mode", otherwise=summary.mode)


def _apply_end(summary: SessionSummary, line: bytes) -> None:
    """Only the end of a session knows that a signal ended its last turn, or that a check failed."""
    summary.is_closed = True
    summary.ending = _read_text(_read_fact(line), "ending", otherwise=summary.ending)


_FOLDS = {
    b"session_started": _apply_start,
    b"session_resumed": _apply_start,
    b"session_forked": _apply_fork,
    b"session_named": _apply_name,
    b"model_changed": _apply_change,
    b"mode_changed": _apply_change,
    b"turn_started": _apply_turn_start,
    b"turn_ended": _apply_turn_end,
    b"session_ended": _apply_end,
}
"""By the type of a line. Parsing it is left to the fold: not all need it, and it takes longest."""


# Searching for words in prompts, replies, calls and results


EXCERPT_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    seq: int
    fact: str
    """The type of the fact."""
    excerpt: str


def search_session(paths: SessionPaths, words: str) -> Iterator[SearchHit]:
    """Yield the records with a text that contains the words, ignoring case; one hit each."""
    wanted = words.casefold()
    try:
        for seq, line in enumerate(read_lines(paths.log), start=1):
            fact = _read_fact(line)
            for text in _iter_texts(fact):
                at = text.casefold().find(wanted)
                if at >= 0:
                    kind = str(fact.get("type", ""))
                    yield SearchHit(seq=seq, fact=kind, excerpt=_cut_excerpt(text, at))
                    break
    except OSError:
        return  # it was deleted meanwhile


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("type", "echo", "data"):
                yield from _iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_texts(item)


def _cut_excerpt(text: str, at: int) -> str:
    start = max(0, at - EXCERPT_CHARS // 3)
    cut = text[start : start + EXCERPT_CHARS]
    return ("…" if start else "") + " ".join(cut.split())


# A new session that begins with a copy of another one's log.


def copy_session(
    origin: SessionPaths, entries: Sequence[Entry], until_seq: int, *, sessions: Path | None = None
) -> SessionPaths:
    """Create a session that begins as the origin did. Raise SettingsError if it cannot be made.

    `until_seq` is the last record they share."""
    from agentcli.log.rebuild import keep_states

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
    forked = SessionForked(session=paths.id, origin=shared, at_seq=until_seq)
    append_facts(paths, [forked], seq=until_seq, prev=prev)
    keep_states(paths, (one for one in entries if one.seq <= until_seq))
    return paths


def append_facts(paths: SessionPaths, facts: Sequence[Fact], *, seq: int, prev: str) -> None:
    """Add facts to the end of a session's log, after the record `seq` with the hash `prev`."""
    log = LogWriter(paths.log, prev=prev)
    try:
        for number, fact in enumerate(facts, start=seq + 1):
            parent = number - 1 or None
            log.append(
                Entry(
                    seq=number, at=events.read_clock(), session=paths.id, parent=parent, fact=fact
                )
            )
    finally:
        log.close()
