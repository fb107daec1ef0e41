"""Many objects in one file, in git's format: a pack and its index, without deltas.

Twenty thousand separate files would take a second to make and a block each on disk.
"""

import hashlib
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TYPES = {1: "commit", 2: "tree", 3: "blob"}
_NUMBERS = {name: number for number, name in TYPES.items()}
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_ID_BYTES = 20
_LARGE = 1 << 31
_HEAD_BYTES = 32
"""More than the header of an object can take."""


class PackWriter:
    """Takes objects one by one; nobody else sees any of them before `finish`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._temporary = directory / f"tmp_pack_{os.getpid()}_{id(self):x}"
        self._file = self._temporary.open("xb")
        self._file.write(struct.pack(">4sII", b"PACK", 2, 0))
        self._entries: dict[bytes, tuple[int, int]] = {}

    def __contains__(self, object_id: str) -> bool:
        return bytes.fromhex(object_id) in self._entries

    def add(self, object_id: str, kind: str, data: bytes) -> None:
        # Not compressed: the caller waits for the write, and objects are hardly ever read.
        entry = _head(_NUMBERS[kind], len(data)) + zlib.compress(data, 0)
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
        index.write_bytes(_index(self._entries, checksum))
        self._temporary.replace(path)
        index.replace(path.with_suffix(".idx"))
        return Pack(path.with_suffix(".idx"))

    def abandon(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._temporary.unlink()


class Pack:
    """A finished pack. Raises OSError or ValueError if it is not one."""

    def __init__(self, index: Path) -> None:
        data = index.read_bytes()
        if data[:8] != _INDEX_MAGIC:
            raise ValueError(f"{index} is not the index of a pack")
        self.name = index.name
        self._path = index.with_suffix(".pack")
        count = struct.unpack_from(">I", data, 8 + 255 * 4)[0]
        ids_at = 8 + 256 * 4
        self._ids = [
            data[at : at + _ID_BYTES] for at in range(ids_at, ids_at + count * _ID_BYTES, _ID_BYTES)
        ]
        offsets_at = ids_at + count * (_ID_BYTES + 4)
        self._offsets = struct.unpack_from(f">{count}I", data, offsets_at)
        self._large = data[offsets_at + count * 4 : -2 * _ID_BYTES]

    def __contains__(self, object_id: str) -> bool:
        return self._position(object_id) is not None

    def read(self, object_id: str) -> tuple[str, bytes] | None:
        """Return its type and content; None if it is not in this pack."""
        position = self._position(object_id)
        if position is None:
            return None
        offset = self._offsets[position]
        if offset >= _LARGE:
            offset = struct.unpack_from(">Q", self._large, (offset - _LARGE) * 8)[0]
        return _read_at(self._path, offset)

    def _position(self, object_id: str) -> int | None:
        wanted = bytes.fromhex(object_id)
        position = bisect_left(self._ids, wanted)
        found = position < len(self._ids) and self._ids[position] == wanted
        return position if found else None


def _read_at(pack: Path, offset: int) -> tuple[str, bytes]:
    with pack.open("rb") as file:
        file.seek(offset)
        number, size_bytes, used = _read_head(file.read(_HEAD_BYTES))
        file.seek(offset + used)
        deflated = file.read(size_bytes * 2 + 1024)
    data = zlib.decompressobj().decompress(deflated, size_bytes) if size_bytes else b""
    return TYPES[number], data


def _head(number: int, size_bytes: int) -> bytes:
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


def _index(entries: dict[bytes, tuple[int, int]], checksum: bytes) -> bytes:
    ids = sorted(entries)
    offsets, large = _offset_tables([entries[each][0] for each in ids])
    body = b"".join(
        (
            _INDEX_MAGIC,
            struct.pack(">256I", *_fanout(ids)),
            b"".join(ids),
            struct.pack(f">{len(ids)}I", *(entries[each][1] for each in ids)),
            struct.pack(f">{len(ids)}I", *offsets),
            struct.pack(f">{len(large)}Q", *large),
            checksum,
        )
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _fanout(ids: Sequence[bytes]) -> list[int]:
    """Return for each byte how many ids begin with it or a lower one."""
    counts = [0] * 256
    for each in ids:
        counts[each[0]] += 1
    for byte in range(1, 256):
        counts[byte] += counts[byte - 1]
    return counts


def _offset_tables(offsets: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return both tables: small offsets as they are, large ones as positions in the second."""
    small: list[int] = []
    large: list[int] = []
    for offset in offsets:
        if offset < _LARGE:
            small.append(offset)
        else:
            small.append(_LARGE + len(large))
            large.append(offset)
    return small, large
