"""The system calls a command may not make, as a program for the kernel's filter machine.

The filter narrows what the other layers leave open: other processes' memory, namespaces, mounts,
keyrings, io_uring, rarely used kernel interfaces, and socket families. A call of a foreign
instruction set ends the process, because its numbers mean something else.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from threading import get_native_id

from agentcli.sandbox import kernel
from agentcli.types.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """The system call numbers of Linux on one processor."""

    audit_arch: int
    column: int
    """The index of its numbers in `_NUMBERS`."""


MACHINES = {
    "x86_64": Machine(audit_arch=0xC000003E, column=0),
    "aarch64": Machine(audit_arch=0xC00000B7, column=1),
}

# name: (x86_64, aarch64); None if a processor does not have the call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bind": (49, 200),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "listen": (50, 201),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}

_WITH_ARGUMENTS = (
    *("bind", "clone", "clone3", "connect", "ioctl", "listen", "sendmmsg", "sendmsg", "sendto"),
    *("setpriority", "socket", "socketpair"),
    *("chmod", "chown", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "lchown"),
)
_MODE_OF_FILE = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""The index of the mode of each call."""
_ON_A_PID = {
    # The index of the pid argument: only 0, the caller itself, passes.
    "ioprio_set": 1,
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
}
_ON_A_THREAD = {
    # The numbers, and the index of the thread argument.
    "kill": ((62, 129), 0),
    "pidfd_open": ((434, 434), 0),
    "rt_sigqueueinfo": ((129, 138), 0),
    "rt_tgsigqueueinfo": ((297, 240), 1),
    "tgkill": ((234, 131), 1),
    "tkill": ((200, 130), 0),
}
# Memory, semaphores and queues that all processes of the same user share.
_SHARED = (
    *("mq_open", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd"),
    *("semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmget"),
)
_DENIED = tuple(name for name in _NUMBERS if name not in {*_WITH_ARGUMENTS, *_ON_A_PID, *_SHARED})

# New mount, cgroup, uts, ipc, user, pid and network namespaces.
_NAMESPACE_FLAGS = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x60000000
_TIOCSTI = 0x5412
_TIOCLINUX = 0x541C
_PRIO_USER = 2

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
_DATAGRAM_BIT = 2
"""Set in the types of sockets that can send to any address; not in streams."""

_TYPE_BITS, _STREAM = 0xF, 1
_TCP = (0, 6)
_FLAGS_OF_SENDING = {"sendmmsg": 3, "sendmsg": 2, "sendto": 3}
"""The index of the flags of each call."""
_FAST_OPEN = 0x20000000
"""The flag by which a first message also connects."""

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
_ALLOW = 0x7FFF0000
_HAND_OVER = 0x7FC00000
_KILL_PROCESS = 0x80000000
_X32_BIT = 0x40000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_SET_MODE_FILTER = 1
_ALLOW_SPECULATION, _NEW_LISTENER, _WAIT_KILLABLE = 4, 8, 32
_SECCOMP_NUMBER = (317, 277)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyscallFilter:
    """The calls that the other layers make safe to allow."""

    families: tuple[int, ...]
    """Socket families that may be opened; of netlink only the reading of routes."""
    sees_others: bool
    """True if it shares process ids and System V memory with processes that are not its own."""
    handed_over: tuple[str, ...] = ()
    """The calls that somebody else makes. Then sockets are streams, which must connect first."""


Instruction = tuple[int, int, int, int]

_LOAD_NUMBER: Instruction = (_LOAD, 0, 0, _NUMBER)


def _return(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)


def _refuse(code: int) -> Instruction:
    return _return(0x00050000 | code)


def _load_argument(index: int) -> Instruction:
    # The low half: the kernel takes these arguments as 32-bit integers.
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _branch_if_equal(value: int, then: Sequence[Instruction]) -> list[Instruction]:
    return [(_JUMP_EQUAL, 0, len(then), value), *then]


def _branch_if_any_bit(mask: int, then: Sequence[Instruction]) -> list[Instruction]:
    return [(_JUMP_ANY_BIT, 0, len(then), mask), *then]


def _allow_only_self(index: int) -> list[Instruction]:
    return [_load_argument(index), *_branch_if_equal(0, [_return(_ALLOW)]), _refuse(errno.EPERM)]


def _allow_socket_families(
    families: Iterable[int], *, streams: Iterable[int] = ()
) -> list[Instruction]:
    """Allow the sockets of these families. Of those in `streams`, only streams of TCP or none."""
    body, no = [_load_argument(0)], _refuse(errno.EAFNOSUPPORT)
    for family in families:
        if family == AF_NETLINK:
            routes = [_load_argument(2), *_branch_if_equal(_NETLINK_ROUTE, [_return(_ALLOW)])]
            body += _branch_if_equal(AF_NETLINK, [*routes, no])
        elif family in streams:
            tcp = [one for number in _TCP for one in _branch_if_equal(number, [_return(_ALLOW)])]
            plain = _branch_if_equal(_STREAM, [_load_argument(2), *tcp])
            kind = [_load_argument(1), (_AND, 0, 0, _TYPE_BITS)]
            body += _branch_if_equal(family, [*kind, *plain, no])
        else:
            body += _branch_if_equal(family, [_return(_ALLOW)])
    return [*body, no]


def _allow_socket_pairs(*, can_send: bool) -> list[Instruction]:
    """Allow pairs of streams, which stay connected. Datagrams could be sent elsewhere."""
    datagrams = [
        _load_argument(1),
        *_branch_if_any_bit(_DATAGRAM_BIT, [_refuse(errno.EAFNOSUPPORT)]),
    ]
    return [*([] if can_send else datagrams), *_allow_socket_families((AF_UNIX,))]


def _build_argument_checks(what: SyscallFilter) -> dict[str, list[Instruction]]:
    """Return a body that always returns, for each call whose arguments decide."""
    no, yes = _refuse(errno.EPERM), _return(_ALLOW)
    has_own_servers = "bind" in what.handed_over
    internet = (AF_INET, AF_INET6) if has_own_servers else ()
    streams = (AF_UNIX, *internet) if what.handed_over else ()
    bodies = {
        "clone": [_load_argument(0), *_branch_if_any_bit(_NAMESPACE_FLAGS, [no]), yes],
        # Its flags lie in memory that a filter cannot read; every libc then falls back to clone.
        "clone3": [_refuse(errno.ENOSYS)],
        "ioctl": [
            _load_argument(1),
            *_branch_if_equal(_TIOCSTI, [no]),
            *_branch_if_equal(_TIOCLINUX, [no]),
            yes,
        ],
        "socket": _allow_socket_families(what.families, streams=streams),
        "socketpair": _allow_socket_pairs(
            can_send=AF_UNIX in what.families and not what.handed_over
        ),
        **{name: [_return(_HAND_OVER)] for name in what.handed_over},
    }
    for name, index in _MODE_OF_FILE.items():
        # A program of this mode runs with the rights of its owner, whoever starts it. Content that
        # is written without capabilities clears the bit, so only these calls can set it for good.
        check = [_load_argument(index), *_branch_if_any_bit(stat.S_ISUID, [no])]
        bodies[name] = [*check, *bodies.get(name, [yes])]
    if has_own_servers:
        for name, index in _FLAGS_OF_SENDING.items():
            bodies[name] = [_load_argument(index), *_branch_if_any_bit(_FAST_OPEN, [no]), yes]
    if what.sees_others:
        bodies["setpriority"] = [
            _load_argument(0),
            *_branch_if_equal(_PRIO_USER, [no]),
            *_allow_only_self(1),
        ]
        bodies |= {name: _allow_only_self(index) for name, index in _ON_A_PID.items()}
        bodies |= {name: [no] for name in _SHARED}
    return bodies


@cache
def build_program(what: SyscallFilter, processor: str = "") -> bytes:
    """Return the filter as the kernel and bubblewrap take it: an array of `struct sock_filter`."""
    machine = MACHINES[processor or os.uname().machine]
    kill = _return(_KILL_PROCESS)
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.audit_arch),
        kill,
        _LOAD_NUMBER,
        *_branch_if_any_bit(_X32_BIT, [kill]),
    ]
    rules = {name: [_refuse(errno.EPERM)] for name in _DENIED} | _build_argument_checks(what)
    for name, body in rules.items():
        number = _NUMBERS[name][machine.column]
        if number is not None:
            code += _branch_if_equal(number, body)
    return _pack([*code, _return(_ALLOW)])


def _pack(code: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def restrict_thread(what: SyscallFilter) -> int | None:
    """Put the calling thread, and all it starts, under the filter. no_new_privs must be set.

    Return a handle that gets the calls which are handed over; None if there are none.

    For Landlock the thread is one of the processes it starts, and they could signal the whole
    process by the thread's number. So that number cannot be signalled.
    """
    code = _without_signals(get_native_id()) + build_program(what)
    if what.handed_over:
        return _install(code, _NEW_LISTENER | _WAIT_KILLABLE)
    _install(code, 0)
    return None


def listen_for_nothing() -> int:
    """Return a handle that gets calls of the calling thread, though none is handed over.

    Raise OSError if somebody else gets its calls already."""
    return _install(_pack([_return(_ALLOW)]), _NEW_LISTENER | _WAIT_KILLABLE)


def name_call(number: int) -> str:
    """Return the name of a call that is handed over."""
    column = MACHINES[os.uname().machine].column
    return next(name for name in _WITH_ARGUMENTS if _NUMBERS[name][column] == number)


def _install(code: bytes, flags: int) -> int:
    buffer = ctypes.create_string_buffer(code, len(code))
    head = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    number = _SECCOMP_NUMBER[MACHINES[os.uname().machine].column]
    return kernel.make_syscall(
        number,
        _SET_MODE_FILTER,
        _ALLOW_SPECULATION | flags,
        ctypes.create_string_buffer(head, len(head)),
    )


def _without_signals(thread_id: int) -> bytes:
    column = MACHINES[os.uname().machine].column
    code = [_LOAD_NUMBER]
    for numbers, index in _ON_A_THREAD.values():
        refused = _branch_if_equal(thread_id, [_refuse(errno.EPERM)])
        code += _branch_if_equal(numbers[column], [_load_argument(index), *refused, _LOAD_NUMBER])
    return _pack(code)


def is_supported() -> bool:
    """Return whether our own calls are the machine's, not those of an older one it also runs."""
    return os.uname().machine in MACHINES and sys.maxsize > 2**32
