"""Where the main thread is during a first call, from the reply to the request with the result.

A thread beside it notes the stack every millisecond. That slows down the program, so shares count,
not times. Each sample counts for the innermost step of the table that it is in, by the time since
the one before it.
"""

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import Call, of_anthropic
from tests.bench.figures import Figure
from tests.bench.first_call import CALLS
from tests.bench.model import Model
from tests.bench.process import LIMIT_S
from tests.support.program import PROGRAM, environment

RUNS = 7
SAMPLER = """
import atexit, json, sys, threading, time
from pathlib import Path

def sample(thread_id, found):
    while True:
        frame, stack = sys._current_frames()[thread_id], []
        now = time.perf_counter()
        while frame is not None:
            stack.append((frame.f_code.co_filename, frame.f_code.co_name))
            frame = frame.f_back
        found.append((now, stack[::-1]))
        time.sleep(0.001)

found, report = [], Path(sys.argv.pop(1))
atexit.register(lambda: report.write_text(json.dumps(found)))
sys.setswitchinterval(0.0005)
threading.Thread(target=sample, args=(threading.get_ident(), found), daemon=True).start()
from agentcli.__main__ import main
sys.exit(main())
"""
STEPS = {
    "survey_paths": "the paths of the sandbox are found",
    "make_private_network": "its other parts are made or awaited",
    "BubblewrapSandbox": "its other parts are made or awaited",
    "namespaces_of": "the view is mounted",
    "prove": "the first shell proves the sandbox",
    "_choose_sandbox": "its other parts are made or awaited",
    "_build_shells": "the proxy and the pool of shells are made",
    "prepare_first": "the proxy and the pool of shells are made",
    "_find_and_load": "modules are loaded",
    "prepare": "the call is parsed",
    "_guard": "the call is judged",
    "capture_before": "the state before is stored",
    "_start": "the shell is taken",
    "_execute": "the tool runs",
    "select": "a thread or a process is awaited",
}
"""Functions, and what is done there."""


def figures() -> Iterator[Figure]:
    for name in ("bash", "edit_file"):
        spent_s: dict[str, float] = defaultdict(float)
        for _ in range(RUNS):
            for step, span_s in _sample(CALLS[name]):
                spent_s[step] += span_s
        for step, total_s in sorted(spent_s.items(), key=lambda item: -item[1]):
            share = 100 * total_s / sum(spent_s.values())
            yield Figure(what=f"first {name}, {step}", value=share, unit="%")


def _sample(call: Call) -> Iterator[tuple[str, float]]:
    """Yield the step of each sample of one run, and the time that it counts for."""
    with (
        TemporaryDirectory() as scratch,
        Model(lambda step: of_anthropic(step, None if step else call)) as model,
    ):
        home, project, report = Path(scratch), Path(scratch, "project"), Path(scratch, "samples")
        project.mkdir()
        (project / "a.py").write_text("a = 1\n")
        python = PROGRAM.with_name("python")
        options = ("run", "--model", "opus", "--mode", "auto", "-q", "Go on.")
        subprocess.run(
            [python, "-c", SAMPLER, report, *options],
            env=environment(home, **model.environment),
            cwd=project,
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
        last, ended = model.answered[0], model.complete[1]
        for moment, stack in json.loads(report.read_text()):
            if last <= moment <= ended:
                yield _name_step(stack), moment - last
                last = moment


def _name_step(stack: Sequence[tuple[str, str]]) -> str:
    names = (name for _, name in reversed(stack))
    return next((STEPS[name] for name in names if name in STEPS), "the rest")
