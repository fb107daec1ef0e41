"""What the model knows of each file: the hash of the bytes it was last shown or wrote itself.

Content decides, never a time stamp. One lock per real path keeps read-match-write in one piece.
"""

import asyncio
import hashlib
from pathlib import Path
from typing import Literal

Knowledge = Literal["unseen", "current", "stale"]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Seen:
    def __init__(self) -> None:
        self._hashes: dict[Path, str] = {}
        self._locks: dict[Path, asyncio.Lock] = {}

    def note(self, path: Path, digest: str) -> None:
        self._hashes[path] = digest

    def knowledge(self, path: Path, digest: str) -> Knowledge:
        """Of the file as it is now, by its hash."""
        known = self._hashes.get(path)
        if known is None:
            return "unseen"
        return "current" if known == digest else "stale"

    def lock(self, path: Path) -> asyncio.Lock:
        return self._locks.setdefault(path, asyncio.Lock())
