"""Batches: the time of a task by the number of workers, on this machine and on Ray."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment
from tests.support.provider import Provider
from tests.support.repl import KEY

TASKS = int(os.environ.get("AGENTCLI_BENCH_TASKS", "24"))
WORKERS = (1, 2, 4)


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as scratch, Provider([anthropic.says("Done.")] * 5_000) as provider:
        root = Path(scratch)
        (root / "home").mkdir()
        (root / "work").mkdir()
        rows = [json.dumps({"id": f"t{n}", "prompt": f"task {n}"}) for n in range(TASKS)]
        (root / "tasks.jsonl").write_text("\n".join(rows))
        env = environment(
            root / "home", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=provider.base_url
        )
        alone = ["run", "--model", "opus", "-q", "go"]
        floor_s = min(_time(alone, root, env) for _ in range(5))
        for engine in ("local", *(["ray"] if find_spec("ray") else [])):
            for workers in WORKERS:
                out = f"{engine}-{workers}"
                options = ["--engine", engine, "--workers", str(workers), "--out", str(root / out)]
                words = ["batch", str(root / "tasks.jsonl"), "--model", "opus", *options]
                yield Figure(
                    what=f"a task of {TASKS}, {engine}, {workers} workers",
                    value=1000 * _time(words, root, env) / TASKS,
                    floor=1000 * floor_s,
                    floor_is="one run",
                )


def _time(arguments: Sequence[str], root: Path, env: dict[str, str]) -> float:
    began = time.perf_counter()
    words = [str(PROGRAM), *arguments]
    subprocess.run(words, cwd=root / "work", env=env, check=True, capture_output=True)
    return time.perf_counter() - began
