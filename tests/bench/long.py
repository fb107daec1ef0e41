"""A session of 1,000 turns: the processor time and the memory of the program itself.

Times of single turns say more about what else the machine does.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import of_anthropic
from tests.bench.figures import Figure
from tests.bench.model import Model
from tests.bench.terminal import cpu_s, resident_mb
from tests.bench.turns import CLAUDE, NO_SANDBOX, runs_a_command
from tests.support.program import PROGRAM, environment, session_log

TURNS = 1000
PART = 100
THOUGHT_S = 1.0
"""The model thinks before its first reply. What is loaded meanwhile, once, is not growth."""

Moment = tuple[float, float, float]
"""Processor time in milliseconds, memory and log in MB."""


def figures() -> Iterator[Figure]:
    moments = _measure()
    first, second, before_last, last = moments[0], moments[1], moments[-2], moments[-1]
    yield Figure(
        what=f"CPU of a turn with bash, turns {TURNS - PART} to {TURNS}",
        value=(last[0] - before_last[0]) / PART,
        floor=(second[0] - first[0]) / PART,
        floor_is=f"turns {PART} to {2 * PART}",
        at_most=1.2,
    )
    yield Figure(
        what=f"memory that {TURNS - PART} turns add",
        value=last[1] - first[1],
        unit="MB",
        floor=last[2] - first[2],
        floor_is="their log",
        at_most=2,
    )


def _measure() -> list[Moment]:
    """Return a moment after every hundred turns."""
    moments: list[Moment] = []

    with TemporaryDirectory() as scratch:
        home, project = Path(scratch), Path(scratch, "project")
        project.mkdir()

        def reply(step: int) -> bytes:
            if step == 0:
                time.sleep(THOUGHT_S)
            if step and step % PART == 0:
                log_mb = session_log(home).stat().st_size / 1e6
                moments.append((cpu_s(process.pid) * 1000, resident_mb(process.pid), log_mb))
            return of_anthropic(step, runs_a_command(step) if step < TURNS else None)

        with Model(reply) as model:
            limits = ("--mode", "auto", "--max-turns", str(TURNS + 5), "-q", *NO_SANDBOX)
            process = subprocess.Popen(
                [PROGRAM, "run", "--model", CLAUDE, *limits, "Go on."],
                env=environment(home, **model.environment),
                cwd=project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            process.wait()
    return moments
