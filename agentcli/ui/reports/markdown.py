"""A run as a page of Markdown: for a job's summary, a pull request, a file.

Foreign text stands in fences that it cannot close.
"""

import re
from collections.abc import Iterator

from agentcli.machine.bound import cap
from agentcli.ui.lines import format_duration, format_target
from agentcli.ui.reports.account import RunSummary

PATCH_BYTES = 200_000
ANSWER_BYTES = 200_000
OUTPUT_BYTES = 10_000
FILES_MAX = 100

_BACKQUOTES = re.compile(r"`+")


def render_markdown(summary: RunSummary) -> str:
    return "\n".join(_render_lines(summary)).rstrip("\n") + "\n"


def _render_lines(summary: RunSummary) -> Iterator[str]:
    outcome, tally = summary.outcome, summary.tally
    mark = "✅" if outcome.status == "ok" else "❌"
    yield f"## {mark} agentcli: {outcome.status} (exit code {int(outcome.exit_code)})"
    yield ""
    if outcome.message:
        yield from fence(outcome.message)
    spending = tally.spending
    yield "| model | requests | tokens in / out | cost | time |"
    yield "| --- | --- | --- | --- | --- |"
    tokens = f"{tally.usage.prompt_tokens} / {tally.usage.output_tokens}"
    took = format_duration(tally.duration_s)
    yield (
        f"| {quote_cell(tally.model)} | {spending.requests} | {tokens} | "
        f"{spending.cost_text} | {took} |"
    )
    yield ""
    yield from _render_changes(summary)
    yield from _render_checks(summary)
    yield from _render_denials(summary)
    yield from _render_claims(summary)
    if summary.answer.strip():
        yield "### Answer\n"
        yield from fence(cap(summary.answer, ANSWER_BYTES)[0], kind="markdown")


def _render_changes(summary: RunSummary) -> Iterator[str]:
    changed = summary.tally.changed
    if changed:
        yield f"### Changed files ({len(changed)})\n"
        for path, (added, removed) in list(changed.items())[:FILES_MAX]:
            yield f"- {quote_code(path)} +{added} −{removed}"
        if len(changed) > FILES_MAX:
            yield f"- and {len(changed) - FILES_MAX} more"
        yield ""
    if summary.patch:
        yield "<details><summary>Diff</summary>\n"
        yield from fence(cap(summary.patch, PATCH_BYTES)[0], kind="diff")
        yield "</details>\n"


def _render_checks(summary: RunSummary) -> Iterator[str]:
    runs = summary.tally.verified.values()
    if runs:
        yield "### Verification\n"
    for run in runs:
        how = "passed" if run.passed else f"failed, exit code {run.exit_code}"
        yield f"- {quote_code(run.command)}: {how} ({format_duration(run.duration_s)})"
        if not run.passed:
            yield ""
            yield from fence(cap(run.output, OUTPUT_BYTES)[0])
    if runs:
        yield ""


def _render_denials(summary: RunSummary) -> Iterator[str]:
    denials = summary.tally.denials
    if denials:
        yield "### Denied\n"
    for call, verdict in denials:
        wanted = f": permit it with {quote_code(verdict.remedy)}" if verdict.remedy else ""
        yield f"- {quote_code(call.name)} {quote_code(format_target(call))}{wanted}"
    if denials:
        yield ""


def _render_claims(summary: RunSummary) -> Iterator[str]:
    claims = summary.tally.claims
    if claims:
        yield "### Claims of the answer\n"
        yield "| claim | record | evidence |"
        yield "| --- | --- | --- |"
    for claim in claims:
        verdict = claim.verdict.replace("_", " ")
        yield f"| {quote_cell(claim.text)} | {verdict} | {quote_cell(claim.evidence)} |"
    if claims:
        yield ""


def fence(text: str, *, kind: str = "") -> Iterator[str]:
    fence = "`" * max(3, _longest_run(text) + 1)
    yield f"{fence}{kind}"
    yield text.rstrip("\n")
    yield f"{fence}\n"


def quote_code(text: str) -> str:
    """Foreign text within a line."""
    text = " ".join(text.split())
    quote = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{quote}{pad}{text}{pad}{quote}"


def quote_cell(text: str) -> str:
    """Foreign text within a table."""
    return quote_code(text).replace("|", "\\|") if text else ""


def _longest_run(text: str) -> int:
    return max(map(len, _BACKQUOTES.findall(text)), default=0)
