"""The first command of a session in a large workspace that an earlier session has worked in.

The floor is to list the tree and ask for the stamp of every file, which finds what has changed.
"""

import os
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import Call, of_anthropic
from tests.bench.figures import Figure, wall_ms
from tests.bench.model import Model
from tests.bench.process import timed
from tests.support.program import PROGRAM, environment

SIZES = (20_000, 200_000)
PER_FOLDER = 20
RUNS = 5
THOUGHT_S = 2.0
AT_MOST_MS = 100
CALL: Call = ("bash", {"command": "touch made"})
"""A command that may write, so that the state before it is kept."""


def figures() -> Iterator[Figure]:
    for files in SIZES:
        with TemporaryDirectory() as scratch:
            home, project = Path(scratch, "home"), Path(scratch, "project")
            home.mkdir()
            _fill(project, files)
            yield Figure(
                what=f"{files} files, first call of a workspace", value=_gap_ms(home, project)
            )
            taken = [
                (
                    wall_ms(partial(_list_bare, project)),
                    _gap_ms(home, project),
                    _gap_ms(home, project, thought_s=THOUGHT_S),
                )
                for _ in range(RUNS)
            ]
        floor, at_once, thought = (statistics.median(column) for column in zip(*taken, strict=True))
        yield Figure(
            what=f"{files} files, first call of a later session, at once",
            value=at_once,
            floor=floor,
            floor_is="to list and stat all",
        )
        yield Figure(
            what=f"{files} files, the same after a thought", value=thought, at_most=AT_MOST_MS
        )


def _gap_ms(home: Path, project: Path, *, thought_s: float = 0) -> float:
    """From the reply with the call to the request with its result."""

    def reply(step: int) -> bytes:
        if step == 0:
            time.sleep(thought_s)
        return of_anthropic(step, None if step else CALL)

    with Model(reply) as model:
        timed(
            [PROGRAM, "run", "--model", "opus", "--mode", "auto", "-q", "Go on."],
            env=environment(home, **model.environment),
            cwd=project,
        )
    return (model.complete[1] - model.answered[0]) * 1000


def _list_bare(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            os.lstat(f"{folder}/{name}")


def _fill(root: Path, files: int) -> None:
    for first in range(0, files, PER_FOLDER):
        folder = root / f"p{first // 2000}" / f"d{first}"
        folder.mkdir(parents=True)
        for number in range(first, first + PER_FOLDER):
            (folder / f"f{number}.py").write_text(f"x = {number}\n" * 10)
