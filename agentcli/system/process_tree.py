"""The processes of one command: finding them, whatever their parent is now, and ending them all.

A process group holds what a shell starts until something in it calls setsid. After that neither
group nor parent says whose it is. So a command carries a tag, a unique text, in two places that
every descendant inherits: its environment, and the name of a file open as `TAG_FD`. Two, because
each can be lost: `env -i` and programs that rewrite their title drop the first, every Python and
Node parent closes the second.

A tag can also be copied, into a file of variables that the user's own programs load. So the tag of
a confined command says that it is confined. Only processes that the sandbox has barred from new
privileges then count as its own: nothing can undo that, and few other processes have it.

Adopting orphans (PR_SET_CHILD_SUBREAPER) is not used. It would also give us the orphans of every
other process the agent starts, with nothing to say whose they are, and leave us their zombies.
"""

import asyncio
import os
import re
import secrets
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from agentcli.system import own_process
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

TAG_FD = 99
"""Above what scripts use by hand, below every usual limit of open files."""

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

LOOK_EVERY_S = 0.02
SWEEP_LIMIT_S = 2.0
"""Whatever lives longer cannot be killed: it waits for a disk that does not answer."""
LOOK_AGAIN_S = 0.011
"""A pause longer than a process needs to become another. While it does, no look finds it."""
_EMPTY_LOOKS_S = (LOOK_AGAIN_S, 0.023, 0.017, 0.031, 0.013)
"""Pauses after looks that find nothing: never in step with processes that replace others."""

CONFINED_STATUS = "^NoNewPrivs:.1$"
"""The status line that the kernel shows for every process in a sandbox; also a grep pattern."""

_PROC = Path("/proc")
_HAS_PROC = _PROC.joinpath("self/environ").exists()
_CONFINED = "agentcli-confined-"
_IS_CONFINED = compile_later(CONFINED_STATUS, re.MULTILINE)
_REST_OF_TAG = compile_later(r"[0-9.]*")
_CHUNK_BYTES = 65_536
_NEAR_PIDS = 512
_NEAR_S = 1.0


def make_tag(*, confined: bool) -> str:
    """Return a new tag. `confined` says that everything with this tag runs in a sandbox."""
    return f"{_CONFINED if confined else 'agentcli-'}{secrets.token_hex(8)}."


def is_confined(tag: str) -> bool:
    return tag.startswith(_CONFINED)


def find_processes(tag: str) -> dict[int, str]:
    """Return every living process with this tag, or with one that begins with it, and its tag.

    Children of such a process count too, even if they were started without a tag.
    """
    if not _HAS_PROC:
        return _find_with_ps(tag)
    found = _filter_tagged(tag, list_pids())
    stats = {pid: stat for pid in list_pids() if found and (stat := read_stat(pid))}
    count = -1
    while count != len(found):
        count = len(found)
        found |= {pid: found[stat.parent] for pid, stat in stats.items() if stat.parent in found}
    return found


def find_survivors(tag: str, *, shell_pid: int, since_pid: int, ran_s: float) -> list[int]:
    """Return what a shell left behind, without their children; cheap after a short command.

    Process ids are assigned in order. So only the few after `since_pid`, the newest at the start,
    can be its descendants. All processes are looked at only if the numbers may have wrapped around
    or the machine was busy.
    """
    if not _HAS_PROC:
        # Running ps after every command would take longer than most commands do.
        return list(find_processes(tag)) if signal_group(shell_pid, 0) else []
    newest = read_newest_pid()
    if ran_s < _NEAR_S and 0 < since_pid <= newest <= since_pid + _NEAR_PIDS:
        found = _filter_tagged(tag, range(since_pid + 1, newest + 1))
    else:
        found = find_processes(tag)
    stats = ((pid, read_stat(pid)) for pid in found)
    return [pid for pid, stat in stats if stat and stat.parent not in found]


def read_start_time(pid: int) -> str:
    """Return the start time, which tells reused pids apart; empty if the process is gone."""
    if not _HAS_PROC:
        return "".join(_run_ps("-p", str(pid), "-o", "lstart="))
    stat = read_stat(pid)
    return stat.born if stat else ""


def group_lives(group: int) -> bool:
    """Return whether any process of a group runs; zombies that were not reaped do not count."""
    if not signal_group(group, 0):
        return False
    if not _HAS_PROC:
        return True
    return any(stat.group == group for stat in map(read_stat, list_pids()) if stat)


def signal_processes(pids: Iterable[int], number: int) -> None:
    """Signal each process that exists and is ours."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def signal_group(group: int, number: int) -> bool:
    """Signal a process group; return False if it is empty."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def kill_all(tag: str, *, known: Mapping[int, str]) -> list[int]:
    """Kill everything with the tag, and those `known` by their start time that are still alive.

    Return the pids that would not die. One look can miss a process that is just being replaced or
    is starting a program, so several looks in a row, some time apart, must find nothing.
    """
    deadline = time.monotonic() + SWEEP_LIMIT_S
    empty_looks = 0
    found: list[int] = []
    while empty_looks <= len(_EMPTY_LOOKS_S) and time.monotonic() < deadline:
        found = [*find_processes(tag), *_find_living(known)]
        signal_processes(found, KILL)
        await asyncio.sleep((*_EMPTY_LOOKS_S, 0)[0 if found else empty_looks])
        empty_looks = 0 if found else empty_looks + 1
    return found


async def wait_until_gone(known: Mapping[int, str], *, within_s: float) -> list[int]:
    """Wait briefly until none of the processes known by their start time is left.

    Return those that are."""
    deadline = time.monotonic() + within_s
    while living := _find_living(known):
        if time.monotonic() >= deadline:
            return living
        await asyncio.sleep(LOOK_EVERY_S)
    return []


def _find_living(known: Mapping[int, str]) -> list[int]:
    return [pid for pid, birth in known.items() if birth and read_start_time(pid) == birth]


def _filter_tagged(tag: str, pids: Iterable[int]) -> dict[int, str]:
    found = ((pid, _complete_tag(tag, _read_tag_text(pid, tag))) for pid in pids)
    return {pid: whole for pid, whole in found if whole and _may_carry_tag(pid, tag)}


def _may_carry_tag(pid: int, tag: str) -> bool:
    if not is_confined(tag):
        return True
    try:
        status = _read_file(pid, "status").decode("utf-8", "replace")
    except OSError:
        return False
    return _IS_CONFINED.search(status) is not None


def _complete_tag(tag: str, text: str) -> str:
    """Return the first tag in the text that begins with `tag`; empty if there is none."""
    at = text.find(tag)
    rest = _REST_OF_TAG.match(text, at + len(tag)) if at >= 0 else None
    return tag + rest[0] if rest else ""


def _read_tag_text(pid: int, tag: str) -> str:
    """Return the text that would hold a process's tag; empty for a zombie or another user's."""
    with suppress(OSError):
        environment = _read_file(pid, "environ")
        if tag.encode() in environment:
            return environment.decode("utf-8", "replace")
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{TAG_FD}")  # noqa: PTH115 - as in _read_file
    return ""


def _read_file(pid: int, name: str) -> bytes:
    """Return a file of /proc. A look reads hundreds, for which `Path` takes twice as long."""
    handle = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(handle, _CHUNK_BYTES), b""))
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class ProcessStat:
    parent: int
    group: int
    session: int
    born: str


def read_stat(pid: int) -> ProcessStat | None:
    """Return the kernel's data on a process; None if it is dead, reaped or not."""
    try:
        stat = _read_file(pid, "stat").decode("utf-8", "replace")
    except OSError:
        return None
    # The name, in parentheses, may hold anything; the fields after it are plain words.
    state, parent, group, session, *more = stat.rpartition(")")[2].split()
    if state in "ZX":
        return None
    return ProcessStat(int(parent), int(group), int(session), more[15])


def list_pids() -> Iterator[int]:
    """Yield the pids of all processes, including zombies."""
    return (int(name) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208 - as in _read_file


def read_newest_pid() -> int:
    """Return the newest pid of this machine or container; -1 if it is not known."""
    try:
        return int(_PROC.joinpath("loadavg").read_text(encoding="utf-8").split()[-1])
    except (OSError, ValueError, IndexError):
        return -1


def _find_with_ps(tag: str) -> dict[int, str]:
    """Find processes without /proc: `e` makes ps print the environment after each command."""
    lines = (line.split(None, 1) for line in _run_ps("axeww", "-o", "pid=,command="))
    found = ((pid, _complete_tag(tag, "".join(words))) for pid, *words in lines)
    return {int(pid): whole for pid, whole in found if whole}


def _run_ps(*arguments: str) -> list[str]:
    try:
        listed = own_process.run(["ps", *arguments], workspace=None)
    except OSError:
        return []
    return listed.stdout.decode("utf-8", "replace").splitlines()
