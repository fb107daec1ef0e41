import asyncio
import os
from pathlib import Path

from agentcli.system.output import REPORT_EVERY_S, BoundedOutput, LiveOutput
from tests.support.processes import until

CLOCK_S = 0.001
"""The event loop calls a timer as soon as its clock cannot tell the difference."""


def kept(tmp_path: Path) -> BoundedOutput:
    path = tmp_path / "1.log"
    return BoundedOutput(path, os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def test_latest_lines_are_told_and_bursts_are_told_once(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        live = LiveOutput(kept(tmp_path), report=lambda text: told.append((clock(), text)), lines=2)
        live.feed(b"1\n2\n3\n")
        await until(lambda: told)
        for line in (b"4\n", b"5\n", b"6"):
            live.feed(line)
        await until(lambda: len(told) == 2)
        live.close()

    asyncio.run(scenario())
    assert [text for _, text in told] == ["2\n3", "5\n6"]
    assert told[1][0] - told[0][0] >= REPORT_EVERY_S - CLOCK_S


def test_nothing_is_told_after_the_end_but_all_is_kept(tmp_path: Path) -> None:
    told: list[str] = []

    async def scenario() -> None:
        live = LiveOutput(kept(tmp_path), report=told.append, lines=2)
        live.feed(b"1\n")
        live.stop_progress()
        live.feed(b"2\n")
        await asyncio.sleep(2 * REPORT_EVERY_S)
        live.close()

    asyncio.run(scenario())
    assert told == []
    assert (tmp_path / "1.log").read_bytes() == b"1\n2\n"
