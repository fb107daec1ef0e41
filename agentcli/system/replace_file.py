"""Replacement of a file in an open folder, all or nothing.

The new bytes are completely on disk before the file is renamed, and it is only renamed while the
old bytes are still the expected ones. Any failure leaves the old file and no other.
"""

import os
import secrets
import stat
import sys
import time
from contextlib import suppress

from agentcli.system.folder import Folder
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.words import pluralize

NEW_FILE_MODE = 0o644
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID
TEMPORARY_BEGIN = ".agentcli-"
_TEMPORARY = compile_later(rf"\{TEMPORARY_BEGIN}[0-9a-f]{{16}}\.tmp")
_STALE_S = 600.0
"""The age at which a temporary file is left over from a process that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedFile:
    created: bool
    notes: tuple[str, ...] = ()
    """Facts about the file, besides its text, that the user may want to know."""


def replace_file(
    folder: Folder, name: str, *, data: bytes, expected: bytes | None, shown: str
) -> ReplacedFile:
    """Replace the file. If `expected` is None, there must be none. `shown` is for messages."""
    found = folder.stat(name)
    _require_replaceable(folder, name, found=found, shown=shown)
    _remove_stale(folder)
    temporary = f"{TEMPORARY_BEGIN}{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    handle = folder.open_file(temporary, flags, mode=NEW_FILE_MODE if found is None else 0o600)
    try:
        try:
            _write_all(handle, data)
            notes = (
                () if found is None else _copy_attributes(handle, found, folder=folder, name=name)
            )
            os.fsync(handle)
        finally:
            os.close(handle)
        with folder.lock():  # otherwise another session could write before the rename
            if not _holds(folder, name, expected=expected):
                raise ToolError(f"Not written: {shown} changed on disk meanwhile. Read it again.")
            folder.rename(temporary, name)
    except BaseException:
        with suppress(OSError):
            folder.unlink(temporary)
        raise
    return ReplacedFile(created=found is None, notes=notes)


def is_temporary(name: str) -> bool:
    """Return whether it is the name of a file that `replace_file` is writing, or left behind."""
    return _TEMPORARY.fullmatch(name) is not None


def is_stale(found: os.stat_result) -> bool:
    """Return whether a temporary file is old, and the user's own."""
    is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    is_old = time.time() - found.st_mtime > _STALE_S
    return is_own and is_old and stat.S_ISREG(found.st_mode)


def _remove_stale(folder: Folder) -> None:
    """Remove what a killed process left in the folder."""
    with suppress(OSError):  # it may be closed to us, or another process removes the same file
        for name in [path.name for path in folder.path.iterdir() if is_temporary(path.name)]:
            found = folder.stat(name)
            if found is not None and is_stale(found):
                folder.unlink(name)


def _require_replaceable(
    folder: Folder, name: str, *, found: os.stat_result | None, shown: str
) -> None:
    if found is None:
        return
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"Not written: {shown} is not a regular file.")
    # A rename ignores the file's mode, but a read-only file is meant to keep its text.
    if not folder.may_write(name):
        mode = stat.S_IMODE(found.st_mode)
        raise ToolError(f"Not written: {shown} is read-only (mode {mode:04o}).")


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _copy_attributes(
    handle: int, found: os.stat_result, *, folder: Folder, name: str
) -> tuple[str, ...]:
    """Give the new file the old one's owner, attributes and mode, as far as allowed."""
    notes: list[str] = []
    mode = stat.S_IMODE(found.st_mode)
    if not _keep_owner(handle, found):
        mode &= ~_SPECIAL_BITS
        notes.append("the file's owner or group could not be kept")
    _keep_attributes(handle, folder=folder, name=name)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, mode)
    if found.st_nlink > 1:
        others = found.st_nlink - 1
        notes.append(
            f"it had {pluralize(others, 'other hard link')}, not changed: the old text is kept "
            "under those names"
        )
    return tuple(notes)


def _keep_owner(handle: int, found: os.stat_result) -> bool:
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) == (found.st_uid, found.st_gid) or not hasattr(os, "fchown"):
        return True
    try:
        os.fchown(handle, found.st_uid, found.st_gid)
    except OSError:
        return False
    return True


def _keep_attributes(handle: int, *, folder: Folder, name: str) -> None:
    if sys.platform != "linux":  # elsewhere Python has no way to
        return
    old = folder.open_file(name, os.O_RDONLY)
    try:
        for attribute in os.listxattr(old):
            if attribute != "security.capability":  # a privilege of the old bytes, not of these
                with suppress(OSError):
                    os.setxattr(handle, attribute, os.getxattr(old, attribute))
    except OSError:  # the file system has none
        return
    finally:
        os.close(old)


def _holds(folder: Folder, name: str, *, expected: bytes | None) -> bool:
    found = folder.stat(name)
    if found is None or expected is None:
        return found is None and expected is None
    if not stat.S_ISREG(found.st_mode) or found.st_size != len(expected):
        return False
    with os.fdopen(folder.open_file(name, os.O_RDONLY), "rb") as file:
        return file.read(len(expected) + 1) == expected
