import errno
import re
import struct
from pathlib import Path

import pytest

from agentcli.sandbox import seccomp
from agentcli.sandbox.seccomp import MACHINES, SyscallFilter, build_program

ALLOWED = "allowed"
KILLED = "killed"

INSIDE = SyscallFilter(
    families=(seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK),
    sees_others=False,
)
AMONG_OTHERS = SyscallFilter(families=(), sees_others=True)


def decide(code: bytes, number: int, *arguments: int, architecture: int) -> str | int:
    """What the kernel's machine would answer: the few instructions a filter is made of."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", code))
    accumulator, at = 0, 0
    while True:
        operation, if_true, if_false, value = steps[at]
        at += 1
        if operation == 0x20:
            [accumulator] = struct.unpack_from("=I", data, value)
        elif operation == 0x15:
            at += if_true if accumulator == value else if_false
        elif operation == 0x45:
            at += if_true if accumulator & value else if_false
        elif operation == 0x06:
            refusal: int = value & 0xFFFF
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(value, refusal)
        else:
            raise AssertionError(f"unknown operation {operation:#x}")


@pytest.fixture(params=sorted(MACHINES))
def processor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(what: SyscallFilter, processor: str, name: str, *arguments: int) -> str | int:
    machine = MACHINES[processor]
    number = seccomp._NUMBERS[name][machine.column]
    assert number is not None
    return decide(
        build_program(what, processor), number, *arguments, architecture=machine.audit_arch
    )


DENIED = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "keyctl",
    "add_key",
    "request_key",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "mount",
    "umount2",
    "pivot_root",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "open_tree",
    "move_mount",
    "mount_setattr",
    "setns",
    "unshare",
    "bpf",
    "userfaultfd",
    "perf_event_open",
    "kcmp",
    "pidfd_getfd",
    "open_by_handle_at",
    "chroot",
    "reboot",
    "kexec_load",
    "init_module",
    "finit_module",
]


@pytest.mark.parametrize("what", [INSIDE, AMONG_OTHERS], ids=["alone", "among others"])
def test_dangerous_calls_are_refused(what: SyscallFilter, processor: str) -> None:
    assert {name: ask(what, processor, name) for name in DENIED} == dict.fromkeys(
        DENIED, errno.EPERM
    )


def test_usual_calls_are_allowed(processor: str) -> None:
    machine = MACHINES[processor]
    listed = {numbers[machine.column] for numbers in seccomp._NUMBERS.values()}
    for number in set(range(450)) - listed:
        for what in (INSIDE, AMONG_OTHERS):
            code = build_program(what, processor)
            assert decide(code, number, architecture=machine.audit_arch) == ALLOWED


def test_foreign_instruction_sets_are_killed(processor: str) -> None:
    code = build_program(INSIDE, processor)
    others = {machine.audit_arch for machine in MACHINES.values()} | {0x40000003, 0x40000028}
    for other in others - {MACHINES[processor].audit_arch}:
        assert decide(code, 0, architecture=other) == KILLED
    own = MACHINES[processor].audit_arch
    assert decide(code, 0x40000000 + 1, architecture=own) == KILLED


@pytest.mark.parametrize(
    "flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_new_processes_get_no_new_namespaces(processor: str, flag: int) -> None:
    assert ask(INSIDE, processor, "clone", flag | 17) == errno.EPERM
    assert ask(INSIDE, processor, "clone", 0x3D0F00) == ALLOWED
    assert ask(INSIDE, processor, "clone3", 0, 88) == errno.ENOSYS


def test_terminal_is_not_typed_into(processor: str) -> None:
    for command in (0x5412, 0x541C, 0xDEADBEEF00005412):
        assert ask(INSIDE, processor, "ioctl", 0, command) == errno.EPERM
    assert ask(INSIDE, processor, "ioctl", 0, 0x5401) == ALLOWED


def test_socket_families_are_those_that_were_given(processor: str) -> None:
    opened = {
        family for family in range(64) if ask(INSIDE, processor, "socket", family, 1, 0) == ALLOWED
    }
    assert opened == {1, 2, 10, 16}
    assert ask(INSIDE, processor, "socket", 16, 3, 15) == errno.EAFNOSUPPORT
    assert ask(AMONG_OTHERS, processor, "socket", 1, 1, 0) == errno.EAFNOSUPPORT
    assert ask(AMONG_OTHERS, processor, "socketpair", 1, 1, 0) == ALLOWED
    assert ask(AMONG_OTHERS, processor, "socketpair", 2, 1, 0) == errno.EAFNOSUPPORT
    for datagrams in (2, 3, 2 | 0o2000000):
        asked = ask(AMONG_OTHERS, processor, "socketpair", 1, datagrams, 0)
        assert asked == errno.EAFNOSUPPORT
    assert ask(AMONG_OTHERS, processor, "socketpair", 1, 5 | 0o2000000, 0) == ALLOWED


def test_only_the_caller_itself_is_changed_among_others(processor: str) -> None:
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setattr"):
        assert ask(AMONG_OTHERS, processor, name, 0) == ALLOWED
        assert ask(AMONG_OTHERS, processor, name, 4242) == errno.EPERM
        assert ask(INSIDE, processor, name, 4242) == ALLOWED
    assert ask(AMONG_OTHERS, processor, "setpriority", 0, 0) == ALLOWED
    assert ask(AMONG_OTHERS, processor, "setpriority", 0, 4242) == errno.EPERM
    assert ask(AMONG_OTHERS, processor, "setpriority", 2, 0) == errno.EPERM
    assert ask(AMONG_OTHERS, processor, "ioprio_set", 1, 4242) == errno.EPERM


def test_shared_memory_is_refused_among_others(processor: str) -> None:
    for name in ("shmget", "shmat", "semop", "msgrcv", "mq_open"):
        assert ask(AMONG_OTHERS, processor, name) == errno.EPERM
        assert ask(INSIDE, processor, name) == ALLOWED


HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}
_DEFINITION = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)")


def test_numbers_are_those_of_the_kernel(processor: str) -> None:
    header = next((path for path in map(Path, HEADERS[processor]) if path.exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed")
    known = {name: int(number) for name, number in _DEFINITION.findall(header.read_text())}
    ours = {name: numbers[MACHINES[processor].column] for name, numbers in seccomp._NUMBERS.items()}
    ours |= {
        name: numbers[MACHINES[processor].column]
        for name, (numbers, _) in seccomp._ON_A_THREAD.items()
    }
    wrong = {name: number for name, number in ours.items() if known.get(name, number) != number}
    assert wrong == {}


def test_filter_fits_into_the_kernel(processor: str) -> None:
    for what in (INSIDE, AMONG_OTHERS):
        code = build_program(what, processor)
        assert len(code) % 8 == 0 and len(code) // 8 < 4096
