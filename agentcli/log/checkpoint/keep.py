"""The state before and after a call that may change the workspace.

If a call names its files, only these are stored. For any other call it is the whole workspace, as
far as ignore rules and limits allow. Everything is created at the first such call, not before.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from agentcli.log.checkpoint.changes import ChangedFile, describe_changes, merge_changes
from agentcli.log.checkpoint.scan import RACY_NS, IgnoreScope, WorkspaceScan, is_rule_file
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import (
    CapturedFile,
    StoredEntry,
    TreeDifference,
    capture_paths,
    find_differences,
    write_state,
)
from agentcli.system.text import to_printable
from agentcli.types.events import PATHS_RECORDED, Checkpointed
from agentcli.types.fast_dataclass import dataclass

# The files of a workspace that are stored already, by path and stamp, for the next session


_VERSION = 1


def save_known_files(path: Path, files: Iterable[tuple[bytes, CapturedFile]]) -> None:
    """Save the stamps and ids of stored files. Raise OSError."""
    rows = {os.fsdecode(name): [*one.stamp, one.entry.mode, one.entry.id] for name, one in files}
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.tmp")
    temporary.write_text(json.dumps([_VERSION, rows], separators=(",", ":")), encoding="ascii")
    temporary.replace(path)


def load_known_files(path: Path) -> Mapping[bytes, CapturedFile]:
    try:
        version, rows = json.loads(path.read_text(encoding="ascii"))
        if version != _VERSION:
            return {}
        return {
            os.fsencode(name): CapturedFile(StoredEntry(mode, object_id), (a, b, c, d, e))
            for name, (a, b, c, d, e, mode, object_id) in rows.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


WORTH_REMEMBERING = 500
"""The number of files that the next session would have to read again."""


def find_store(workspace: Path, sessions: Path) -> ObjectStore:
    """Return the stored states of a workspace: beside the sessions, shared by all of them."""
    name = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return ObjectStore(sessions.parent / "checkpoints" / f"{name}.git")


def forget_session(session: str, sessions: Path) -> None:
    """Delete the states of a session: those of its workspace, and of directories added to it."""
    for directory in (sessions.parent / "checkpoints").glob("*.git"):
        if (directory / "refs" / "agentcli" / session).is_dir():
            ObjectStore(directory).forget(session)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBefore:
    call_id: str
    paths: tuple[bytes, ...] | None
    """None for the whole workspace."""
    tree: str


class CheckpointKeeper:
    """Stores the states around the calls of a session. Not thread-safe."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        session: str,
        root: Path,
        scope: Callable[[], IgnoreScope],
        outside: Sequence[Path] = (),
        name: str = "",
    ) -> None:
        """`name` is the path of an added directory in the facts; empty for the workspace."""
        self._store = store
        self._name = name
        self._session = session
        self._root = root
        self._scope = scope
        self._outside = [path for path in outside if path.is_relative_to(root)]
        self._memory = store.directory / "memory.json"
        self._scan: WorkspaceScan | None = None
        self._captured_ns: dict[str, int] = {}
        """By state: when it was first stored."""
        self._remembered = 0
        """The number of files that the scan had newly read when the known ones were saved."""

    @property
    def has_states(self) -> bool:
        """True if a session has stored states of this workspace before."""
        return self._store.directory.is_dir()

    def look_ahead(self, is_stopped: Callable[[], bool]) -> None:
        """Look at the whole workspace before a call does, which then looks only for changes.

        Raise as `begin_checkpoint` does, or ScanStopped once `is_stopped` returns True."""
        with self._batch_writes():
            self._keep_empty()
            self._scan = self._scan or self._start_scan(is_stopped)
        self._remember()

    def begin_checkpoint(self, call_id: str, paths: Sequence[bytes] | None) -> CheckpointBefore:
        """Store the state before a call. Raise OSError or WorkspaceTooLarge if that fails."""
        named = None if paths is None else tuple(paths)
        began_ns = time.time_ns()
        with self._batch_writes():
            self._keep_empty()
            tree = (
                self._write_whole(fresh_rules=True) if named is None else self._write_named(named)
            )
        self._remember()
        self._store.keep_reference(self._session, tree)
        self._captured_ns.setdefault(tree, began_ns)
        return CheckpointBefore(call_id=call_id, paths=named, tree=tree)

    def finish_checkpoint(self, before: CheckpointBefore) -> Checkpointed | None:
        """Store the state after a call; return None if nothing that is stored has changed.

        Ignored files that are gone count as a change that cannot be undone.
        """
        named = before.paths
        with self._batch_writes():
            tree = (
                self._write_whole(fresh_rules=False) if named is None else self._write_named(named)
            )
        changed = find_differences(self._store, before.tree, after=tree)
        removed = self._scan.removed_ignored if self._scan is not None and named is None else set()
        if not changed and not removed:
            return None
        self._store.keep_reference(self._session, tree)
        kept = [each for each in changed if _has_content(each)]
        lost = [each.path for each in changed if not _has_content(each)]
        return Checkpointed(
            call_id=before.call_id,
            before=before.tree,
            after=tree,
            paths=_display_paths([each.path for each in kept]),
            paths_total=len(kept),
            not_kept=_display_paths([*lost, *sorted(removed)]),
            root=self._name,
        )

    def find_changes(
        self, facts: Iterable[Checkpointed], *, since: str | None
    ) -> tuple[ChangedFile, ...]:
        """Return what differs now from the states before these changes.

        With `since`, a state of the whole workspace, everything that differs from it is returned
        too, whoever changed it.
        """
        first = {path: change.before for path, change in merge_changes(self._store, facts).items()}
        if since is not None:
            now = self.begin_checkpoint("", None).tree
            changes = find_differences(self._store, since, after=now)
            if any(is_rule_file(change.path) for change in changes):
                changes = [one for one in changes if not self._was_hidden(one, since=since)]
            first.update({change.path: change.before for change in changes})
        with self._batch_writes():
            # Not from the state above: a new ignore rule hides files that are still there.
            found = capture_paths(self._store, tuple(first), root=self._root)
        return describe_changes(
            self._store,
            (
                TreeDifference(path=path, before=before, after=found.get(path))
                for path, before in first.items()
            ),
        )

    def _was_hidden(self, change: TreeDifference, *, since: str) -> bool:
        """Return whether a file that seems to be new is older: an ignore rule had hidden it."""
        if change.before is not None:
            return False
        path = os.fsencode(self._root) + b"/" + change.path
        try:
            return os.lstat(path).st_ctime_ns < self._captured_ns.get(since, 0) - RACY_NS
        except OSError:
            return False

    def close(self) -> None:
        if self._scan is not None:
            self._scan.close()
            self._scan = None

    @contextmanager
    def _batch_writes(self) -> Iterator[None]:
        try:
            with self._store.batch_writes():
                yield
        except BaseException:
            self.close()  # the scan may name contents that were never written
            raise

    def _keep_empty(self) -> None:
        """Make a reference, so that deleting the last other session spares our states."""
        self._store.keep_reference(self._session, self._store.put("tree", b""))

    def _write_named(self, paths: tuple[bytes, ...]) -> str:
        return write_state(self._store, capture_paths(self._store, paths, root=self._root))

    def _write_whole(self, *, fresh_rules: bool) -> str:
        # One call uses one set of rules: a file must not appear because a rule was removed.
        if self._scan is not None:
            self._scan.refresh()
            if fresh_rules and self._scan.rules_changed:
                self.close()
        if self._scan is None:
            self._scan = self._start_scan()
        return self._scan.store_tree()

    def _start_scan(self, is_stopped: Callable[[], bool] = lambda: False) -> WorkspaceScan:
        self._remembered = 0
        return WorkspaceScan(
            self._store,
            self._root,
            scope=self._scope(),
            outside=self._outside,
            known={} if self._store.lost_packs else load_known_files(self._memory),
            is_stopped=is_stopped,
        )

    def _remember(self) -> None:
        """Save the known files. Call once everything is written."""
        newly_read = self._scan.newly_read if self._scan is not None else 0
        if self._scan is not None and newly_read - self._remembered > WORTH_REMEMBERING:
            save_known_files(self._memory, self._scan.files())
            self._remembered = newly_read


def _has_content(difference: TreeDifference) -> bool:
    return all(
        entry is None or entry.has_content for entry in (difference.before, difference.after)
    )


def _display_paths(paths: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(
        to_printable(path.decode("utf-8", "surrogateescape")) for path in paths[:PATHS_RECORDED]
    )
