"""A session of 1,000 turns: how long one takes, from the reply to the end of the next request, and
the processor time and the memory of the program itself.
"""

import statistics
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
WARM = 5
THOUGHT_S = 1.0
"""The model thinks before its first reply. What is loaded meanwhile, once, is not growth."""

Moment = tuple[float, float, float]
"""Processor time in milliseconds, memory and log in MB."""


def figures() -> Iterator[Figure]:
    moments, turns_ms = _measure()
    first, second, before_last, last = moments[0], moments[1], moments[-2], moments[-1]
    yield Figure(
        what=f"a turn with bash, of turns {TURNS - PART} to {TURNS}",
        value=statistics.median(turns_ms[-PART:]),
        floor=statistics.median(turns_ms[WARM : WARM + PART]),
        floor_is=f"turns {WARM} to {WARM + PART}",
        at_most=1.2,
    )
    # Half of what is more is the kernel's, for sending a megabyte, and differs from run to run.
    yield Figure(
        what=f"CPU of a turn with bash, turns {TURNS - PART} to {TURNS}",
        value=(last[0] - before_last[0]) / PART,
        floor=(second[0] - first[0]) / PART,
        floor_is=f"turns {PART} to {2 * PART}",
    )
    yield Figure(
        what=f"memory that {TURNS - PART} turns add",
        value=last[1] - first[1],
        unit="MB",
        floor=last[2] - first[2],
        floor_is="their log",
        at_most=2,
    )


def _measure() -> tuple[list[Moment], list[float]]:
    """Return a moment after every hundred turns, and the milliseconds of each turn."""
    moments: list[Moment] = []

    with TemporaryDirectory() as scratch:
        home, project = Path(scratch), Path(scratch, "project")
        project.mkdir()

        def reply(step: int) -> bytes:
            if step == 0:
                time.sleep(THOUGHT_S)
            if 0 < step <= TURNS and step % PART == 0:
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
    gaps = zip(model.answered, model.complete[1:], strict=False)
    return moments, [(complete - answered) * 1000 for answered, complete in gaps]
