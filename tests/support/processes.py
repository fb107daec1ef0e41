"""Which processes are there, asked of the machine and not of the code under test."""

import asyncio
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

LIMIT_S = 60.0


def unique_seconds() -> str:
    """A time to sleep for that no other process sleeps for: its command line can be told."""
    return f"60.{secrets.randbelow(10**9):09}"


def running(text: str) -> list[int]:
    """Processes with this text in their command line; a zombie has none."""
    return [pid for pid, words in _list_commands() if text in words]


def _list_commands() -> Iterator[tuple[int, str]]:
    if not Path("/proc/self/cmdline").exists():
        listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True)
        for line in listed.stdout.decode("utf-8", "replace").splitlines():
            pid, _, words = line.strip().partition(" ")
            yield int(pid), words
        return
    # Tests look a hundred times a second: Path takes twice as long.
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as command:  # noqa: PTH123
            yield int(name), command.read().replace(b"\0", b" ").decode("utf-8", "replace")


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)
