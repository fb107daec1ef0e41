"""The live session in a terminal, and what its process has used so far."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.terminal import PyteTerm


@contextmanager
def opened(home: Path, environment: Mapping[str, str], *, rows: int = 40) -> Iterator[PyteTerm]:
    project = home / "project"
    project.mkdir(exist_ok=True)
    term = PyteTerm(
        ["--model", "opus"], home=home, cwd=project, env=dict(environment), cols=100, rows=rows
    )
    try:
        yield term
    finally:
        term.close()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0
