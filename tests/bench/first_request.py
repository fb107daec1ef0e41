"""From the start of a process to its first request on the wire, and to its end.

The floor is a process that does no more than to send such a request and to read the answer.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import DIALECTS, Stream, of_anthropic
from tests.bench.figures import Figure
from tests.bench.model import Model
from tests.bench.process import INTERPRETER, timed, weighed
from tests.support.program import PROGRAM, environment

RUNS = 15
BARE = "bare http.client"
BARE_CLIENT = """
import http.client, json, os
connection = http.client.HTTPConnection(os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://"))
body = json.dumps({"model": "m", "max_tokens": 1, "messages": []})
connection.request("POST", "/v1/messages", body, {"content-type": "application/json"})
connection.getresponse().read()
"""


def figures() -> Iterator[Figure]:
    firsts_ms: dict[str, list[float]] = defaultdict(list)
    totals_ms: dict[str, list[float]] = defaultdict(list)
    for run in range(RUNS + 1):
        for name, stream in ({BARE: of_anthropic} | DIALECTS).items():
            first_ms, total_ms = _measured(name, stream)
            if run:  # the first one warms
                firsts_ms[name].append(first_ms)
                totals_ms[name].append(total_ms)
    floor_ms = statistics.median(firsts_ms[BARE])
    for name in DIALECTS:
        first_ms = statistics.median(firsts_ms[name])
        yield Figure(
            what=f"first request, {name}",
            value=first_ms,
            floor=floor_ms,
            floor_is=BARE,
            at_most=4,
        )
        yield Figure(
            what=f"one-shot total, {name}",
            value=statistics.median(totals_ms[name]),
            floor=first_ms,
            floor_is="its first request",
            at_most=1.3,
        )
    yield Figure(what="first request, body", value=_body_kb(), unit="kB", at_most=6.0)
    yield Figure(what="one-shot, peak memory", value=_peak_mb(), unit="MB", at_most=60)


def _argv(name: str) -> list[str | Path]:
    if name == BARE:
        return [*INTERPRETER, "-c", BARE_CLIENT]
    return [PROGRAM, "run", "--model", name, "hi"]


def _measured(name: str, stream: Stream) -> tuple[float, float]:
    """Milliseconds to the first request, and to the end of the process."""
    with TemporaryDirectory() as home, Model(lambda step: stream(step, None)) as model:
        env = environment(Path(home), **model.environment)
        spent = timed(_argv(name), env=env, cwd=Path(home))
        return (model.complete[0] - spent.began) * 1000, spent.wall_ms


def _body_kb() -> float:
    with TemporaryDirectory() as home, Model(lambda step: of_anthropic(step, None)) as model:
        env = environment(Path(home), **model.environment)
        timed(_argv(next(iter(DIALECTS))), env=env, cwd=Path(home))
        return model.sizes_bytes[0] / 1000


def _peak_mb() -> float:
    name, stream = next(iter(DIALECTS.items()))
    with TemporaryDirectory() as home, Model(lambda step: stream(step, None)) as model:
        env = environment(Path(home), **model.environment)
        return weighed(_argv(name), env=env, cwd=Path(home)).peak_mb
