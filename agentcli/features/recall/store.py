"""The memory of past sessions: one entry for each turn, in SQLite with a full-text index."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from agentcli.types.errors import SettingsError, UsageError

VERSION = 1
_WAIT_S = 10.0
"""The longest wait for another session that writes."""

_SCHEMA = (
    """
    CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT, workspace TEXT, at TEXT, asked TEXT, files TEXT, learned TEXT
    )
    """,
    """
    CREATE INDEX entry_workspace ON entry (workspace)
    """,
    """
    CREATE VIRTUAL TABLE words USING fts5 (
        asked, files, learned, content = 'entry', content_rowid = 'id'
    )
    """,
    """
    CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
        INSERT INTO words (rowid, asked, files, learned)
        VALUES (new.id, new.asked, new.files, new.learned);
    END
    """,
    """
    CREATE TRIGGER entry_deleted AFTER DELETE ON entry BEGIN
        INSERT INTO words (words, rowid, asked, files, learned)
        VALUES ('delete', old.id, old.asked, old.files, old.learned);
    END
    """,
    """
    CREATE TRIGGER entry_changed AFTER UPDATE ON entry BEGIN
        INSERT INTO words (words, rowid, asked, files, learned)
        VALUES ('delete', old.id, old.asked, old.files, old.learned);
        INSERT INTO words (rowid, asked, files, learned)
        VALUES (new.id, new.asked, new.files, new.learned);
    END
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """What is remembered of one turn."""

    id: int = 0
    session: str
    workspace: str
    at: str
    """When it was stored, in UTC."""
    asked: str
    files: str
    """The files of the turn, one on each line."""
    learned: str
    """What a summary or the user said in it; empty if nothing."""


_COLUMNS = ", ".join(field.name for field in fields(MemoryEntry))


def get_memory_path() -> Path:
    return user_state_path("agentcli", appauthor=False) / "memory.sqlite"


class MemoryStore:
    """The memory in a file. Every method raises SettingsError if the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, entry: MemoryEntry) -> int:
        """Store an entry, and return its id."""
        names = [field.name for field in fields(MemoryEntry) if field.name != "id"]
        values = [getattr(entry, name) for name in names]
        marks = ", ".join("?" * len(names))
        with self._open() as store, store:
            statement = f"INSERT INTO entry ({', '.join(names)}) VALUES ({marks})"
            return store.execute(statement, values).lastrowid or 0

    def list_entries(self, *, workspace: str | None, most: int = -1) -> Sequence[MemoryEntry]:
        """Return the entries, latest first: of a workspace, or all if it is None."""
        where, given = ("WHERE workspace = ?", [workspace]) if workspace else ("", [])
        statement = f"SELECT {_COLUMNS} FROM entry {where} ORDER BY id DESC LIMIT ?"
        return self._query(statement, *given, most)

    def search(self, words: str, *, workspace: str | None, most: int = 20) -> Sequence[MemoryEntry]:
        """Return the entries with all the words, or else with some of them, best first."""
        terms = ['"{}"*'.format(word.replace('"', '""')) for word in words.split()]
        for operator in (" AND ", " OR ") if terms else ():
            if found := self._match(operator.join(terms), workspace=workspace, most=most):
                return found
        return ()

    def find(self, entry_id: int) -> MemoryEntry:
        """Return an entry. Raise UsageError if there is none."""
        found = self._query(f"SELECT {_COLUMNS} FROM entry WHERE id = ?", entry_id)
        if not found:
            raise UsageError(f"there is no memory {entry_id}", hint="agentcli recall list")
        return found[0]

    def change(self, entry_id: int, *, asked: str, learned: str) -> None:
        statement = "UPDATE entry SET asked = ?, learned = ? WHERE id = ?"
        with self._open() as store, store:
            store.execute(statement, (asked, learned, entry_id))

    def delete(self, entry_ids: Sequence[int]) -> int:
        """Delete entries for good, and return how many there were."""
        with self._open() as store:
            with store:
                marks = ", ".join("?" * len(entry_ids))
                statement = f"DELETE FROM entry WHERE id IN ({marks})"
                count = store.execute(statement, entry_ids).rowcount
                # The index keeps what was deleted until it is merged.
                store.execute("INSERT INTO words (words) VALUES ('optimize')")
            store.execute("VACUUM")
            return count

    def _match(self, query: str, *, workspace: str | None, most: int) -> Sequence[MemoryEntry]:
        columns = ", ".join(f"entry.{field.name}" for field in fields(MemoryEntry))
        where, given = ("AND workspace = ?", [workspace]) if workspace else ("", [])
        return self._query(
            f"SELECT {columns} FROM words JOIN entry ON entry.id = words.rowid"
            f" WHERE words MATCH ? {where} ORDER BY rank LIMIT ?",
            query,
            *given,
            most,
        )

    def _query(self, statement: str, *values: str | int | None) -> Sequence[MemoryEntry]:
        if not self._path.exists():
            return ()
        names = [field.name for field in fields(MemoryEntry)]
        with self._open() as store:
            rows = store.execute(statement, values).fetchall()
        return [MemoryEntry(**dict(zip(names, row, strict=True))) for row in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(self._connect()) as store:
                yield store
        except sqlite3.Error as error:
            raise self._explain(str(error)) from error
        except OSError as error:
            raise self._explain(error.strerror or str(error)) from error

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        store = sqlite3.connect(self._path, timeout=_WAIT_S)
        try:
            self._prepare(store)
        except BaseException:
            store.close()
            raise
        return store

    def _prepare(self, store: sqlite3.Connection) -> None:
        store.execute("PRAGMA secure_delete = ON")
        if _read_version(store) == VERSION:
            return
        with store:
            store.execute("BEGIN IMMEDIATE")
            version = _read_version(store)  # another process may have made it meanwhile
            tables: Any = store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version != VERSION and (version or tables):
                raise sqlite3.DatabaseError(
                    f"it has version {version}, and this agentcli {VERSION}"
                )
            if version != VERSION:
                for statement in _SCHEMA:
                    store.execute(statement)
                store.execute(f"PRAGMA user_version = {VERSION}")

    def _explain(self, why: str) -> SettingsError:
        return SettingsError(
            f"the memory of past sessions cannot be used: {why}",
            hint=f"mv {self._path} {self._path}.old",
        )


def _read_version(store: sqlite3.Connection) -> int:
    version: int = store.execute("PRAGMA user_version").fetchone()[0]
    return version
