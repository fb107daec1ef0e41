"""The live session in a terminal, and what its process has used so far."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.support.terminal import PyteTerm

Kind = TypeVar("Kind", bound=PyteTerm)


class QuickTerm(PyteTerm):
    """Takes what is written at once, and draws it only when its screen is looked at.

    Drawing takes longer than all that the program does, which would wait for it.
    """

    _drawn_bytes = 0

    def wrote(self, text: str) -> bool:
        """Without a look at the screen."""
        with self._lock:
            return self._raw.rfind(text.encode()) >= 0

    def screen(self) -> list[str]:
        with self._lock:
            data = bytes(self._raw[self._drawn_bytes :])
            self._drawn_bytes = len(self._raw)
            self._stream.feed(re.sub(rb"\x1b\[[>=<][0-9;]*[a-zA-Z]", b"", data))
            self._rows = None
            return super().screen()

    def _read(self, handle: int) -> None:
        while data := _taken(handle):
            with self._lock:
                self._raw += data
                self._written.notify_all()


def _taken(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # closed
        return b""


@contextmanager
def opened(
    kind: type[Kind], home: Path, environment: Mapping[str, str], *, rows: int = 40
) -> Iterator[Kind]:
    project = home / "project"
    project.mkdir(exist_ok=True)
    term = kind(
        ["--model", "opus"],
        home=home,
        cwd=project,
        env=dict(environment),
        cols=100,
        rows=rows,
        is_warm=False,
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
