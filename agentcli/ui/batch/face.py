"""`agentcli batch`: runs the tasks of a file, shows how far they are, and reports at the end.

However it ends, the report tells what is done: calling it again goes on from there.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from agentcli.app.batch.engine import BatchEngine
from agentcli.app.batch.tasks import TaskFile
from agentcli.app.batch.work import ENGINES, Batch, BatchPlan, build_engine
from agentcli.types.errors import Exit, UsageError
from agentcli.ui.batch.progress import BatchProgress
from agentcli.ui.batch.report import BatchReport
from agentcli.ui.streams import write_err, write_out


def run_batch(plan: BatchPlan, file: TaskFile, *, engine: str = "local") -> int:
    named = next((name for name in ENGINES if name == engine), None)
    if named is None:
        raise UsageError(
            f"there is no engine {engine}", hint=f"--engine takes {' or '.join(ENGINES)}"
        )
    for bad in file.bad:
        write_err(f"error: line {bad.number} is not a task: {bad.message}\n")
    runs = build_engine(named, workers=plan.workers)
    try:
        return asyncio.run(_run_tasks(plan, file, runs))
    finally:
        runs.close()


async def _run_tasks(plan: BatchPlan, file: TaskFile, engine: BatchEngine) -> int:
    progress = BatchProgress(len(file.tasks))
    batch = Batch(plan, file.tasks, listener=progress, engine=engine)
    if batch.results:
        progress.skip(len(batch.results))
    if batch.trees.lacks_changes:
        write_err("warning: what is not committed is not in the tasks' worktrees\n")
    stopped: signal.Signals | None = None
    try:
        stopped = await _run_until_signal(batch.run())
    finally:
        progress.clear_line()
        results = [batch.results[it.id] for it in file.tasks if it.id in batch.results]
        report = BatchReport(file=file, results=results)
        report.write(plan.out)
        batch.close()
    write_out(f"{report.summary}: {plan.out / 'report.md'}\n")
    return Exit(128 + stopped) if stopped else report.exit_code


async def _run_until_signal(work: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """The signal that ended it; None: it came to its own end."""
    task = asyncio.ensure_future(work)
    got: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        got.append(number)
        task.cancel()

    if sys.platform != "win32":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not got:
            raise
        return got[0]
    return None
