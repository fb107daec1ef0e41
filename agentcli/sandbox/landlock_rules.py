"""Landlock rules: a thread gives up all file access except what it names, for good.

Rules add rights to a directory and everything below it. Nothing can be excluded from a directory
that was granted. What the kernel's version cannot restrict is not restricted, so callers must
check `read_version()` before they rely on it.
"""

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from agentcli.sandbox import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

TCP_VERSION = 4
SCOPE_VERSION = 6


class Access:
    """Rights to files, as bits. An enumeration takes longer to make than to use."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Access.READ_FILE | Access.READ_DIR
RUN = READ | Access.EXECUTE
CHANGE = (
    RUN
    | Access.WRITE_FILE
    | Access.REMOVE_DIR
    | Access.REMOVE_FILE
    | Access.MAKE_DIR
    | Access.MAKE_REG
    | Access.MAKE_SOCK
    | Access.MAKE_FIFO
    | Access.MAKE_SYM
    | Access.REFER
    | Access.TRUNCATE
)
SEGMENTS = (
    Access.READ_FILE | Access.WRITE_FILE | Access.MAKE_REG | Access.REMOVE_FILE | Access.TRUNCATE
)
"""For a directory of shared memory, whose names cannot be listed."""
DEVICE = Access.READ_FILE | Access.WRITE_FILE | Access.IOCTL_DEV

_ON_FILES = (
    Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
)
_BITS_OF_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}
_ALL_BITS = 16
_ALL_TCP = 0b11
_ALL_SCOPES = 0b11

Rule = tuple[Path, int]


def read_version() -> int:
    """Return the Landlock version, or 0 if this kernel has none or it is switched off."""
    try:
        return kernel.make_syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def make_ruleset(rules: Iterable[Rule], *, tcp: bool) -> int:
    """Return a handle to the rights that `restrict_thread` leaves. It can be used many times.

    Signals and abstract sockets will not leave the thread's own descendants. Without `tcp` no TCP
    port can be bound or connected to.
    """
    known = read_version()
    handled = (1 << _BITS_OF_VERSION.get(known, _ALL_BITS)) - 1
    ruleset = _create(handled, tcp=0 if tcp else _ALL_TCP, known=known)
    try:
        for path, access in rules:
            _allow(ruleset, path, access=access & handled)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def restrict_thread(ruleset: int) -> None:
    """Put the calling thread into its own domain. no_new_privs must be set."""
    kernel.make_syscall(_RESTRICT_SELF, ruleset, 0)


def restrict_scope() -> None:
    """Restrict only signals and abstract sockets: bubblewrap must still be able to mount."""
    known = read_version()
    if known >= SCOPE_VERSION:
        ruleset = _create(0, tcp=0, known=known)
        try:
            restrict_thread(ruleset)
        finally:
            os.close(ruleset)


def enclose_thread() -> None:
    """Restrict signals and abstract sockets, for a thread around others that give up files.

    A file can be moved between directories only if every domain around grants it, whatever the
    inner one says. So this one grants it everywhere. SCOPE_VERSION is needed.
    """
    ruleset = _create(Access.REFER, tcp=0, known=read_version())
    try:
        _allow(ruleset, Path("/"), access=Access.REFER)
        restrict_thread(ruleset)
    finally:
        os.close(ruleset)


def _create(files: int, *, tcp: int, known: int) -> int:
    fields = struct.pack("=QQQ", files, tcp, _ALL_SCOPES)
    size = 24 if known >= SCOPE_VERSION else 16 if known >= TCP_VERSION else 8
    return kernel.make_syscall(
        _CREATE_RULESET, ctypes.create_string_buffer(fields[:size], size), size, 0
    )


def _allow(ruleset: int, path: Path, *, access: int) -> None:
    """Add a rule for a path. A missing path needs no rule."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return
        raise
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            access &= _ON_FILES
        fields = struct.pack("=Qi", access, handle)
        buffer = ctypes.create_string_buffer(fields, len(fields))
        kernel.make_syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, buffer, 0)
    finally:
        os.close(handle)
