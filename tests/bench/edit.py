"""How long an edit of a 5 MB file takes, to bytes on disk."""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.support.files import Bench, bench

SIZE_BYTES = 5_000_000
RUNS = 15
LIMIT_MS = 100

LINE = "        self.total_{n} = compute(left_{n}, right_{n}, scale={n})  # line {n}\n"


def figures() -> Iterator[Figure]:
    text = "".join(LINE.format(n=n) for n in range(SIZE_BYTES // len(LINE.format(n=10_000))))
    place = LINE.format(n=40_000) + LINE.format(n=40_001)
    cases: dict[str, Callable[[Bench, int], object]] = {
        "exact": lambda tools, run: tools.edit("f.py", f"# line {40_000 + run}\n", f"# {run}\n"),
        "exact, CRLF": lambda tools, run: tools.edit(
            "crlf.py", f"# line {40_000 + run}\n", f"# {run}\n"
        ),
        "indentation": lambda tools, run: tools.edit(
            "f.py",
            place.replace("        ", ""),
            place.replace("        ", "").replace("left_40000", f"run_{run}"),
        ),
        "replace_all": lambda tools, run: tools.edit(
            "f.py", f"scale={run}", f"size={run}", replace_all=True
        ),
    }
    for name, case in cases.items():
        times_ms = [_timed(case, text, run) for run in range(RUNS)]
        yield Figure(
            what=f"edit of 5 MB, {name}", value=statistics.median(times_ms), at_most=LIMIT_MS
        )


def _timed(case: Callable[[Bench, int], object], text: str, run: int) -> float:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "f.py").write_text(text)
        (root / "crlf.py").write_bytes(text.replace("\n", "\r\n").encode())
        tools = bench(root)
        start = time.perf_counter()
        case(tools, run)
        return (time.perf_counter() - start) * 1000
