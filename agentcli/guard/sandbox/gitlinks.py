"""The repositories that an index names: git enters these by itself, wherever they lie.

No shape of an index hides one: entries of all versions are read, and those of the shared index that
a split one builds upon. A name too many does no harm.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from agentcli.guard.sandbox.gitfiles import common_directory, small_text
from agentcli.guard.sandbox.kinds import is_file

_MOST_BYTES = 256 * 1024**2
_LINK = (0o160000).to_bytes(4, "big")
_MODE_AT = 24
_HASH_AT = 40
_HEADER_BYTES = 12
_ALIGNED_BYTES = 8
_EXTENDED = 0x4000
_COMPRESSED_VERSION = 4
_LONGEST_NUMBER_BYTES = 10
_LONGEST_PATH_BYTES = 4096
"""Of a longer one no more is kept: built upon one another they would fill the memory."""
_IS_SHA256 = re.compile(r"^\s*(?:\[.*\]\s*)?objectformat\s*=\s*\"?sha256", re.I | re.M)


def find_gitlinks(git: Path) -> tuple[str, ...]:
    """Paths relative to the top of the worktree, of the index in this git directory."""
    try:
        files = [path for path in (git / "index", *git.glob("sharedindex.*")) if is_file(path)]
        if not files:
            return ()
        is_sha256 = _IS_SHA256.search(small_text(common_directory(git) / "config"))
        hash_bytes = 32 if is_sha256 else 20
        return tuple(path for file in files for path in _read_links(file, hash_bytes))
    except OSError:
        return ()


def _read_links(file: Path, hash_bytes: int) -> tuple[str, ...]:
    found = file.stat()
    return _read_links_cached(file, hash_bytes, (found.st_ino, found.st_size, found.st_ctime_ns))


@lru_cache(maxsize=64)
def _read_links_cached(file: Path, hash_bytes: int, _stamp: tuple[int, ...]) -> tuple[str, ...]:
    """Read again only once it is another file: nobody can set back when it changed."""
    with file.open("rb") as opened:
        data = opened.read(_MOST_BYTES)
    version = int.from_bytes(data[4:8], "big")
    find = _read_compressed_links if version == _COMPRESSED_VERSION else _read_plain_links
    names = find(data, hash_bytes) if _LINK in data else ()
    return tuple(name.decode("utf-8", "surrogateescape") for name in names)


def _read_plain_links(data: bytes, hash_bytes: int) -> Iterator[bytes]:
    """By their mode, without a look at all other entries; what else looks like it names nothing."""
    mode_at = data.find(_LINK, _HEADER_BYTES)
    while mode_at >= 0:
        entry_at = mode_at - _MODE_AT
        if (entry_at - _HEADER_BYTES) % _ALIGNED_BYTES == 0:
            name_at = _end_of_flags(data, entry_at + _HASH_AT + hash_bytes)
            yield data[name_at : name_at + _LONGEST_PATH_BYTES].partition(b"\0")[0]
        mode_at = data.find(_LINK, mode_at + 1)


def _read_compressed_links(data: bytes, hash_bytes: int) -> Iterator[bytes]:
    """Each name is told by what it shares with the one before."""
    at, name, length = _HEADER_BYTES, b"", 0
    while True:
        name_at = _end_of_flags(data, at + _HASH_AT + hash_bytes)
        dropped, name_at = _number(data, name_at)
        end = data.find(b"\0", name_at)
        if end < 0:
            return
        same = max(0, length - dropped)
        length = same + end - name_at
        name = (name[:same] + data[name_at:end])[:_LONGEST_PATH_BYTES]
        if data[at + _MODE_AT : at + _HASH_AT].startswith(_LINK):
            yield name
        at = end + 1


def _end_of_flags(data: bytes, at: int) -> int:
    is_extended = int.from_bytes(data[at : at + 2], "big") & _EXTENDED
    return at + (4 if is_extended else 2)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """One of variable length, and where it ends."""
    number = 0
    for index in range(at, min(at + _LONGEST_NUMBER_BYTES, len(data))):
        byte = data[index]
        number = (number << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return number, index + 1
        number += 1
    return 0, len(data)
