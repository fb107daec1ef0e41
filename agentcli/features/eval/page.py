"""The report of an evaluation as one HTML page with charts."""

from collections import defaultdict
from collections.abc import Iterator

from agentcli.features.eval.measure import Attempt, RunComparison, TaskScore, summarize
from agentcli.features.eval.render import (
    EvalReport,
    describe_comparison,
    describe_failure,
    list_figures,
)
from agentcli.ui.html_page import (
    CHART_STYLE,
    ChartBar,
    build_bars,
    build_facts,
    build_html_table,
    build_page,
    quote,
)
from agentcli.ui.render.wording import format_duration

STYLE = """\
.passed { color: var(--good); }
.failed { color: var(--bad); }
"""


def render_page(report: EvalReport) -> str:
    title = f"Evaluation: {report.suite.name}"
    return build_page(
        title=title,
        style=CHART_STYLE + STYLE,
        body=f"<main>\n<h1>{quote(title)}</h1>\n{''.join(_render_parts(report))}</main>\n",
    )


def _render_parts(report: EvalReport) -> Iterator[str]:
    yield build_facts(list(list_figures(report)))
    yield build_bars("Pass rate by language", list(_list_languages(report)), most=1.0)
    failures = report.summary.failures
    if failures:
        bars = [
            ChartBar(label=name, value=count, shown=str(count), kind="bad")
            for name, count in failures.items()
        ]
        yield build_bars("Failed attempts by class", bars)
    if report.comparison is not None:
        yield from _render_comparison(report.comparison, report.baseline)
    yield _render_tasks(report)
    for caption, named in (("Skipped", report.suite.skipped), ("Invalid", report.suite.invalid)):
        if named:
            rows = [(quote(name), quote(why)) for name, why in named.items()]
            yield build_html_table(caption, ("task", "why"), rows=rows)


def _list_languages(report: EvalReport) -> Iterator[ChartBar]:
    groups: dict[str, list[TaskScore]] = defaultdict(list)
    for score in report.scores:
        if score.attempts:
            groups[score.language or "other"].append(score)
    for language, scores in sorted(groups.items()):
        rate = summarize(scores).pass_at_1 or 0.0
        shown = f"{100 * rate:.0f}% of {len(scores)}"
        yield ChartBar(label=language, value=rate, shown=shown, kind="good")


def _render_comparison(made: RunComparison, baseline: str) -> Iterator[str]:
    yield f"<h2>Compared with {quote(baseline)}</h2>\n<p>{quote(describe_comparison(made))}</p>\n"
    bars = [
        ChartBar(label="before", value=made.before, shown=f"{100 * made.before:.1f}%"),
        ChartBar(label="now", value=made.after, shown=f"{100 * made.after:.1f}%"),
    ]
    yield build_bars("Pass rate of the tasks that both have", bars, most=1.0)
    rows = [
        *((quote(name), '<span class="passed">better</span>') for name in made.better),
        *((quote(name), '<span class="failed">worse</span>') for name in made.worse),
        *((quote(name), quote(why)) for name, why in made.left_out.items()),
    ]
    if rows:
        yield build_html_table("Tasks that differ", ("task", "how"), rows=rows)


def _render_tasks(report: EvalReport) -> str:
    head = ("task", "language", "attempts", "turns", "tokens", "cost", "time", "why not")
    rows = [_build_row(score) for score in report.scores]
    return build_html_table("Tasks", head, rows=rows, numbers=(3, 4, 5, 6))


def _build_row(score: TaskScore) -> tuple[str, ...]:
    sums = summarize([score])
    tokens = (sums.input_tokens or 0) + (sums.output_tokens or 0)
    whys = dict.fromkeys(describe_failure(one) for one in score.attempts if not one.passed)
    return (
        quote(score.id),
        quote(score.language),
        " ".join(map(_render_mark, score.attempts)) or "not run",
        f"{sums.turns or 0:.1f}",
        f"{tokens:.0f}",
        "" if sums.cost_usd is None else f"${sums.cost_usd:.4f}",
        format_duration(sums.duration_s or 0),
        "<br>".join(map(quote, whys)),
    )


def _render_mark(attempt: Attempt) -> str:
    if attempt.passed:
        return '<span class="passed" role="img" aria-label="passed">✓</span>'
    return '<span class="failed" role="img" aria-label="failed">✗</span>'
