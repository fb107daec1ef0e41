"""The front end of `agentcli eval`: runs a suite, and reports as a table, as JSON and as a page."""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agentcli import __version__
from agentcli.features.eval.engine import EvalPlan, Evaluation
from agentcli.features.eval.measure import (
    Attempt,
    RunComparison,
    Summary,
    TaskScore,
    compare,
    summarize,
)
from agentcli.features.eval.suite import Suite
from agentcli.system.files import build_unwritable_error, write_private
from agentcli.system.plain_text import show_controls
from agentcli.system.validation import describe_fault
from agentcli.types import events
from agentcli.types.errors import Exit, UsageError
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import format_duration
from agentcli.ui.streams import write_err, write_out

FORMAT = 1
"""The version of eval.json. A reader refuses those that it does not know."""
SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    suite: Suite
    label: str
    """The model and the options, for the user."""
    repeats: int
    scores: tuple[TaskScore, ...]
    baseline: str = ""
    comparison: RunComparison | None = None

    @property
    def summary(self) -> Summary:
        return summarize(self.scores)

    @property
    def exit_code(self) -> Exit:
        """DONE if every attempt could be made and checked, whatever came of it."""
        if self.suite.invalid:
            return Exit.USAGE
        lacks = any(len(score.attempts) < self.repeats for score in self.scores)
        return Exit.INTERNAL if lacks else Exit.DONE

    def build_json(self) -> dict[str, Any]:
        return {
            "v": FORMAT,
            "agentcli": __version__,
            "at": events.read_clock(),
            "suite": self.suite.name,
            "label": self.label,
            "repeats": self.repeats,
            "summary": asdict(self.summary),
            "tasks": [asdict(score) for score in self.scores],
            "skipped": dict(self.suite.skipped),
            "invalid": dict(self.suite.invalid),
            "baseline": self.baseline or None,
            "comparison": asdict(self.comparison) if self.comparison else None,
        }


def run_eval(plan: EvalPlan, *, label: str, baseline: Path | None) -> int:
    suite = plan.suite
    before = load_scores(baseline) if baseline else None
    for name, why in suite.invalid.items():
        write_err(f"error: invalid task {name}: {show_controls(why)}\n")
    for name, why in suite.skipped.items():
        write_err(f"skipped {name}: {why}\n")
    evaluation = Evaluation(plan)
    try:
        scores, stopped = asyncio.run(_run_until_signal(evaluation))
    except OSError as error:
        raise build_unwritable_error(plan.out / "attempts", error) from error
    finally:
        evaluation.close()
    if scores is None:
        write_err("interrupted; run the same command to continue\n")
        return Exit(128 + stopped)
    report = EvalReport(suite=suite, label=label, repeats=plan.repeats, scores=scores)
    if before is not None:
        report = replace(report, baseline=str(baseline), comparison=compare(before, report.scores))
    _write_report(report, plan.out)
    write_out("\n".join(render_text(report)) + f"\n\n{plan.out / 'report.html'}\n")
    return report.exit_code


async def _run_until_signal(
    evaluation: Evaluation,
) -> tuple[tuple[TaskScore, ...] | None, int]:
    """Return the scores; or None and the signal that ended the evaluation."""
    work: Coroutine[Any, Any, tuple[TaskScore, ...]] = evaluation.run()
    task = asyncio.ensure_future(work)
    got: list[int] = []

    def stop(number: int) -> None:
        got.append(number)
        task.cancel()

    if sys.platform != "win32":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        return await task, 0
    except asyncio.CancelledError:
        if not got:
            raise
        return None, got[0]


def _write_report(report: EvalReport, out: Path) -> None:
    from agentcli.features.eval.page import render_page

    document = json.dumps(report.build_json(), ensure_ascii=False, indent=2) + "\n"
    write_private(out / "eval.json", document)
    write_private(out / "report.html", render_page(report))


def load_scores(out: Path) -> tuple[TaskScore, ...]:
    """Load the scores of another evaluation. Raise UsageError if they cannot be read."""
    file = out / "eval.json" if out.is_dir() else out
    hint = "name the --out of an evaluation that has ended"
    try:
        document = TypeAdapter(dict[str, Any]).validate_json(file.read_bytes())
        if document["v"] != FORMAT:
            raise UsageError(
                f"{file} was written by agentcli {document.get('agentcli')}, in another format",
                hint="run that evaluation again with this version",
            )
        return TypeAdapter(tuple[TaskScore, ...]).validate_python(document["tasks"])
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", hint=hint) from None
    except (ValidationError, KeyError) as error:
        wrong = describe_fault(error) if isinstance(error, ValidationError) else f"no {error}"
        raise UsageError(
            f"{file} is not the result of an evaluation ({wrong})", hint=hint
        ) from None


# The report as text


def render_text(report: EvalReport) -> Iterator[str]:
    yield from _render_tasks(report.scores)
    yield ""
    yield from (f"{name:<10} {words}" for name, words in list_figures(report))


def _render_tasks(scores: Sequence[TaskScore]) -> Iterator[str]:
    width = max((len(score.id) for score in scores), default=4)
    yield f"{'task':<{width}}  passed  turns   tokens      time  why not"
    for score in scores:
        sums = summarize([score])
        failed = next((one for one in score.attempts if not one.passed), None)
        why = show_controls(describe_failure(failed)) if failed else ""
        tokens = (sums.input_tokens or 0) + (sums.output_tokens or 0)
        yield (
            f"{score.id:<{width}}  {format_passes(score):>6}  {sums.turns or 0:>5.1f}"
            f"  {tokens:>7.0f}  {format_duration(sums.duration_s or 0):>8}  {why}"
        ).rstrip()


def format_passes(score: TaskScore) -> str:
    return f"{score.passes}/{len(score.attempts)}" if score.attempts else "not run"


def describe_failure(attempt: Attempt) -> str:
    why = f": {attempt.message}" if attempt.message else ""
    return f"{attempt.failure}{why}"[:200]


def list_figures(report: EvalReport) -> Iterator[tuple[str, str]]:
    """Yield the figures of the whole run, by name."""
    sums, suite = report.summary, report.suite
    yield "suite", f"{suite.name}, {pluralize(sums.tasks, 'task')}, {report.label}"
    if sums.attempts:
        yield from _list_averages(sums)
    if sums.failures:
        yield "failures", ", ".join(f"{count} {name}" for name, count in sums.failures.items())
    if suite.skipped:
        yield "skipped", pluralize(len(suite.skipped), "task")
    if suite.invalid:
        yield "invalid", ", ".join(suite.invalid)
    if report.comparison is not None:
        yield "compared", describe_comparison(report.comparison)


def _list_averages(sums: Summary) -> Iterator[tuple[str, str]]:
    yield "pass@1", f"{100 * (sums.pass_at_1 or 0):.1f}%"
    for k, share in sums.pass_power_k.items():
        if k > 1:
            yield f"pass^{k}", f"{100 * share:.1f}%"
    yield (
        "average",
        (
            f"{sums.turns:.1f} turns, {sums.input_tokens:.0f} tokens in, "
            f"{sums.output_tokens:.0f} out, {format_duration(sums.duration_s or 0)}"
        ),
    )
    yield "cost", "price not known" if sums.cost_usd is None else f"${sums.cost_usd:.4f} in all"


def describe_comparison(made: RunComparison) -> str:
    if not made.tasks:
        return "no task is the same in both runs"
    found = "significant" if made.p_value < SIGNIFICANT else "may be chance"
    left_out = f"; {pluralize(len(made.left_out), 'task')} left out" if made.left_out else ""
    return (
        f"pass@1 {100 * made.before:.1f}% before, {100 * made.after:.1f}% now on "
        f"{pluralize(made.tasks, 'task')}: {len(made.better)} better, {len(made.worse)} worse, "
        f"p = {made.p_value:.3g} ({found}){left_out}"
    )
