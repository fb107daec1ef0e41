"""The index of a workspace's symbols: definitions and names by file, in SQLite.

Every query first compares all known files with the disk, and reads again what has changed. So it
does not matter who changed a file: a tool, a command or the user. The times of a directory's files
are one row: reading 30,000 rows and resolving as many whole paths would take a third longer.
"""

import os
import sqlite3
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

VERSION = 3
"""An index of another version is built again."""
FRESH_NS = 50_000_000
"""A file changed so shortly before it was read may change again within the same clock tick."""
_WAIT_S = 10.0
"""The longest wait for another session that writes."""

_SCHEMA = """
CREATE TABLE directory (
    path BLOB PRIMARY KEY, changed_ns INTEGER, rules_ns INTEGER, names BLOB, times BLOB
) WITHOUT ROWID;
CREATE TABLE file (id INTEGER PRIMARY KEY, path BLOB UNIQUE, error TEXT);
CREATE INDEX file_error ON file (error) WHERE error <> '';
CREATE TABLE definition (file INTEGER, name TEXT, kind TEXT, line INTEGER, last INTEGER);
CREATE INDEX definition_name ON definition (name COLLATE NOCASE);
CREATE INDEX definition_file ON definition (file);
CREATE TABLE word (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE mention (file INTEGER, word INTEGER, lines TEXT, PRIMARY KEY (file, word))
    WITHOUT ROWID;
CREATE INDEX mention_word ON mention (word);
"""

ChangeTime: TypeAlias = int
"""The time in ns at which the kernel last saw a file change. No program can set it.

It is 0 if the file must be read again in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    path: bytes
    name: str
    kind: str
    line: int
    last_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """The lines of a file that have a name in them."""

    path: bytes
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFiles:
    """The differences between the index and the disk."""

    changed: tuple[bytes, ...] = ()
    must_list: bool = False
    """True if files may have been added, removed or ignored since."""


class SymbolIndex:
    """The index in a file. All paths are relative to the root of the workspace."""

    def __init__(self, path: Path, *, root: Path) -> None:
        self._path = path
        self._root = root

    def find_definitions(self, name: str) -> Sequence[Definition]:
        """Return the definitions of a name; those in another case if there are no others."""
        rows = self._query(
            "SELECT path, name, kind, line, last FROM definition JOIN file ON file.id = file"
            " WHERE name = ? COLLATE NOCASE ORDER BY path, line",
            name,
        )
        found = [_read_definition(row) for row in rows]
        return [one for one in found if one.name == name] or found

    def find_similar(self, name: str, most: int) -> Sequence[str]:
        """Return names of definitions that contain a text, the shortest first."""
        escaped = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        rows = self._query(
            "SELECT DISTINCT name FROM definition WHERE name LIKE ? ESCAPE '\\'"
            " ORDER BY length(name), name LIMIT ?",
            f"%{escaped}%",
            most,
        )
        return [row[0] for row in rows]

    def find_mentions(self, name: str) -> Sequence[Mention]:
        rows = self._query(
            "SELECT path, lines FROM word JOIN mention ON word.id = word JOIN file ON file.id ="
            " file WHERE name = ? ORDER BY path",
            name,
        )
        return [Mention(path=path, lines=tuple(map(int, lines.split(",")))) for path, lines in rows]

    def outline(self, path: bytes) -> Sequence[Definition]:
        """Return the definitions of a file in their order."""
        rows = self._query(
            "SELECT path, name, kind, line, last FROM definition JOIN file ON file.id = file"
            " WHERE path = ? ORDER BY definition.rowid",
            path,
        )
        return [_read_definition(row) for row in rows]

    def get_error(self, path: bytes) -> str | None:
        """Return why a file has no symbols, an empty text if it has, None if it is not listed."""
        rows = self._query("SELECT error FROM file WHERE path = ?", path)
        return rows[0][0] if rows else None

    def find_errors(self, beginning: str) -> Mapping[str, Sequence[bytes]]:
        """Return the files without symbols, by the errors that begin with a text."""
        rows = self._query(
            "SELECT error, path FROM file WHERE error <> '' AND error LIKE ? ORDER BY error, path",
            f"{beginning}%",
        )
        return {error: [path for _, path in group] for error, group in groupby(rows, _get_first)}

    def compare(self) -> StaleFiles:
        """Compare every known file and directory with the disk."""
        rows = self._query(_READ_FOLDERS)
        changed: list[bytes] = []
        must_list = not rows
        with self._open_root() as root:
            for row in rows:
                is_same, files = _compare_folder(root, row)
                changed += files
                must_list = must_list or not is_same
        return StaleFiles(changed=tuple(changed), must_list=must_list)

    def update_list(
        self, listed: Iterable[bytes], stale: StaleFiles, *, began_ns: int | None = None
    ) -> StaleFiles:
        """Forget files that are gone, and return what has to be read.

        `began_ns` is the time at which the list was begun: what changed since may lack in it."""
        wanted = set(listed)
        with self._open_root() as root:
            folders = list(_list_folders(root, wanted))
            changes = _drop_fresh((_find_change(root, path) for path in folders), began_ns)
            rules = [_find_change(root, path + b"/" + _RULES) for path in folders]
            fresh_rules = _drop_fresh(rules, began_ns)
        with self._write() as store:
            rows = store.execute(_READ_FOLDERS)
            times = {path: one for row in rows for path, one in _FolderTimes.read(row).iter_files()}
            known = {path for (path,) in store.execute("SELECT path FROM file")}
            _forget(store, known - wanted)
            inside: dict[bytes, dict[bytes, ChangeTime]] = {folder: {} for folder in folders}
            for path in sorted(wanted):
                folder, _, name = path.rpartition(b"/")
                inside[folder or _ROOT][name] = times.get(path, 0)
            store.execute("DELETE FROM directory")
            for number, folder in enumerate(folders):
                is_settled = fresh_rules[number] == rules[number]
                changed_ns = changes[number] if is_settled else 0
                _FolderTimes(
                    folder, changed_ns, rules_ns=rules[number], files=inside[folder]
                ).write(store)
        changed = {path for path in wanted if not times.get(path)} | (wanted & set(stale.changed))
        return StaleFiles(changed=tuple(sorted(changed)))

    def get_change_times(self, paths: Sequence[bytes]) -> Sequence[ChangeTime]:
        """Return the change times of files that are about to be read."""
        with self._open_root() as root:
            return _drop_fresh(_find_change(root, path) for path in paths)

    def store(
        self,
        paths: Sequence[bytes],
        change_times: Sequence[ChangeTime],
        parsed: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store what the parser found in files, instead of what was stored of them."""
        found = dict(zip(paths, parsed, strict=True))
        with self._write() as store:
            _forget(store, paths)
            for path in _store_times(store, dict(zip(paths, change_times, strict=True))):
                _insert(store, path, symbols=found[path])

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the index. An unusable one is removed and made again."""
        try:
            store = self._connect()
        except sqlite3.DatabaseError:
            self._path.unlink(missing_ok=True)
            store = self._connect()
        with closing(store):
            yield store

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """Open the index for a change. Other sessions wait until it is made."""
        with self._open() as store, store:
            store.execute("BEGIN IMMEDIATE")
            yield store

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = sqlite3.connect(self._path, timeout=_WAIT_S)
        try:
            store.execute("PRAGMA synchronous = OFF")  # it can always be built again
            if (found := store.execute("PRAGMA user_version").fetchone()[0]) != VERSION:
                if found:
                    raise sqlite3.DatabaseError(f"the index has version {found}")
                store.executescript(
                    f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT"
                )
        except BaseException:
            store.close()
            raise
        return store

    def _query(self, statement: str, *values: str | int | bytes) -> Sequence[tuple[Any, ...]]:
        with self._open() as store:
            return store.execute(statement, values).fetchall()


def _get_first(row: tuple[Any, ...]) -> Any:
    return row[0]


_ROOT = b"."
_RULES = b".gitignore"
_FolderRow: TypeAlias = tuple[bytes, ChangeTime, ChangeTime, bytes, bytes]
"""The path of a directory, its change time and that of its ignore rules (0 if it has none), the
names of its files, and their change times."""
_READ_FOLDERS = "SELECT path, changed_ns, rules_ns, names, times FROM directory"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class _FolderTimes:
    """The change times of a directory, of its ignore rules, and of the files in it."""

    def __init__(
        self,
        path: bytes,
        changed_ns: ChangeTime,
        *,
        rules_ns: ChangeTime,
        files: Mapping[bytes, ChangeTime],
    ) -> None:
        self._path = path
        self._changed_ns = changed_ns
        self._rules_ns = rules_ns
        self.files = dict(files)

    @classmethod
    def read(cls, row: _FolderRow) -> "_FolderTimes":
        path, changed_ns, rules_ns, names, times = row
        found = zip(names.split(b"/"), array("q", times), strict=True) if names else ()
        return cls(path, changed_ns, rules_ns=rules_ns, files=dict(found))

    def write(self, store: sqlite3.Connection) -> None:
        names, times = b"/".join(self.files), array("q", self.files.values()).tobytes()
        store.execute(
            "INSERT OR REPLACE INTO directory VALUES (?, ?, ?, ?, ?)",
            (self._path, self._changed_ns, self._rules_ns, names, times),
        )

    def iter_files(self) -> Iterator[tuple[bytes, ChangeTime]]:
        """Yield the path and the change time of each file."""
        prefix = b"" if self._path == _ROOT else self._path + b"/"
        return ((prefix + name, changed_ns) for name, changed_ns in self.files.items())


def _compare_folder(root: int, row: _FolderRow) -> tuple[bool, Sequence[bytes]]:
    """Return whether the names in a directory are the same on disk, and the files that are not."""
    path, changed_ns, rules_ns, names, times = row
    listed = names.split(b"/") if names else []
    try:
        handle = os.open(path, _FOLDER, dir_fd=root)
    except OSError:
        return False, [path for path, _ in _FolderTimes.read(row).iter_files()]
    try:
        is_same = os.fstat(handle).st_ctime_ns == changed_ns
        # Where there were no rules, new ones change the directory.
        is_same = is_same and (not rules_ns or _find_change(handle, _RULES) == rules_ns)
        try:
            found = [os.lstat(name, dir_fd=handle).st_ctime_ns for name in listed]
        except OSError:
            found = [_find_change(handle, name) for name in listed]
    finally:
        os.close(handle)
    if array("q", found).tobytes() == times and 0 not in found:  # nearly always
        return is_same, ()
    now = zip(_FolderTimes.read(row).iter_files(), found, strict=True)
    return is_same, [path for (path, old), new in now if not new or new != old]


def _store_times(store: sqlite3.Connection, times: Mapping[bytes, ChangeTime]) -> Iterator[bytes]:
    """Store the change times of files, and yield the files that are still listed."""
    folders: dict[bytes, list[bytes]] = {}
    for path in times:
        folders.setdefault(path.rpartition(b"/")[0] or _ROOT, []).append(path)
    for folder, paths in folders.items():
        for row in store.execute(f"{_READ_FOLDERS} WHERE path = ?", (folder,)).fetchall():
            kept = _FolderTimes.read(row)
            for path in paths:
                name = path.rpartition(b"/")[2]
                if name in kept.files:
                    kept.files[name] = times[path]
                    yield path
            kept.write(store)


def _find_change(root: int, path: bytes) -> ChangeTime:
    try:
        return os.lstat(path, dir_fd=root).st_ctime_ns
    except OSError:
        return 0


def _drop_fresh(times: Iterable[ChangeTime], began_ns: int | None = None) -> Sequence[ChangeTime]:
    """Return 0 for changes so recent that another could have the same time.

    `began_ns` is the time since which changes count as recent; None for now."""
    found = list(times)
    fresh_ns = (began_ns or time.time_ns()) - FRESH_NS
    return [one if one < fresh_ns else 0 for one in found]


def _list_folders(root: int, paths: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the directories in which a new file would have to be listed."""
    listed = {_ROOT}
    for path in paths:
        folder = path
        while (folder := folder.rpartition(b"/")[0]) and folder not in listed:
            listed.add(folder)
    waiting = [*listed]
    while waiting:
        folder = waiting.pop()
        yield folder
        waiting += [
            one for one in _list_subfolders(root, folder, listed=listed) if one not in listed
        ]


def _list_subfolders(root: int, folder: bytes, *, listed: set[bytes]) -> Sequence[bytes]:
    """Return the directories in one. Ignored ones have files of their own: they end it."""
    prefix = b"" if folder == _ROOT else folder + b"/"
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
    except OSError:
        return ()
    try:
        with os.scandir(handle) as entries:
            kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    finally:
        os.close(handle)
    if folder not in listed and not all(kinds.values()):
        return ()
    folders = [name for name, is_folder in kinds.items() if is_folder and name != ".git"]
    return [prefix + os.fsencode(name) for name in folders]


def _forget(store: sqlite3.Connection, paths: Iterable[bytes]) -> None:
    for path in paths:
        row = store.execute("SELECT id FROM file WHERE path = ?", (path,)).fetchone()
        if row is not None:
            store.execute("DELETE FROM definition WHERE file = ?", row)
            store.execute("DELETE FROM mention WHERE file = ?", row)
            store.execute("DELETE FROM file WHERE id = ?", row)


def _insert(store: sqlite3.Connection, path: bytes, *, symbols: Mapping[str, Any]) -> None:
    file = store.execute(
        "INSERT INTO file (path, error) VALUES (?, ?)", (path, symbols.get("error", ""))
    ).lastrowid
    store.executemany(
        "INSERT INTO definition VALUES (?, ?, ?, ?, ?)",
        [(file, *one) for one in symbols.get("definitions", ())],
    )
    names: Mapping[str, Sequence[int]] = symbols.get("names", {})
    store.executemany("INSERT OR IGNORE INTO word (name) VALUES (?)", [(name,) for name in names])
    store.executemany(
        "INSERT INTO mention SELECT ?, id, ? FROM word WHERE name = ?",
        [(file, ",".join(map(str, lines)), name) for name, lines in names.items()],
    )


def _read_definition(row: tuple[Any, ...]) -> Definition:
    path, name, kind, line, last = row
    return Definition(path=path, name=name, kind=kind, line=line, last_line=last)
