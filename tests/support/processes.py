"""Which processes are there, asked of the machine and not of the code under test."""

import asyncio
import secrets
import subprocess
import time
from collections.abc import Callable

LIMIT_S = 20.0


def unique_seconds() -> str:
    """A time to sleep for that no other process sleeps for: its command line can be told."""
    return f"60.{secrets.randbelow(10**9):09}"


def running(text: str) -> list[int]:
    """Processes with this text in their command line; a zombie has none."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, check=True
    )
    rows = (line.split(None, 2) for line in listed.stdout.decode("utf-8", "replace").splitlines())
    return [
        int(pid)
        for pid, state, *args in rows
        if text in "".join(args) and not state.startswith("Z") and "ps -A" not in "".join(args)
    ]


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)
