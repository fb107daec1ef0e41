"""A git repository of our own, written without git: contents by their hash, shared by sessions.

Nothing of the user's git is involved: no program is started, and no configuration, hook, filter or
environment is read. Any git can read the result. Writers need no lock: an object's name is its
content's hash, and it appears under that name whole or not at all.

A few objects get a file each. Many at once share a pack, without deltas: twenty thousand separate
files would take a second to make and a block each on disk.
"""

import hashlib
import os
import shutil
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident

from agentcli.types.errors import SettingsError

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LOOSE_MAX = 16
"""The number of objects in one batch that get a file each; the others share a pack."""

STALE_S = 86_400
RESERVE_BYTES = 100_000_000
"""The space that stays free on the disk: the log needs it, and so does the work."""

CANNOT_RESTORE = "nothing was changed; restore the files with git or from a backup"
"""The hint where a stored state is damaged or gone."""

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n"
_CONFIG += "[fsck]\n\tbadFilemode = ignore\n"  # every permission bit is stored
_TYPES = {1: "commit", 2: "tree", 3: "blob"}
_NUMBERS = {name: number for number, name in _TYPES.items()}
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_ID_BYTES = 20
_HEAD_BYTES = 32
"""More than the header of an object can take."""


class ObjectStore:
    def __init__(self, directory: Path, others: Sequence["ObjectStore"] = ()) -> None:
        """Open the store. Nothing is created before the first object is put.

        What it does not hold is read from the `others`: an id means the same everywhere."""
        self.directory = directory
        self._others = others
        self._objects = directory / "objects"
        self._packs: dict[str, Pack] = {}
        self._pack: PackWriter | None = None
        self._written = 0
        self.lost_packs = False
        """True if there are packs that are not whole: what was stored may have to be again."""

    @property
    def has_objects(self) -> bool:
        """True if something was ever put into it, or into one of the others."""
        return self._objects.is_dir() or any(other.has_objects for other in self._others)

    def put(self, kind: str, data: bytes) -> str:
        """Store the content; return its id, as git would name it."""
        whole = b"%s %d\0" % (kind.encode(), len(data)) + data
        object_id = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        if not self._has(object_id):
            self._write(object_id, kind, data=data, whole=whole)
        return object_id

    def get(self, kind: str, object_id: str) -> bytes:
        """Return the content. Raise SettingsError if it is gone or damaged."""
        stores = (self, *self._others)
        found = next((found for one in stores if (found := one._read(object_id))), None)
        if found is None:
            raise _build_missing_error(
                f"{kind} {object_id} is not among the kept states in {self.directory}"
            )
        real_kind, data = found
        whole = b"%s %d\0" % (real_kind.encode(), len(data)) + data
        digest = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        if real_kind != kind or digest != object_id:
            raise _build_missing_error(f"{kind} {object_id} in {self.directory} is damaged")
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

    def count_free_bytes(self, most: int) -> int:
        """Return how much may be put at once: some space must stay free for everything else."""
        free = shutil.disk_usage(self.directory).free
        return min(most, free - RESERVE_BYTES)

    def _write(self, object_id: str, kind: str, *, data: bytes, whole: bytes) -> None:
        self._written += 1
        if self._written <= LOOSE_MAX:
            self._write_loose(object_id, whole)
            return
        if self._pack is None:
            self._pack = PackWriter(self._objects / "pack")
        self._pack.add(object_id, kind, data=data)

    def _write_loose(self, object_id: str, whole: bytes) -> None:
        path = self._locate_loose(object_id)
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
        try:
            found = os.stat(f"{self._objects}/{object_id[:2]}/{object_id[2:]}")  # noqa: PTH116
        except OSError:
            return False
        return found.st_size > 0  # a power cut may have left its name alone

    def _read(self, object_id: str) -> tuple[str, bytes] | None:
        try:
            head, _, data = zlib.decompress(self._locate_loose(object_id).read_bytes()).partition(
                b"\0"
            )
            return head.split(b" ")[0].decode(), data
        except FileNotFoundError:
            self._find_packs()
        except (OSError, zlib.error) as error:
            raise _build_missing_error(
                f"{object_id} in {self.directory} is damaged ({error})"
            ) from error
        packs: list[Pack | PackWriter] = [*self._packs.values()]
        packs += [self._pack] if self._pack else []
        return next((found for pack in packs if (found := pack.read(object_id))), None)

    def _locate_loose(self, object_id: str) -> Path:
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
                except (OSError, ValueError, struct.error):
                    self.lost_packs = True  # a power cut left a part of it; or it was removed


def _build_missing_error(message: str) -> SettingsError:
    return SettingsError(message, hint=CANNOT_RESTORE)


# Packs


class PackWriter:
    """Takes objects one by one; nobody else sees any of them before `finish`.

    What is put at once is far below the 2 GiB from which an index needs a second table.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._temporary = directory / f"tmp_pack_{os.getpid()}_{id(self):x}"
        self._file = self._temporary.open("xb")
        self._file.write(struct.pack(">4sII", b"PACK", 2, 0))
        self._entries: dict[bytes, tuple[int, int]] = {}

    def __contains__(self, object_id: str) -> bool:
        return bytes.fromhex(object_id) in self._entries

    def add(self, object_id: str, kind: str, *, data: bytes) -> None:
        # Not compressed: the caller waits for the write, and objects are hardly ever read.
        entry = _encode_head(_NUMBERS[kind], len(data)) + zlib.compress(data, 0)
        self._entries[bytes.fromhex(object_id)] = (self._file.tell(), zlib.crc32(entry))
        self._file.write(entry)

    def read(self, object_id: str) -> tuple[str, bytes] | None:
        entry = self._entries.get(bytes.fromhex(object_id))
        if entry is None:
            return None
        self._file.flush()
        return _read_at(self._temporary, entry[0])

    def finish(self) -> "Pack":
        with self._file as file:
            file.seek(0)
            file.write(struct.pack(">4sII", b"PACK", 2, len(self._entries)))
        with self._temporary.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha1").digest()
        with self._temporary.open("ab") as file:
            file.write(checksum)
        path = self._directory / f"pack-{checksum.hex()}.pack"
        index = self._temporary.with_suffix(".idx")
        index.write_bytes(_build_index(self._entries, checksum))
        self._temporary.replace(path)
        index.replace(path.with_suffix(".idx"))
        return Pack(path.with_suffix(".idx"))

    def abandon(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._temporary.unlink()


class Pack:
    """A finished pack. Raises OSError, ValueError or struct.error if it is not one."""

    def __init__(self, index: Path) -> None:
        data = index.read_bytes()
        if data[:8] != _INDEX_MAGIC:
            raise ValueError(f"{index} is not the index of a pack")
        self.name = index.name
        self._path = index.with_suffix(".pack")
        with self._path.open("rb") as file:
            file.seek(-_ID_BYTES, os.SEEK_END)
            if file.read() != data[-2 * _ID_BYTES : -_ID_BYTES]:  # the checksum of the pack
                raise ValueError(f"{self._path} is not whole")
        count = struct.unpack_from(">I", data, 8 + 255 * 4)[0]
        start = 8 + 256 * 4
        end = start + count * _ID_BYTES
        ids = (data[at : at + _ID_BYTES] for at in range(start, end, _ID_BYTES))
        # A checksum of four bytes for each id stands between the ids and the offsets.
        offsets = struct.unpack_from(f">{count}I", data, end + count * 4)
        self._offsets = dict(zip(ids, offsets, strict=True))

    def __contains__(self, object_id: str) -> bool:
        return bytes.fromhex(object_id) in self._offsets

    def read(self, object_id: str) -> tuple[str, bytes] | None:
        """Return its type and content; None if it is not in this pack."""
        offset = self._offsets.get(bytes.fromhex(object_id))
        return None if offset is None else _read_at(self._path, offset)


def _read_at(pack: Path, offset: int) -> tuple[str, bytes]:
    with pack.open("rb") as file:
        file.seek(offset)
        number, size_bytes, used = _read_head(file.read(_HEAD_BYTES))
        file.seek(offset + used)
        deflated = file.read(size_bytes * 2 + 1024)
    data = zlib.decompressobj().decompress(deflated, size_bytes) if size_bytes else b""
    return _TYPES[number], data


def _encode_head(number: int, size_bytes: int) -> bytes:
    """Encode type and size: four bits of the size in the first byte, seven in each that follows."""
    first, size_bytes = number << 4 | size_bytes & 0x0F, size_bytes >> 4
    head = bytearray()
    while size_bytes:
        head.append(first | 0x80)
        first, size_bytes = size_bytes & 0x7F, size_bytes >> 7
    head.append(first)
    return bytes(head)


def _read_head(data: bytes) -> tuple[int, int, int]:
    """Return type, size, and the length of the header in bytes."""
    number, size_bytes, shift, used = data[0] >> 4 & 7, data[0] & 0x0F, 4, 1
    while data[used - 1] & 0x80:
        size_bytes |= (data[used] & 0x7F) << shift
        shift, used = shift + 7, used + 1
    return number, size_bytes, used


def _build_index(entries: dict[bytes, tuple[int, int]], checksum: bytes) -> bytes:
    ids = sorted(entries)
    body = b"".join(
        (
            _INDEX_MAGIC,
            struct.pack(">256I", *_count_fanout(ids)),
            b"".join(ids),
            struct.pack(f">{len(ids)}I", *(entries[each][1] for each in ids)),
            struct.pack(f">{len(ids)}I", *(entries[each][0] for each in ids)),
            checksum,
        )
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _count_fanout(ids: Sequence[bytes]) -> list[int]:
    """Return for each byte how many ids begin with it or a lower one."""
    counts = [0] * 256
    for each in ids:
        counts[each[0]] += 1
    for byte in range(1, 256):
        counts[byte] += counts[byte - 1]
    return counts
