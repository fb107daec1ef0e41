"""A program run to its end, with what it took: time, processor time, memory."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

LIMIT_S = 120.0
"""Whoever waits for a server that is not there must not hold up the others."""
INTERPRETER = (sys.executable, "-S")
"""Bare: without what the packages of an environment have it import at every start."""

STARTER = """
import json, os, sys
report, program, *rest = sys.argv[1:]
process = os.posix_spawn(program, [program, *rest], os.environ)
_, status, used = os.wait4(process, 0)
with open(report, "w") as file:
    json.dump([used.ru_utime + used.ru_stime, used.ru_maxrss], file)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Small: the memory of whoever starts a program counts as the program's own until it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    began: float
    """Of `time.perf_counter`."""
    ended: float
    cpu_s: float
    """With that of the processes it started."""
    peak_mb: float

    @property
    def wall_ms(self) -> float:
        return (self.ended - self.began) * 1000


def timed(argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path) -> Spent:
    """Without what the use of processor and memory would cost to learn."""
    began = time.perf_counter()
    subprocess.run(
        argv,
        env=env,
        cwd=cwd,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
    )
    return Spent(began=began, ended=time.perf_counter(), cpu_s=0.0, peak_mb=0.0)


def weighed(argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path) -> Spent:
    with TemporaryDirectory() as scratch:
        report = Path(scratch, "report")
        starter: list[str | Path] = [*INTERPRETER, "-E", "-c", STARTER, report]
        spent = timed([*starter, *argv], env=env, cwd=cwd)
        cpu_s, peak_kb = json.loads(report.read_text())
    return Spent(began=spent.began, ended=spent.ended, cpu_s=cpu_s, peak_mb=peak_kb / 1000)
