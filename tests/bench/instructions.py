"""Instructions of the program by callgrind, which no other work on the machine changes.

Children are not counted. Without valgrind there are no figures. It does not know the system calls
of Landlock.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import Call, of_anthropic
from tests.bench.figures import Figure
from tests.bench.first_call import CALLS, LAYERS
from tests.bench.first_request import BARE, BARE_CLIENT
from tests.bench.model import Model
from tests.bench.process import INTERPRETER
from tests.support.program import PROGRAM, environment

COUNTED = re.compile(r"Collected : (\d+)")
RUN = (sys.executable, PROGRAM, "run", "--model", "opus", "--mode", "auto", "-q")


def figures() -> Iterator[Figure]:
    if shutil.which("valgrind") is None:
        return
    bare = _count((*INTERPRETER, "-c", "pass"))
    for option in ("--version", "--help"):
        yield Figure(
            what=f"agentcli {option}",
            value=_count((sys.executable, PROGRAM, option)),
            unit="M",
            floor=bare,
            floor_is="bare interpreter",
        )
    plain = _count((*RUN, "hi"))
    yield Figure(
        what="a run with a plain answer",
        value=plain,
        unit="M",
        floor=_count((*INTERPRETER, "-c", BARE_CLIENT)),
        floor_is=BARE,
    )
    for layer, options in LAYERS.items():
        if layer == "Landlock":
            continue
        for name, call in CALLS.items():
            yield Figure(
                what=f"a run with a first {name}, {layer}",
                value=_count((*RUN, *options, "hi"), call),
                unit="M",
                floor=plain,
                floor_is="a plain answer",
            )


def _count(argv: Sequence[str | Path], call: Call | None = None) -> float:
    """Return millions of instructions of one run, whose model makes a call if one is given."""
    with (
        TemporaryDirectory() as scratch,
        Model(lambda step: of_anthropic(step, None if step else call)) as model,
    ):
        project, report = Path(scratch, "project"), Path(scratch, "report")
        project.mkdir()
        (project / "a.py").write_text("a = 1\n")
        valgrind = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
        subprocess.run(
            [*valgrind, f"--log-file={report}", *argv],
            env=environment(Path(scratch), **model.environment, PYTHONHASHSEED="0"),
            cwd=project,
            check=True,
            capture_output=True,
        )
        return sum(map(int, COUNTED.findall(report.read_text()))) / 1e6
