"""The few calls into the Linux kernel that Python has no name for, and the thread that makes them.

Unless stated otherwise, a call acts on the calling thread alone. Capabilities, no_new_privs,
namespaces, filters and Landlock domains are attributes of a thread. Only the processes it starts
inherit them.
"""

import ctypes
import errno
import os
import socket
import struct
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from subprocess import Popen

if sys.platform != "win32":
    import fcntl

Restrict = Callable[[], None]


class Launcher:
    """A thread that gives up rights for good and then starts processes, which inherit the rest.

    A thread cannot get rights back. So every process it starts is confined before its first
    instruction, at no cost per process, and the rest of the program keeps its rights. A process
    also ends with its launcher: one that dies with its parent dies with the parent's thread.
    """

    def __init__(self, restrict: Restrict, *, name: str) -> None:
        """`restrict` runs in the new thread, once. If it fails, no process is ever started."""
        self._refusal: OSError | None = None
        self._thread = ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix=name,
            initializer=self._give_up_rights,
            initargs=(restrict,),
        )
        self._thread.submit(int)  # prepares the thread now, not with the first process

    def start(self, launch: Callable[[], "Popen[bytes]"]) -> "Popen[bytes]":
        """Call `launch` in the thread. Raise what it raises, or what `restrict` raised."""
        return self._thread.submit(self._start, launch).result()

    def close(self) -> None:
        """End the thread. What `restrict` needs may be closed afterwards."""
        self._thread.shutdown()

    def _give_up_rights(self, restrict: Restrict) -> None:
        try:
            restrict()
        except OSError as error:
            self._refusal = error

    def _start(self, launch: Callable[[], "Popen[bytes]"]) -> "Popen[bytes]":
        if self._refusal:
            raise self._refusal
        return launch()


def read_memory(thread_id: int, start: int, *, size: int) -> bytes:
    """Return bytes of the memory of another process, perhaps fewer than asked. Raise OSError."""
    memory = os.open(f"/proc/{thread_id}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, size, start)
    finally:
        os.close(memory)


@contextmanager
def hold_file(path: Path | str, flags: int = 0) -> Iterator[tuple[Path, Path]]:
    """Open the file at a path, not its content. Yield a path that stays on it, and where it is."""
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    try:
        held = Path(f"/proc/self/fd/{handle}")
        yield held, held.readlink()
    finally:
        os.close(handle)


_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522

_LOOPBACK = "127.0.0.1"
_BACKLOG = 128
_CLONE_NEWUSER = 0x10000000
_CLONE_FS = 0x200
_CLONE_NEWNS = 0x20000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE = 1
_FROM_HANDLE = 4
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY = 1

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_INTERFACE_REQUEST = struct.Struct("16sh22x")


@cache
def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def make_syscall(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a raw system call. Every argument is passed in a full register."""
    registers = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return _check(int(_load_libc().syscall(ctypes.c_long(number), *registers)))


def call_prctl(option: int, *arguments: int) -> int:
    registers = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return _check(int(_load_libc().prctl(ctypes.c_int(option), *registers)))


def forbid_inspection() -> None:
    """Hide the memory and secrets of the whole process from all but root with all its rights."""
    call_prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    call_prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities(*, but_override: bool = False) -> None:
    """Drop root's privileges. no_new_privs must be set, or the next exec gives them back.

    With `but_override` root may still open files of others, wherever it may open files at all.
    """
    call_prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    kept = 1 << _CAP_DAC_OVERRIDE if but_override else 0
    _check(int(_load_libc().capset(header, struct.pack("=6I", kept, kept, 0, 0, 0, 0))))


def make_private_network() -> int | None:
    """Return a network with only its own loopback, to enter later, or None if not permitted."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_make_private_network).result()


def _make_private_network() -> int | None:
    try:
        _check(int(_load_libc().unshare(ctypes.c_int(_CLONE_NEWNET))))
    except OSError:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = _INTERFACE_REQUEST.pack(b"lo", 0)
        _, flags = _INTERFACE_REQUEST.unpack(fcntl.ioctl(probe, _SIOCGIFFLAGS, request))
        fcntl.ioctl(probe, _SIOCSIFFLAGS, _INTERFACE_REQUEST.pack(b"lo", flags | _IFF_UP))
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_network(handle: int) -> None:
    _check(int(_load_libc().setns(ctypes.c_int(handle), ctypes.c_int(_CLONE_NEWNET))))


def listen_in_network(network: int, port: int, *, owner: int | None = None) -> socket.socket:
    """Return a socket that listens on the loopback of a network, whoever uses it afterwards.

    `owner` is the user namespace that the network belongs to; None if it is ours.
    """
    if owner is not None:
        return _listen_in_child(network, port, owner=owner)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_listen, network, port).result()


def _listen(network: int, port: int) -> socket.socket:
    enter_network(network)
    return socket.create_server((_LOOPBACK, port), backlog=_BACKLOG)


def _listen_in_child(network: int, port: int, *, owner: int) -> socket.socket:
    """Do it in a process of its own: only one without other threads enters a user namespace."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with warnings.catch_warnings():
            # Of the locks of other threads the child needs none.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                _check(int(_load_libc().setns(ctypes.c_int(owner), ctypes.c_int(_CLONE_NEWUSER))))
                with _listen(network, port) as listener:
                    socket.send_fds(theirs, [b"."], [listener.fileno()])
            finally:
                os._exit(0)
        theirs.close()
        _, handles, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(pid, 0)
    if not handles:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    return socket.socket(fileno=handles[0])


def make_read_only_view(
    writable: Sequence[Path], *, replaced: Mapping[Path, Path] | None = None
) -> int | None:
    """Return a view of all mounts in which only the paths in `writable` are writable.

    A path in `replaced` shows a directory that lies elsewhere, and is writable. Return None if we
    may not create a view.
    """
    sources = {path: path for path in writable} | dict(replaced or {})
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_make_read_only_view, sources).result()


def _make_read_only_view(sources: Mapping[Path, Path]) -> int | None:
    try:
        _check(int(_load_libc().unshare(ctypes.c_int(_CLONE_NEWNS))))
        # No other process may see the following changes.
        _mount(Path("/"), _MS_REC | _MS_PRIVATE)
        # The mounts as they are now: what is mounted read-only in them stays read-only.
        with ExitStack() as handles:
            copies = [(path, _copy_mounts(at, handles)) for path, at in sources.items()]
            _set_read_only(Path("/"))
            for path, copy in copies:
                _move_mount(copy, path)
    except OSError:
        return None
    return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def enter_view(handle: int) -> None:
    """Enter a view. The thread has its own root and working directory from then on."""
    _check(int(_load_libc().unshare(ctypes.c_int(_CLONE_FS))))
    _check(int(_load_libc().setns(ctypes.c_int(handle), ctypes.c_int(_CLONE_NEWNS))))


def _mount(target: Path, flags: int) -> None:
    _check(int(_load_libc().mount(None, os.fsencode(target), None, ctypes.c_ulong(flags), None)))


def _copy_mounts(path: Path, handles: ExitStack) -> int:
    """Return a handle to a copy of all mounts at a path and below, to mount it elsewhere."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    handle = make_syscall(_OPEN_TREE, _AT_FDCWD, _encode_path(path), flags)
    handles.callback(os.close, handle)
    return handle


def _move_mount(handle: int, path: Path) -> None:
    make_syscall(_MOVE_MOUNT, handle, _encode_path(""), _AT_FDCWD, _encode_path(path), _FROM_HANDLE)


def _set_read_only(path: Path) -> None:
    attributes = struct.pack("=QQQQ", _ATTR_RDONLY, 0, 0, 0)
    make_syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        _encode_path(path),
        _AT_RECURSIVE,
        ctypes.create_string_buffer(attributes, len(attributes)),
        len(attributes),
    )


def _encode_path(path: Path | str) -> "ctypes.Array[ctypes.c_char]":
    return ctypes.create_string_buffer(os.fsencode(path))
