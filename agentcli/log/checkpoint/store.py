"""A git repository of our own, written without git: contents by their hash, shared by sessions.

Nothing of the user's git is involved: no program is started, and no configuration, hook, filter or
environment is read. Any git can read the result. Writers need no lock: an object's name is its
content's hash, and it appears under that name whole or not at all.
"""

import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident

from agentcli.log.checkpoint.pack import Pack, PackWriter
from agentcli.types.errors import SettingsError

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LOOSE_MAX = 16
"""The number of objects in one batch that get a file each; the others share a pack."""

STALE_S = 86_400
RESERVE_BYTES = 100_000_000
"""The space that stays free on the disk: the log needs it, and so does the work."""

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n"
_CONFIG += "[fsck]\n\tbadFilemode = ignore\n"  # every permission bit is stored


class ObjectStore:
    def __init__(self, directory: Path) -> None:
        """Open the store. Nothing is created before the first object is put."""
        self.directory = directory
        self._objects = directory / "objects"
        self._packs: dict[str, Pack] = {}
        self._pack: PackWriter | None = None
        self._written = 0

    def put(self, kind: str, data: bytes) -> str:
        """Store the content; return its id, as git would name it."""
        whole = b"%s %d\0" % (kind.encode(), len(data)) + data
        object_id = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        if not self._has(object_id):
            self._write(object_id, kind, data, whole)
        return object_id

    def get(self, kind: str, object_id: str) -> bytes:
        """Return the content. Raise SettingsError if it is gone or damaged."""
        found = self._read(object_id)
        if found is None:
            raise _missing_object(
                f"{kind} {object_id} is not among the kept states in {self.directory}"
            )
        real_kind, data = found
        whole = b"%s %d\0" % (real_kind.encode(), len(data)) + data
        digest = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        if real_kind != kind or digest != object_id:
            raise _missing_object(f"{kind} {object_id} in {self.directory} is damaged")
        return data

    @contextmanager
    def batch_writes(self) -> Iterator[None]:
        """Group many `put` calls: above some number, objects share one file."""
        self._make()
        self._written = 0
        try:
            yield
        except BaseException:
            if self._pack is not None:
                self._pack.abandon()
            raise
        else:
            if self._pack is not None:
                pack = self._pack.finish()
                self._packs[pack.name] = pack
        finally:
            self._pack = None

    def keep_reference(self, session: str, object_id: str) -> None:
        """Write a reference to the object, so that git's garbage collection does not remove it."""
        reference = self.directory / "refs" / "agentcli" / session / object_id
        if not reference.exists():
            reference.parent.mkdir(parents=True, exist_ok=True)
            reference.write_text(f"{object_id}\n", encoding="ascii")

    def forget(self, session: str) -> None:
        """Delete a session's references. Delete everything if no session is left.

        Until then contents may be shared.
        """
        references = self.directory / "refs" / "agentcli"
        shutil.rmtree(references / session, ignore_errors=True)
        if not references.is_dir() or not any(references.iterdir()):
            shutil.rmtree(self.directory, ignore_errors=True)

    def free_bytes(self, most: int) -> int:
        """Return how much may be put at once: some space must stay free for everything else."""
        free = shutil.disk_usage(self.directory).free
        return min(most, free - RESERVE_BYTES)

    def _write(self, object_id: str, kind: str, data: bytes, whole: bytes) -> None:
        self._written += 1
        if self._written <= LOOSE_MAX:
            self._write_loose(object_id, whole)
            return
        if self._pack is None:
            self._pack = PackWriter(self._objects / "pack")
        self._pack.add(object_id, kind, data)

    def _write_loose(self, object_id: str, whole: bytes) -> None:
        path = self._loose(object_id)
        temporary = self._objects / f"tmp_obj_{os.getpid()}_{get_ident()}_{object_id}"
        try:
            temporary.write_bytes(zlib.compress(whole, 1))
            path.parent.mkdir(exist_ok=True)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _has(self, object_id: str) -> bool:
        if self._pack is not None and object_id in self._pack:
            return True
        if any(object_id in pack for pack in self._packs.values()):
            return True
        # Called for every file of a workspace, where a Path would take longer than the disk.
        return os.path.exists(f"{self._objects}/{object_id[:2]}/{object_id[2:]}")  # noqa: PTH110

    def _read(self, object_id: str) -> tuple[str, bytes] | None:
        try:
            head, _, data = zlib.decompress(self._loose(object_id).read_bytes()).partition(b"\0")
            return head.split(b" ")[0].decode(), data
        except FileNotFoundError:
            self._find_packs()
        except (OSError, zlib.error) as error:
            raise _missing_object(
                f"{object_id} in {self.directory} is damaged ({error})"
            ) from error
        packs: list[Pack | PackWriter] = [*self._packs.values()]
        packs += [self._pack] if self._pack else []
        return next((found for pack in packs if (found := pack.read(object_id))), None)

    def _loose(self, object_id: str) -> Path:
        return self._objects / object_id[:2] / object_id[2:]

    def _make(self) -> None:
        if self._objects.is_dir():
            if not self._packs:
                self._sweep()
            self._find_packs()
            return
        for part in (self._objects / "pack", self.directory / "refs" / "heads"):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.directory / "config").write_text(_CONFIG, encoding="ascii")
        (self.directory / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
        self.directory.chmod(0o700)

    def _sweep(self) -> None:
        """Remove unfinished files of processes that were killed."""
        old = time.time() - STALE_S
        for begun in (*self._objects.glob("tmp_obj_*"), *self._objects.glob("pack/tmp_pack_*")):
            with suppress(OSError):
                if begun.stat().st_mtime < old:
                    begun.unlink()

    def _find_packs(self) -> None:
        for index in (self._objects / "pack").glob("*.idx"):
            if index.name not in self._packs:
                try:
                    self._packs[index.name] = Pack(index)
                except (OSError, ValueError):
                    continue  # half written by a process that died, or removed


def _missing_object(message: str) -> SettingsError:
    return SettingsError(message, hint="what was kept cannot be restored; nothing was changed")
