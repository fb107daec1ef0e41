"""Reads that a model asks for together: large files, and sources that are slow to answer."""

import statistics
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.figures import Figure, wall_ms
from tests.bench.first_call import LAYERS
from tests.bench.model import Model
from tests.bench.process import timed
from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment

TOGETHER = 5
FILE_BYTES = 1_000_000
SLOW_S = 0.5
RUNS = 5


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as scratch:
        home, project = Path(scratch), Path(scratch, "project")
        project.mkdir()
        for number in range(TOGETHER):
            line = f"value_{number} = compute({number})  # an ordinary line of code\n"
            (project / f"{number}.py").write_text(line * (FILE_BYTES // len(line)))
        reads = [("read_file", {"path": f"{n}.py"}) for n in range(TOGETHER)]
        yield Figure(
            what=f"a turn of {TOGETHER} reads of 1 MB", value=_turn_ms(home, reads), at_most=60
        )
        sleeps = [("bash", {"command": f"sleep {SLOW_S}"}) for _ in range(TOGETHER)]
        for layer, options in LAYERS.items():
            yield Figure(
                what=f"the first turn, of {TOGETHER} sleep {SLOW_S}, {layer}",
                value=_turn_ms(home, sleeps, options, step=0),
                floor=statistics.median(wall_ms(_sleep_bare) for _ in range(RUNS)),
                floor_is="bare subprocesses",
                at_most=560 / (SLOW_S * 1000),
            )
        waits = [("bash", {"command": f"sleep {SLOW_S}; echo {n}"}) for n in range(TOGETHER)]
        yield Figure(
            what=f"a turn of {TOGETHER} slow reads",
            value=_turn_ms(home, waits),
            floor=_turn_ms(home, waits[:1]),
            floor_is="one of them",
            at_most=1.5,
        )


def _sleep_bare() -> None:
    started = [subprocess.Popen(["bash", "-c", f"sleep {SLOW_S}"]) for _ in range(TOGETHER)]
    for process in started:
        process.wait()


def _turn_ms(
    home: Path,
    calls: Sequence[tuple[str, dict[str, Any]]],
    options: Sequence[str] = (),
    *,
    step: int = 1,
) -> float:
    """From the reply with the calls to the request with their results.

    At step 1 all tools are loaded."""
    taken = []
    for _ in range(RUNS):
        with Model(lambda step: _reply(step, calls)) as model:
            env = environment(home, **model.environment)
            words = ("run", "--model", "opus", "--mode", "auto", "-q", *options, "Read.")
            timed([PROGRAM, *words], env=env, cwd=home / "project")
        taken.append((model.complete[step + 1] - model.answered[step]) * 1000)
    return statistics.median(taken)


def _reply(step: int, calls: Sequence[tuple[str, dict[str, Any]]]) -> bytes:
    if step == 2:
        return anthropic.says("Done.").body
    # The first time tools are imported; the second counts.
    made = [anthropic.call(f"toolu_{step}_{n}", *call) for n, call in enumerate(calls)]
    return anthropic.calls(*made).body
