"""What a sandbox adds to one command: `python -m tests.bench.sandbox [RUNS]`.

Starts `true` bare and in every layer that works here, in turn, each with everything a command
costs: start, wait, finish. The repository in the workspace has hooks to look after.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.guard.sandbox.choose import Ground, choose, describe
from agentcli.types.verdicts import Confinement, Sandbox

RUNS = 200
COMMAND = ["/bin/true"]
CONFINEMENT = Confinement()


def bare(workspace: Path) -> None:
    subprocess.Popen(
        COMMAND,
        cwd=workspace,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ).wait()


def confined(sandbox: Sandbox, workspace: Path) -> None:
    process = sandbox.start(
        COMMAND,
        cwd=workspace,
        env={},
        stdout=subprocess.DEVNULL,
        confinement=CONFINEMENT,
    )
    if process.wait() != 0:
        raise SystemExit(f"{sandbox.name}: the command failed")
    sandbox.finish(process)


def measure(runs: int, workspace: Path, private: Path) -> dict[str, list[float]]:
    ground = Ground(workspace=workspace, private=private)
    layers = [finding.layer for finding in describe(ground) if finding.works]
    contestants: dict[str, Callable[[], None]] = {"bare": partial(bare, workspace)}
    for layer in layers:
        sandbox = choose(ground, only=layer)
        contestants[layer] = partial(confined, sandbox, workspace)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(runs):
        for name, run in contestants.items():
            began = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with TemporaryDirectory() as base:
        workspace = Path(base, "workspace")
        subprocess.run(["git", "init", "-q", workspace], check=True)
        times = measure(runs, workspace, Path(base, "private"))
    baseline = statistics.median(times["bare"])
    print(f"{runs} runs each, in turn; uid {os.geteuid()}, load {os.getloadavg()[0]:.1f}; ms")
    for name, taken in times.items():
        tenths = statistics.quantiles(taken, n=20)
        median = statistics.median(taken)
        print(
            f"{name:12} p10 {tenths[1]:6.2f}  median {median:6.2f}  p95 {tenths[18]:6.2f}"
            f"  added {median - baseline:+.2f}"
        )


if __name__ == "__main__":
    main()
