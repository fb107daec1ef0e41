"""The front end of `agentcli batch`: runs the tasks of a file, shows progress, reports at the end.

However it ends, the report lists what is done, and the next run continues from there.
"""

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.features.batch.engine import ENGINES, Batch, BatchEngine, BatchPlan, build_engine
from agentcli.features.batch.tasks import Task, TaskFile
from agentcli.system.files import build_unwritable_error, write_private
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, UsageError
from agentcli.types.messages import ToolCall
from agentcli.types.words import pluralize
from agentcli.ui.oneshot.artifacts import OutputFile
from agentcli.ui.oneshot.reports import quote_cell
from agentcli.ui.render.wording import format_duration, format_target, shorten_middle
from agentcli.ui.streams import write_err, write_out

# Progress of a batch: a line for every task that ended, and on a terminal a status line.


CLEAR = "\r\x1b[K"
OMISSIONS_SHOWN = 3


class BatchProgress:
    """A `BatchListener` that writes to stderr."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._doing: dict[str, str] = {}
        """The current activity of each running task."""
        self._draws = sys.stderr.isatty()

    def skip(self, count: int) -> None:
        """Count tasks that were done before."""
        self._done += count
        write_err(f"{count} of {self._total} tasks are already done\n")

    def on_start(self, task: Task) -> None:
        self._doing[task.id] = "starting"
        self._draw_line()

    def on_event(self, task: Task, event: dict[str, Any]) -> None:
        match event:
            case {"type": "tool.requested", "tool": str(name), "input": given}:
                about = format_target(ToolCall(id="", name=name, input=given))
                self._doing[task.id] = f"{name} {about}"
            case {"type": "turn.started"}:
                self._doing[task.id] = "thinking"
            case _:
                return
        self._draw_line()

    def on_crash(self, task: Task, how: str) -> None:
        self._write_line(f"{task.id}: worker {how}; its changes are discarded")

    def on_wait(self, task: Task, wait_s: float) -> None:
        self._doing[task.id] = "waiting for the provider"
        self._write_line(
            f"{task.id}: rate limited; no task starts for {format_duration(wait_s)}, "
            "then it is tried again"
        )

    def on_end(self, task: Task, result: dict[str, Any]) -> None:
        self._doing.pop(task.id, None)
        self._done += 1
        width = len(str(self._total))
        self._write_line(f"[{self._done:>{width}}/{self._total}] {format_result(task.id, result)}")

    def clear_line(self) -> None:
        """Erase the status line."""
        if self._draws:
            write_err(CLEAR)

    def _write_line(self, text: str) -> None:
        self.clear_line()
        write_err(f"{show_controls(text)}\n")
        self._draw_line()

    def _draw_line(self) -> None:
        if not self._draws:
            return
        running = "  ".join(f"{name}: {doing}" for name, doing in self._doing.items())
        columns = shutil.get_terminal_size().columns
        text = show_controls(f"{self._done} of {self._total} done  {running}")
        write_err(f"{CLEAR}{shorten_middle(text, max(columns - 1, 20))}")


def format_result(name: str, result: dict[str, Any]) -> str:
    """Return one line: the status, the time and cost, and why it failed."""
    took = format_duration((result.get("duration_ms") or 0) / 1000)
    cost = result.get("cost_usd")
    spent = f", {format_estimate(result)}${cost:.4f}" if cost else ""
    error = result.get("error") or {}
    why = f": {error.get('message')}" if error.get("message") else ""
    kept = f"; {lacks}" if (lacks := describe_omissions(result)) else ""
    return f"{result['status']:<6} {name} ({took}{spent}){why}{kept}"


def describe_omissions(result: dict[str, Any]) -> str:
    """Return what the patch of a successful task lacks, and where it is; empty if it is whole."""
    lacking = result.get("not_in_patch") or ()
    if not lacking or result["status"] != "ok":
        return ""
    first = ", ".join(f"{one['path']} ({one['reason']})" for one in lacking[:OMISSIONS_SHOWN])
    more = f" and {len(lacking) - OMISSIONS_SHOWN} more" if len(lacking) > OMISSIONS_SHOWN else ""
    tree = result.get("tree")
    where = f"its directory is kept: {tree}" if tree else "its directory is gone"
    return f"its patch is incomplete: {first}{more}; {where}"


def format_estimate(result: dict[str, Any]) -> str:
    """Return the word before a task's cost, if a part of it is estimated."""
    return "about " if result.get("cost_is_estimate") else ""


# The report of a batch: `report.json` for programs and `report.md` for people.


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    file: TaskFile
    results: Sequence[dict[str, Any]]
    """The results of the tasks that are done, in the order of the file."""

    @property
    def waiting(self) -> list[str]:
        done = {result["id"] for result in self.results}
        return [task.id for task in self.file.tasks if task.id not in done]

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [result for result in self.results if result["status"] != "ok"]

    @property
    def exit_code(self) -> int:
        """The exit code of the first task that failed; a wrong line counts if no task failed."""
        if self.failed:
            return int(self.failed[0]["exit_code"])
        return Exit.USAGE if self.file.bad else Exit.DONE

    @property
    def summary(self) -> str:
        """The summary in one sentence."""
        parts = [f"{len(self.results) - len(self.failed)} of {len(self.file.tasks)} succeeded"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"{len(self.waiting)} not run"] if self.waiting else []
        if self.file.bad:
            parts.append(f"{pluralize(len(self.file.bad), 'line')} of the file invalid")
        return ", ".join(parts)

    def write(self, out: Path) -> None:
        write_private(out / "report.json", self._render_json())
        write_private(out / "report.md", "\n".join(self._render_markdown()) + "\n")

    def _render_json(self) -> str:
        costs = [result.get("cost_usd") for result in self.results]
        document = {
            "v": 1,
            "tasks": len(self.file.tasks),
            "ok": len(self.results) - len(self.failed),
            "failed": len(self.failed),
            "not_run": self.waiting,
            "bad_lines": [{"line": it.number, "message": it.message} for it in self.file.bad],
            "cost_usd": None if None in costs else sum(cost for cost in costs if cost),
            "cost_is_estimate": any(result.get("cost_is_estimate") for result in self.results),
            "results": list(self.results),
        }
        return json.dumps(document, ensure_ascii=False, indent=2) + "\n"

    def _render_markdown(self) -> Iterator[str]:
        yield "# Batch"
        yield ""
        yield f"{self.summary}."
        yield ""
        yield "| task | status | time | cost | files | answer |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for result in self.results:
            yield _render_row(result)
        lacking = [(one["id"], describe_omissions(one)) for one in self.results]
        if any(text for _, text in lacking):
            yield ""
            yield "## Incomplete patches"
            yield ""
            yield from (f"- {name}: {quote_cell(text)}" for name, text in lacking if text)
        if self.file.bad:
            yield ""
            yield "## Invalid lines"
            yield ""
            yield from (f"- line {it.number}: {quote_cell(it.message)}" for it in self.file.bad)


def write_predictions(
    file: OutputFile, results: Sequence[dict[str, Any]], *, out: Path, path: Path
) -> None:
    """Write what each task changed, one JSON object per line, as SWE-bench reads it.

    The id of a task is that of its instance. Raise SettingsError on failure.
    """
    rows = (_build_prediction(result["id"], out / "tasks" / result["id"]) for result in results)
    try:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows))
    except OSError as error:
        raise build_unwritable_error(path, error) from error


def _build_prediction(name: str, directory: Path) -> dict[str, str]:
    patch, settings = directory / "patch.diff", directory / "settings.json"
    chosen = json.loads(settings.read_bytes()) if settings.is_file() else {}
    return {
        "instance_id": name,
        "model_name_or_path": f"agentcli/{chosen.get('model') or 'unknown'}",
        "model_patch": patch.read_text("utf-8", "replace") if patch.is_file() else "",
    }


def _render_row(result: dict[str, Any]) -> str:
    cost, error = result.get("cost_usd"), result.get("error") or {}
    text = error.get("message") or result.get("answer") or ""
    cells = (
        f"[{result['id']}](tasks/{result['id']}/answer.md)",
        result["status"],
        format_duration((result.get("duration_ms") or 0) / 1000),
        "price not known" if cost is None else f"{format_estimate(result)}${cost:.4f}",
        str(len(result.get("files_changed") or ())),
        quote_cell(" ".join(text.split())[:200]),
    )
    return f"| {' | '.join(cells)} |"


def run_batch(
    plan: BatchPlan,
    file: TaskFile,
    *,
    engine: str = "local",
    predictions: Path | None = None,
) -> int:
    named = next((name for name in ENGINES if name == engine), None)
    if named is None:
        raise UsageError(f"no engine {engine}", hint=f"--engine takes {' or '.join(ENGINES)}")
    if named == "ray" and plan.keeps_trees:
        raise UsageError(
            "the worktrees on nodes cannot be kept", hint="--keep takes --engine local"
        )
    for bad in file.bad:
        write_err(f"error: invalid task in line {bad.number}: {bad.message}\n")
    # Opened before any task costs anything.
    predicted = OutputFile(predictions) if predictions else None
    runs = build_engine(named, workers=plan.workers)
    try:
        results, code = asyncio.run(_run_tasks(plan, file, engine=runs))
    finally:
        runs.close()
    if predictions and predicted:
        write_predictions(predicted, results, out=plan.out, path=predictions)
    return code


async def _run_tasks(
    plan: BatchPlan, file: TaskFile, *, engine: BatchEngine
) -> tuple[Sequence[dict[str, Any]], int]:
    """Run the tasks and report them. Return the results and the exit code."""
    progress = BatchProgress(len(file.tasks))
    batch = Batch(plan, file.tasks, listener=progress, engine=engine)
    if batch.results:
        progress.skip(len(batch.results))
    uses_workspace = any(task.workspace is None for task in file.tasks)
    if uses_workspace and batch.trees.lacks_changes:
        write_err("warning: the worktrees of the tasks do not include uncommitted changes\n")
    stopped: signal.Signals | None = None
    try:
        stopped = await _run_until_signal(batch.run())
    finally:
        progress.clear_line()
        results = [batch.results[it.id] for it in file.tasks if it.id in batch.results]
        report = BatchReport(file=file, results=results)
        report.write(plan.out)
        batch.close()
        batch.put_reports()
    write_out(f"{report.summary}: {plan.out / 'report.md'}\n")
    return results, Exit(128 + stopped) if stopped else report.exit_code


async def _run_until_signal(work: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """Return the signal that ended the work; None if it ended by itself."""
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
