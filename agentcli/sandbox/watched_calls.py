"""Calls of commands that Landlock cannot judge: we make them, each within its reach.

Landlock knows ports, not addresses, and no socket in the file system; it has no right for modes and
owners of files. So the kernel hands such a call over to us (a seccomp notification).

We copy the address of a socket, take the socket itself out of the command, and make the call on it.
Nobody reads the command's memory a second time, so it does not help to change an address after it
was checked. Of a file we open the one that is meant, look where it is, and make the call on what we
opened: a path or a link that is changed meanwhile does not matter.

Without a private network the servers of commands listen on the loopback of the machine. A command
reaches those, and our proxy, but none that anybody else has started.
"""

import errno
import os
import re
import select
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from threading import Thread, get_native_id

from agentcli.sandbox import kernel, seccomp
from agentcli.system.files import is_socket
from agentcli.types.fast_dataclass import dataclass

CALLS = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat")

_HERE = 0xFFFFFF9C
"""AT_FDCWD as the kernel gets it: the working directory."""
_NO_FOLLOW, _EMPTY_PATH = 0x100, 0x1000
_LONGEST_BYTES = 4096
_BITS = 0o7777
_NOBODY = 0xFFFFFFFF
"""The number of a user or group that stays as it is."""
_OWN_PROCESS = re.compile(r"\A/+(?:proc/+(?:self|thread-self)/|dev/(?=fd/))")
_NOT_IN_A_DIRECTORY = re.compile(r"[^/]|/memfd:")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A call, read from its arguments."""

    base: int
    """The handle of the file itself, or of the directory that the path starts from."""
    path: int | None
    """The address of the path; None if the handle is the file."""
    values: tuple[int, ...]
    """A mode, or a user and a group."""
    flags: int = 0


def make_call(
    name: str,
    arguments: Sequence[int],
    *,
    thread_id: int,
    directories: Sequence[Path],
    check_caller: Callable[[], object],
) -> int:
    """Change a file that is in one of the directories, or in no directory. Return an error code.

    Raise OSError. `check_caller` raises it if the thread is not the caller any more."""
    request = _parse(name, tuple(argument & 0xFFFFFFFF for argument in arguments), long=arguments)
    if request.flags & ~(_NO_FOLLOW | _EMPTY_PATH):
        return errno.EINVAL
    itself = os.O_NOFOLLOW if request.flags & _NO_FOLLOW else 0
    with kernel.hold_file(_locate(request, thread_id), itself) as (held, at):
        check_caller()
        is_free = _NOT_IN_A_DIRECTORY.match(str(at)) is not None
        if not is_free and not any(at.is_relative_to(one) for one in directories):
            return errno.EPERM
        if len(request.values) == 1:
            held.chmod(request.values[0] & _BITS)
        else:
            user, group = (-1 if one == _NOBODY else one for one in request.values)
            os.chown(held, user, group)
        return 0


def _parse(name: str, short: tuple[int, ...], *, long: Sequence[int]) -> _Request:
    """Read the arguments: numbers have 32 bits, addresses 64."""
    match name:
        case "chmod":
            return _Request(base=_HERE, path=long[0], values=short[1:2])
        case "fchmod":
            return _Request(base=short[0], path=None, values=short[1:2])
        case "fchmodat":
            return _Request(base=short[0], path=long[1], values=short[2:3])
        case "fchmodat2":
            return _Request(base=short[0], path=long[1], values=short[2:3], flags=short[3])
        case "chown":
            return _Request(base=_HERE, path=long[0], values=short[1:3])
        case "lchown":
            return _Request(base=_HERE, path=long[0], values=short[1:3], flags=_NO_FOLLOW)
        case "fchown":
            return _Request(base=short[0], path=None, values=short[1:3])
        case _:
            return _Request(base=short[0], path=long[1], values=short[2:4], flags=short[4])


def _locate(request: _Request, thread_id: int) -> str:
    """Return a path that means for us what the caller's path means for it. Raise OSError."""
    caller = f"/proc/{thread_id}"
    base = f"{caller}/cwd" if request.base == _HERE else f"{caller}/fd/{request.base}"
    if request.path is None:
        return base
    data, is_whole, _ = kernel.read_memory(thread_id, request.path, size=_LONGEST_BYTES).partition(
        b"\0"
    )
    if not is_whole:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    if data:
        path = _OWN_PROCESS.sub(f"{caller}/", os.fsdecode(data), count=1)
        return path if path.startswith("/") else f"{base}/{path}"
    if request.flags & _EMPTY_PATH:
        return base
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


if sys.platform != "win32":
    import fcntl

CONNECT: tuple[str, ...] = ("connect",)
"""The calls that are handed over in a private network."""
ALL: tuple[str, ...] = ("connect", "bind", "listen")

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFICATION = struct.Struct("=QII iIQ 6Q")
_ANSWER = struct.Struct("=QqiI")
_CONTINUE = 1
_PIDFD_GETFD = 438
_MOST_ADDRESS_BYTES = 128
_MOST_AT_ONCE = 64
_MOST_SERVERS = 1024
_FIRST_FREE_PORT = 1024
_TCP_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_LOOPBACK = "127.0.0.1"
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_FROM_PARENTS = 1

Address = tuple[str, int] | tuple[str, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketReach:
    """What the sockets of a command may lead to."""

    connects_anywhere: bool
    """True if no address is checked: it is in a private network, or may use the whole one."""
    paths: tuple[Path, ...]
    """The unix sockets that can be connected to, and directories of such."""
    changeable: tuple[Path, ...] = ()
    """Where modes and owners can be changed, if these calls are handed over."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that waits for us. It is over if its id is not valid any more."""

    call_id: int
    process: int
    name: str
    arguments: tuple[int, ...]


class _PassedOn(Exception):
    """The kernel may make the call itself: Landlock judges it."""


class SocketCalls:
    """Makes the calls of all commands of a session, in its own threads."""

    def __init__(self) -> None:
        self._listeners: dict[int, SocketReach] = {}
        self._poll = select.epoll()
        self._servers: deque[int] = deque(maxlen=_MOST_SERVERS)
        """The inodes of the sockets that commands have bound."""
        self._proxy_port = 0
        self._workers = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="socket calls")
        # Started here: a thread has the rights of the one that starts it.
        self._thread = Thread(target=self._serve, name="socket calls", daemon=True)
        self._end, self._ended = os.pipe()
        self._poll.register(self._end, select.EPOLLIN)
        self._thread.start()

    def listen(self) -> socket.socket:
        """Return a socket for the proxy. Other programs can connect, but they have no token."""
        listener = socket.create_server((_LOOPBACK, 0))
        self._proxy_port = listener.getsockname()[1]
        return listener

    def add(self, listener: int, reach: SocketReach) -> None:
        """Serve the commands of a filter until all of them have ended. From any thread."""
        self._listeners[listener] = reach
        self._poll.register(listener, select.EPOLLIN)

    def close(self) -> None:
        os.close(self._ended)
        self._thread.join()
        self._workers.shutdown(wait=False)
        for handle in (*self._listeners, self._end):
            os.close(handle)
        self._poll.close()

    def _serve(self) -> None:
        while True:
            for handle, event in self._poll.poll():
                if handle == self._end:
                    return
                if event & select.EPOLLIN:
                    self._receive(handle)
                else:  # nobody is left under this filter
                    self._poll.unregister(handle)
                    del self._listeners[handle]
                    os.close(handle)

    def _receive(self, listener: int) -> None:
        buffer = bytearray(_NOTIFICATION.size)
        with suppress(OSError):  # its process has been killed
            fcntl.ioctl(listener, _RECEIVE, buffer)
            call_id, thread_id, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
            call = _Call(call_id, thread_id, seccomp.name_call(number), tuple(arguments))
            self._workers.submit(self._answer, listener, call, self._listeners[listener])

    def _answer(self, listener: int, call: _Call, reach: SocketReach) -> None:
        code, flags = errno.EPERM, 0
        try:
            code = self._make(listener, call, reach=reach)
        except _PassedOn:
            code, flags = 0, _CONTINUE
        except OSError as error:
            code = error.errno or errno.EPERM
        finally:
            with suppress(OSError):  # the process has been killed
                fcntl.ioctl(listener, _SEND, _ANSWER.pack(call.call_id, 0, -code, flags))

    def _make(self, listener: int, call: _Call, *, reach: SocketReach) -> int:
        """Make a call, and return its error code. Raise OSError if it is refused."""
        # Otherwise the number of the process could be that of another by now.
        check_caller = partial(fcntl.ioctl, listener, _IS_VALID, struct.pack("=Q", call.call_id))
        if call.name in CALLS:
            return make_call(
                call.name,
                call.arguments,
                thread_id=call.process,
                directories=reach.changeable,
                check_caller=check_caller,
            )
        handle, start, size = call.arguments[:3]
        with closing(_take_socket(call.process, handle)) as taken:
            data = b"" if call.name == "listen" else _read_memory(call.process, start, size=size)
            check_caller()
            match call.name, taken.family:
                case "connect", socket.AF_UNIX:
                    return _connect_path(taken, data, process=call.process, reach=reach)
                case "connect", _:
                    return self._connect(taken, _parse_address(taken, data), reach=reach)
                case "bind", socket.AF_INET | socket.AF_INET6:
                    return self._bind(taken, _parse_address(taken, data))
                case "bind", _:
                    raise _PassedOn
                case _:
                    return self._listen(taken, backlog=start)

    def _connect(self, taken: socket.socket, address: Address, *, reach: SocketReach) -> int:
        if not reach.connects_anywhere:
            address = _to_loopback(taken, address, refusal=errno.ENETUNREACH)
            port = address[1]
            if port != self._proxy_port and not self._serves_port(port):
                return errno.ECONNREFUSED
        return taken.connect_ex(address)

    def _bind(self, taken: socket.socket, address: Address) -> int:
        address = _to_loopback(taken, address, refusal=errno.EADDRNOTAVAIL)
        port = address[1]
        if 0 < port < _FIRST_FREE_PORT:
            return errno.EACCES
        # With SO_REUSEPORT, a command could share the port of another program.
        if port and set(_find_listening(port)) - set(self._servers):
            return errno.EADDRINUSE
        taken.bind(address)
        self._servers.append(os.fstat(taken.fileno()).st_ino)
        return 0

    def _listen(self, taken: socket.socket, *, backlog: int) -> int:
        if taken.family in (socket.AF_INET, socket.AF_INET6):
            host, port = taken.getsockname()[:2]
            if not port:
                self._bind(taken, (host, 0))  # or the kernel would choose all addresses
            elif not _to_plain(host).is_loopback:
                return errno.EACCES
        taken.listen(min(backlog, socket.SOMAXCONN))
        return 0

    def _serves_port(self, port: int) -> bool:
        """Return whether a command listens on a port. Nobody else can do so meanwhile."""
        return not set(self._servers).isdisjoint(_find_listening(port))


def is_supported() -> bool:
    """Return whether we can take sockets out of commands, and nobody else supervises calls."""
    try:
        scope = int(_YAMA.read_text(encoding="ascii"))
    except (OSError, ValueError):
        scope = 0
    if scope > _FROM_PARENTS:
        return False
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_try_calls).result()


def _try_calls() -> bool:
    """Make each call that a container may forbid, in a thread that ends at once."""
    try:
        with socket.socket() as own:
            _take_socket(get_native_id(), own.fileno()).close()
        kernel.forbid_new_privileges()
        os.close(seccomp.listen_for_nothing())
    except OSError:
        return False
    return True


def _take_socket(thread_id: int, handle: int) -> socket.socket:
    status = Path(f"/proc/{thread_id}/status").read_text(encoding="utf-8", errors="replace")
    process = int(status.partition("\nTgid:")[2].split(maxsplit=1)[0])
    pidfd = os.pidfd_open(process)
    try:
        return socket.socket(fileno=kernel.make_syscall(_PIDFD_GETFD, pidfd, handle, 0))
    finally:
        os.close(pidfd)


def _read_memory(thread_id: int, start: int, *, size: int) -> bytes:
    size &= 0xFFFFFFFF
    if size > _MOST_ADDRESS_BYTES:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return kernel.read_memory(thread_id, start, size=size)


def _parse_address(taken: socket.socket, data: bytes) -> Address:
    """Return an internet address as Python has it. Raise OSError if it has another family."""
    family = int.from_bytes(data[:2], sys.byteorder)
    port = int.from_bytes(data[2:4], "big")
    if family == taken.family == socket.AF_INET and len(data) >= 8:
        return str(IPv4Address(data[4:8])), port
    if family == taken.family == socket.AF_INET6 and len(data) >= 24:
        flow = int.from_bytes(data[4:8], "big")
        scope = int.from_bytes(data[24:28], sys.byteorder)
        return str(IPv6Address(data[8:24])), port, flow, scope
    raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))


def _to_plain(host: str) -> IPv4Address | IPv6Address:
    address = ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


def _to_loopback(taken: socket.socket, address: Address, *, refusal: int) -> Address:
    """Return an address of the loopback. The address for all interfaces becomes the usual one.

    Raise OSError with the refusal if it is any other address.
    """
    asked = _to_plain(address[0])
    if not asked.is_loopback and not asked.is_unspecified:
        raise OSError(refusal, os.strerror(refusal))
    if taken.family == socket.AF_INET:
        return (str(asked) if asked.is_loopback else _LOOPBACK), address[1]
    is_only_6 = taken.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    if asked.version == 4 or (asked.is_unspecified and not is_only_6):
        host = f"::ffff:{asked if asked.version == 4 and asked.is_loopback else _LOOPBACK}"
    else:
        host = "::1"
    return host, address[1]


def _connect_path(taken: socket.socket, data: bytes, *, process: int, reach: SocketReach) -> int:
    name = os.fsdecode(data[2:].partition(b"\0")[0])
    if not name:
        return errno.ECONNREFUSED  # an abstract one
    # What is held is the file that was checked, wherever its name leads in a moment.
    with kernel.hold_file(Path(f"/proc/{process}/cwd", name)) as (held, at):
        if not any(at.is_relative_to(one) for one in reach.paths):
            return errno.EACCES
        if not is_socket(held):
            return errno.ECONNREFUSED
        return taken.connect_ex(str(held))


def _find_listening(port: int) -> Iterator[int]:
    """Yield the inodes of the sockets that listen on a port."""
    for table in _TCP_TABLES:
        with suppress(OSError), table.open(encoding="ascii") as lines:
            next(lines, "")
            for line in lines:
                _, local, _, state, *rest = line.split()
                if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                    yield int(rest[5])
