"""The first call of a session, which loads and builds all that calls need.

The model answers at once, or thinks for a second first: then all is prepared meanwhile. The floor
is the same command by a bare `subprocess`, beside each session.
"""

import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import Call, of_anthropic
from tests.bench.figures import Figure, wall_ms
from tests.bench.model import Model
from tests.bench.process import timed
from tests.support.program import PROGRAM, environment

RUNS = 9
THOUGHT_S = 1.0
COMMAND = "echo hi"
CALLS: dict[str, Call] = {
    "bash": ("bash", {"command": COMMAND}),
    "read_file": ("read_file", {"path": "a.py"}),
    "edit_file": ("edit_file", {"path": "a.py", "old_text": "a = 1", "new_text": "a = 2"}),
}
LAYERS: dict[str, tuple[str, ...]] = {
    "no sandbox": ("--sandbox", "off"),
    "Landlock": ("--sandbox", "landlock"),
    "sandbox": (),
}
"""The last is the strongest that works: bubblewrap, where it is installed."""
AT_ONCE_MS = 60


def figures() -> Iterator[Figure]:
    taken: dict[str, list[float]] = defaultdict(list)
    for run in range(RUNS + 1):
        for what, gap_ms in _measure_once():
            if run:  # the first one warms
                taken[what].append(gap_ms)
    floor_ms = statistics.median(taken.pop("bare"))
    yield Figure(what=f"{COMMAND}, bare subprocess", value=floor_ms)
    for what, values in taken.items():
        yield Figure(
            what=f"{what}, over bare subprocess",
            value=statistics.median(values) - floor_ms,
            at_most=AT_ONCE_MS,
        )


def _measure_once() -> Iterator[tuple[str, float]]:
    yield "bare", wall_ms(_run_bare)
    for layer, options in LAYERS.items():
        for name, call in CALLS.items():
            yield f"first {name}, {layer}", measure_gap_ms(call, options)
        yield (
            f"first bash after a thought, {layer}",
            measure_gap_ms(CALLS["bash"], options, thought_s=THOUGHT_S),
        )


def measure_gap_ms(call: Call, options: Sequence[str] = (), *, thought_s: float = 0) -> float:
    """From the reply with the call to the request with its result."""

    def reply(step: int) -> bytes:
        if step == 0:
            time.sleep(thought_s)
        return of_anthropic(step, None if step else call)

    with TemporaryDirectory() as scratch, Model(reply) as model:
        home, project = Path(scratch), Path(scratch, "project")
        project.mkdir()
        (project / "a.py").write_text("a = 1\n")
        timed(
            [PROGRAM, "run", "--model", "opus", "--mode", "auto", "-q", *options, "Go on."],
            env=environment(home, **model.environment),
            cwd=project,
        )
    return (model.complete[1] - model.answered[0]) * 1000


def _run_bare() -> None:
    subprocess.run(
        ["bash", "-c", COMMAND], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )
