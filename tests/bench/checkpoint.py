"""What keeping the state of a workspace around a call costs."""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.log.checkpoint.keep import CheckpointKeeper
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.tools.search.ignore import IgnoreRules
from tests.bench.figures import Figure

FILES = 20_000
RUNS = 25
LIMIT_MS = 30
LINES = 150


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as folder:
        root = Path(folder, "work")
        _fill(root, FILES)
        store = Path(folder, "kept.git")
        first_ms, keeper = _first(root, store)
        yield Figure(what=f"{FILES} files, first call of a workspace", value=first_ms)
        keeper.close()
        again_ms, keeper = _first(root, store)
        yield Figure(what=f"{FILES} files, first call of a later session", value=again_ms)
        for name, change in CASES.items():
            yield _kept(name, keeper, root, change)
        yield _kept("edit_file", keeper, root, _edit, named=[b"p0/d0/f0.py"])
        keeper.close()


def _edit(root: Path, run: int) -> None:
    (root / "p0/d0/f0.py").write_text(f"changed {run}\n")


def _ten_files(root: Path, run: int) -> None:
    for number in range(10):
        (root / f"p{number}/d0/new.py").write_text(f"{run}\n")


def _hundred_files(root: Path, run: int) -> None:
    for number in range(100):
        (root / f"p{number % 10}/d0/many{number}.py").write_text(f"{run}\n")


CASES: dict[str, Callable[[Path, int], None]] = {
    "command, nothing": lambda root, run: None,
    "command, 1 file": _edit,
    "command, 10 files": _ten_files,
    "command, 100 files": _hundred_files,
}


def _kept(
    name: str,
    keeper: CheckpointKeeper,
    root: Path,
    change: Callable[[Path, int], None],
    *,
    named: list[bytes] | None = None,
) -> Figure:
    times_ms = []
    for run in range(RUNS):
        began = time.perf_counter()
        before = keeper.begin_checkpoint("c", named)
        kept = time.perf_counter()
        change(root, run)
        changed = time.perf_counter()
        keeper.finish_checkpoint(before)
        times_ms.append((kept - began + time.perf_counter() - changed) * 1000)
    return Figure(what=f"checkpoint, {name}", value=statistics.median(times_ms), at_most=LIMIT_MS)


def _first(root: Path, store: Path) -> tuple[float, CheckpointKeeper]:
    keeper = CheckpointKeeper(
        ObjectStore(store), session="s", root=root, scope=lambda: IgnoreRules.for_workspace(root)
    )
    began = time.perf_counter()
    keeper.begin_checkpoint("c", None)
    return (time.perf_counter() - began) * 1000, keeper


def _fill(root: Path, files: int) -> None:
    for number in range(files):
        folder = root / f"p{number // 200}" / f"d{number // 15 % 14}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.py").write_text(f"x = {number}\n" * LINES)
    for part in range(10):
        (root / f"p{part}" / "d0").mkdir(parents=True, exist_ok=True)
