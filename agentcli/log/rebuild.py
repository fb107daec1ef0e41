"""The workspace as it was at some record, rebuilt in another directory, for replays and forks.

A tree that was recorded beside the log is used unchanged. Otherwise today's workspace is copied,
and what the session's calls changed after that record is restored from the stored states. Changes
that the user made outside the session are not known, and stay as they are today.
"""

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agentcli.log.checkpoint.changes import merge_changes
from agentcli.log.checkpoint.keep import find_store
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import StoredEntry, find_differences
from agentcli.log.paths import SessionPaths
from agentcli.system.text import to_printable
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    Checkpointed,
    Entry,
    SessionForked,
    SessionResumed,
    SessionStarted,
    Undone,
)
from agentcli.types.words import pluralize

COPY_LIMIT_BYTES = 2 * 1024**3


def rebuild_at(
    paths: SessionPaths, entries: Sequence[Entry], *, seq: int, into: Path, base: Path | None = None
) -> str:
    """Rebuild the tree after record `seq` in an empty directory. Return a text on its origin."""
    beside = paths.directory / "base"
    if (
        base is None
        and beside.is_dir()
        and not _list_changes(one for one in entries if one.seq <= seq)
    ):
        base = beside
    if base is not None:
        copy_tree(base, into)
        return f"the files in {base}"
    source = find_workspace(entries)
    copy_tree(source, into)
    later = [entry for entry in entries if entry.seq > seq]
    try:
        restored, lost = _restore(later, find_session_store(paths, entries), root=into)
    except SettingsError as error:
        if origin := _find_deleted_origin(paths, entries):
            raise SettingsError(
                f"the session {origin} that it was forked from was deleted, and with it the files "
                "that it had stored",
                hint=f"see what it did: agentcli trace {paths.id}",
            ) from error
        raise
    words = f"{source} as it is now, with {pluralize(len(restored), 'path')} restored"
    return f"{words}; left, since no copy was stored: {', '.join(lost)}" if lost else words


def _find_deleted_origin(paths: SessionPaths, entries: Sequence[Entry]) -> str:
    """Return the session that this one was forked from, if it is gone; else an empty text."""
    origins = (one.fact.origin for one in entries if isinstance(one.fact, SessionForked))
    return next((one for one in origins if not (paths.sessions / one).exists()), "")


def copy_tree(source: Path, into: Path, *, without: Collection[str] = ()) -> None:
    """Copy a tree, except for some of its top entries. What cannot be read is closed there, too.

    Raise SettingsError if there is nothing to copy, or too much."""
    if not source.is_dir():
        raise SettingsError(
            f"the workspace {source} no longer exists", hint=f"put it back: ls -la {source.parent}"
        )
    try:
        size_bytes = sum(
            _sum_sizes(Path(folder), names) for folder, names in _walk(source, without)
        )
        if size_bytes > COPY_LIMIT_BYTES:
            raise SettingsError(
                f"the workspace {source} is too large to copy ({size_bytes / 1e9:.1f} GB)",
                hint=f"see what is large: du -sh {source}/*",
            )

        closed: dict[bytes, bool] = {}

        def leave_out(folder: str, names: list[str]) -> set[str]:
            top = {name for name in names if name in without} if folder == str(source) else set()
            odd = top | _find_odd_files(folder, names)
            found = {name: kind for name, kind in _find_closed(folder, names) if name not in odd}
            place = Path(folder).relative_to(source)
            closed.update({os.fsencode(place / name): kind for name, kind in found.items()})
            return odd | found.keys()

        shutil.copytree(source, into, symlinks=True, ignore=leave_out, dirs_exist_ok=True)
        _add_closed(closed, root=into)
    except (OSError, shutil.Error) as error:
        raise SettingsError(
            f"cannot copy {source} to {into}: {error}", hint=f"df -h {into}"
        ) from error


def restore_changes(entries: Iterable[Entry], store: ObjectStore, *, root: Path) -> int:
    """Undo below `root` what calls changed in these entries. Return the number of paths."""
    return len(_restore(entries, store, root=root)[0])


def _restore(
    entries: Iterable[Entry], store: ObjectStore, *, root: Path
) -> tuple[list[str], list[str]]:
    """Undo what calls changed. Return the paths that were restored, and those without a copy."""
    changes = merge_changes(store, _list_changes(entries))
    write_entries({path: change.before for path, change in changes.items()}, store, root=root)
    lost = {path for path, it in changes.items() if it.before and not it.before.has_content}
    restored = changes.keys() - lost
    return _list_names(restored), _list_names(lost)


def _list_names(paths: Iterable[bytes]) -> list[str]:
    return [to_printable(os.fsdecode(path)) for path in sorted(paths)]


def find_changed_paths(facts: Iterable[Checkpointed], store: ObjectStore) -> tuple[str, ...]:
    """Return the paths of the files that calls changed in the workspace."""
    changes = merge_changes(store, [fact for fact in facts if not fact.root])
    return tuple(
        os.fsdecode(path)
        for path, change in changes.items()
        if not all(kept is None or kept.is_dir for kept in (change.before, change.after))
    )


def copy_with_old_files(
    facts: Iterable[Checkpointed],
    store: ObjectStore,
    *,
    root: Path,
    into: Path,
    paths: Iterable[str],
    linked: Iterable[str],
) -> None:
    """Copy a workspace, with these paths as they were before the changes.

    `linked` are entries of the root that are not copied: the copy has links to them.
    """
    linked = frozenset(linked)
    copy_tree(root, into, without=linked)
    for name in linked:
        (into / name).symlink_to(root / name)
    wanted = {os.fsencode(path) for path in paths}
    changes = merge_changes(store, [fact for fact in facts if not fact.root])
    old = {path: change.before for path, change in changes.items() if path in wanted}
    write_entries(old, store, root=into)


def repeat_undo(undone: Undone | Checkpointed, store: ObjectStore, *, root: Path) -> None:
    """Repeat below `root` what the user undid, redid or merged in the workspace."""
    if undone.root:
        return
    changes = find_differences(store, undone.before, after=undone.after)
    write_entries({change.path: change.after for change in changes}, store, root=root)


def write_entries(
    wanted: Mapping[bytes, StoredEntry | None], store: ObjectStore, *, root: Path
) -> None:
    """Give paths below `root` these states, whatever is there. Raise SettingsError.

    A file whose content was not stored stays as it is."""
    wanted = {path: entry for path, entry in wanted.items() if not entry or entry.has_content}
    try:
        modes = _make_writable(root, wanted)
        for path in sorted(wanted, reverse=True):  # the content of a directory before itself
            _remove(root, os.fsdecode(path))
        for path in sorted(wanted):
            entry = wanted[path]
            if entry is not None:
                _write(store, root, path=os.fsdecode(path), entry=entry)
                modes |= {path: stat.S_IMODE(entry.mode)} if entry.is_dir else {}
        _restore_modes(root, modes)
    except OSError as error:
        raise SettingsError(
            f"cannot restore the files in {root}: {error}", hint=f"ls -la {root}"
        ) from error


def _list_changes(entries: Iterable[Entry]) -> list[Checkpointed | Undone]:
    """Return the changes in the workspace. Added directories are not part of its tree."""
    facts = (entry.fact for entry in entries)
    return [fact for fact in facts if isinstance(fact, Checkpointed | Undone) and not fact.root]


def find_workspace(entries: Sequence[Entry]) -> Path:
    """Return the directory that the session last worked in. Raise SettingsError."""
    for workspace in _iter_workspaces(entries):
        return workspace
    raise SettingsError("the log holds no session", hint="agentcli sessions list --all")


def keep_states(paths: SessionPaths, entries: Iterable[Entry]) -> None:
    """Keep the states that these entries stored, also if only this session has them any more."""
    workspace, kept = Path(), set[tuple[Path, str]]()
    for entry in entries:
        match entry.fact:
            case SessionStarted(workspace=directory) | SessionResumed(workspace=directory):
                workspace = Path(directory)
            case Checkpointed() | Undone() as fact:
                root = Path(fact.root) if fact.root else workspace
                kept |= {(root, fact.before), (root, fact.after)}
            case _:
                pass
    for root, state in kept:
        store = find_store(root, paths.sessions)
        if store.has_objects:
            store.keep_reference(paths.id, state)


def find_session_store(paths: SessionPaths, entries: Sequence[Entry]) -> ObjectStore:
    """Return the stored states of all directories that the session worked in, the latest first.

    A fork has worked in those of its origin. Raise SettingsError."""
    sessions = paths.sessions
    workspaces = dict.fromkeys((find_workspace(entries), *_iter_workspaces(entries)))
    latest, *others = (find_store(one, sessions) for one in workspaces)
    return ObjectStore(latest.directory, others)


def _iter_workspaces(entries: Sequence[Entry]) -> Iterator[Path]:
    """Yield the directories that the session worked in, the latest first."""
    for entry in reversed(entries):
        if isinstance(entry.fact, SessionStarted | SessionResumed):
            yield Path(entry.fact.workspace)


def _make_writable(root: Path, paths: Iterable[bytes]) -> dict[bytes, int]:
    """Make the directories above these paths writable. Return the modes that they had."""
    modes: dict[bytes, int] = {}
    for path in sorted(paths):
        for parent in reversed(Path(os.fsdecode(path)).parents):
            whole = root / parent
            if whole.is_symlink() or not whole.is_dir():
                break  # what is below it is not in the tree
            mode = stat.S_IMODE(whole.stat().st_mode)
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                modes.setdefault(os.fsencode(parent), mode)
                whole.chmod(mode | stat.S_IRWXU)
    return modes


def _write(store: ObjectStore, root: Path, *, path: str, entry: StoredEntry) -> None:
    _clear_path(root, path)
    whole = root / path
    if entry.is_dir:
        whole.mkdir(exist_ok=True)
    elif entry.is_link:
        whole.symlink_to(os.fsdecode(store.get("blob", entry.id)))
    else:
        whole.write_bytes(store.get("blob", entry.id))
        whole.chmod(stat.S_IMODE(entry.mode))


def _clear_path(root: Path, path: str) -> None:
    """Make real directories down to the path: a link among them would lead out of the tree."""
    for parent in reversed(Path(path).parents[:-1]):
        if (root / parent).is_symlink() or (root / parent).is_file():
            (root / parent).unlink()
        (root / parent).mkdir(exist_ok=True)


def _remove(root: Path, path: str) -> None:
    if any((root / parent).is_symlink() for parent in Path(path).parents[:-1]):
        return  # it is not in the tree at all
    whole = root / path
    if whole.is_symlink() or whole.is_file():
        whole.unlink()
    elif whole.is_dir() and not any(whole.iterdir()):
        whole.rmdir()


def _walk(source: Path, without: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the folders of a tree with the names of their files."""
    for folder, folders, names in os.walk(source):
        if folder == str(source):
            folders[:] = [name for name in folders if name not in without]
            names = [name for name in names if name not in without]
        yield folder, names


def _sum_sizes(folder: Path, names: list[str]) -> int:
    if not os.access(folder, os.X_OK):
        return 0  # its files cannot be copied
    return sum((folder / name).lstat().st_size for name in names)


def _find_closed(folder: str, names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the files and directories that cannot be read, and whether each is a directory."""
    for name in names:
        path = Path(folder, name)
        is_dir = stat.S_ISDIR(path.lstat().st_mode)
        needed = os.R_OK | os.X_OK if is_dir else os.R_OK
        if not path.is_symlink() and not os.access(path, needed):
            yield name, is_dir


def _add_closed(closed: Mapping[bytes, bool], *, root: Path) -> None:
    """Make empty files and directories that cannot be read either."""
    modes = _make_writable(root, closed)
    for path, is_dir in closed.items():
        whole = root / os.fsdecode(path)
        whole.mkdir() if is_dir else whole.touch()
        whole.chmod(0)
    _restore_modes(root, modes)


def _restore_modes(root: Path, modes: Mapping[bytes, int]) -> None:
    for path in sorted(modes, reverse=True):  # nothing can be changed below it any more
        whole = root / os.fsdecode(path)
        if whole.is_dir() and not whole.is_symlink():
            whole.chmod(modes[path])


def _find_odd_files(folder: str, names: list[str]) -> set[str]:
    """Return the sockets, pipes and devices, which a copy cannot hold."""
    modes = {name: (Path(folder) / name).lstat().st_mode for name in names}
    return {
        name
        for name, mode in modes.items()
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    }
