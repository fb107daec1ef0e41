"""The live session: start to first paint and to a prompt that takes keys, long use, and idling."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.bench.model import Model
from tests.bench.terminal import cpu_s, opened, resident_mb
from tests.support import anthropic_streams as anthropic
from tests.support.terminal import PyteTerm, until

STARTS = 11
LETTER = "x"
GREETING = b"agentcli "
"""The first words of the program; before them it only asks the terminal for its colours."""
TURNS = 300
IDLE_S = 10.0
ANSWER = (
    "An answer with `code`, a list\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThe end of {}.\n"
)


def figures() -> Iterator[Figure]:
    with Model(lambda step: anthropic.says(ANSWER.format(step)).body) as model:
        with TemporaryDirectory() as home:
            yield from _starts(Path(home), model)
        with TemporaryDirectory() as home, opened(PyteTerm, Path(home), model.environment) as term:
            term.ready()
            yield from _long_use(term, Path(home))
            yield from _idle(term)


def _starts(home: Path, model: Model) -> Iterator[Figure]:
    """Until anything is drawn, and until a typed letter stands behind the prompt."""
    painted_ms, usable_ms = [], []
    for run in range(STARTS + 1):
        began = time.perf_counter()
        with opened(PyteTerm, home, model.environment, rows=24) as term:
            term.type(LETTER)
            painted = _when(lambda: GREETING in term.raw()) - began
            usable = _when(lambda: term.shows(f"> {LETTER}")) - began
        if run:  # the first one warms
            painted_ms.append(painted * 1000)
            usable_ms.append(usable * 1000)
    yield Figure(what="start to first paint", value=statistics.median(painted_ms))
    yield Figure(what="start to usable prompt", value=statistics.median(usable_ms), at_most=150)


def _when(condition: Callable[[], object]) -> float:
    deadline = time.perf_counter() + 10
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError("the session does not start")
        time.sleep(0.002)
    return time.perf_counter()


def _long_use(term: PyteTerm, home: Path) -> Iterator[Figure]:
    took_ms: list[float] = []
    sizes_mb: list[float] = []
    for number in range(TURNS):
        began = time.perf_counter()
        term.send(f"turn {number}")
        until(partial(term.shows, f"The end of {number}."), "the answer", within_s=30)
        until(lambda: not term.shows("esc to interrupt"), "the turn has ended", within_s=30)
        took_ms.append((time.perf_counter() - began) * 1000)
        sizes_mb.append(resident_mb(term.pid))
    tenth = TURNS // 10
    yield Figure(
        what=f"a turn after {TURNS}",
        value=statistics.median(took_ms[-tenth:]),
        floor=statistics.median(took_ms[:tenth]),
        floor_is="at first",
        at_most=1.5,
    )
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    yield Figure(
        what=f"memory that {TURNS} turns add",
        value=sizes_mb[-1] - sizes_mb[tenth],
        unit="MB",
        floor=log.stat().st_size / 1e6,
        floor_is="their log",
        at_most=4,
    )


def _idle(term: PyteTerm) -> Iterator[Figure]:
    written, spent_s = len(term.raw()), cpu_s(term.pid)
    time.sleep(IDLE_S)
    yield Figure(
        what=f"idle {IDLE_S:.0f} s, written",
        value=len(term.raw()) - written,
        unit="bytes",
        at_most=0,
    )
    yield Figure(
        what=f"idle {IDLE_S:.0f} s, CPU",
        value=(cpu_s(term.pid) - spent_s) * 1000,
        at_most=10,
    )
