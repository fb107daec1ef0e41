"""The machine's processes as the kernel lists them, and the end of one with its descendants."""

import os
import signal
import time
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_ROUNDS = 200
_EMPTY_LOOKS = 3
_LOOK_AGAIN_S = 0.01


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    session: int
    memory_bytes: int
    """Resident memory of its own: memory mapped from files is not counted."""


def list_processes(*, but: Set[int] = frozenset()) -> dict[int, Process]:
    """Return all running processes except those in `but`. The dead, even unreaped, are left out."""
    found = {}
    with os.scandir(_PROC) as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        if pid not in but:
            with suppress(OSError):  # it has ended meanwhile
                process = _read(_PROC / str(pid))
                if process:
                    found[pid] = process
    return found


def _read(directory: Path) -> Process | None:
    stat = directory.joinpath("stat").read_text(encoding="utf-8", errors="replace")
    # The name, in parentheses, may hold anything; the fields after it are plain words.
    state, parent, _, session = stat.rpartition(")")[2].split()[:4]
    if state in "ZX":
        return None
    _, resident, shared = directory.joinpath("statm").read_text(encoding="ascii").split()[:3]
    return Process(int(parent), int(session), (int(resident) - int(shared)) * _PAGE_BYTES)


def find_tree(pid: int, table: dict[int, Process]) -> set[int]:
    """Return a process, its descendants, and the rest of the session it leads."""
    return _descendants({pid}, table)


def kill_tree(pid: int) -> None:
    """Kill a tree. Stop all before killing one: without its parent, a child cannot be found."""
    stopped: set[int] = set()
    empty_looks = 0
    for _ in range(_ROUNDS):
        # Only new processes are read, so that this is faster than they can be created.
        running = _descendants(stopped | {pid}, list_processes(but=stopped))
        _signal(running, signal.SIGSTOP)
        stopped |= running
        empty_looks = 0 if running else empty_looks + 1
        if empty_looks == _EMPTY_LOOKS:
            break
        if not running:
            time.sleep(_LOOK_AGAIN_S)  # one may have been in the middle of a fork
    _signal(stopped, signal.SIGKILL)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants(first: set[int], table: dict[int, Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for child, process in table.items():
        for elder in {process.parent, process.session}:
            children.setdefault(elder, []).append(child)
    found: set[int] = set()
    waiting = list(first)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += children.get(one, ())
    return found & table.keys()
