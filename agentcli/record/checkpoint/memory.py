"""Which files of a workspace are kept already, for the next session: by path and stamp.

It only spares reading: a stamp that is not the file's own any more counts for nothing, and so does
a memory that cannot be read.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import get_ident

from agentcli.record.checkpoint.capture import CapturedFile
from agentcli.record.checkpoint.trees import StoredEntry

_VERSION = 1


def save_known_files(path: Path, files: Iterable[tuple[bytes, CapturedFile]]) -> None:
    """Raises OSError."""
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
            os.fsencode(name): CapturedFile(StoredEntry(mode, kept), (a, b, c, d, e))
            for name, (a, b, c, d, e, mode, kept) in rows.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
