"""A run as a page of Markdown: for a job's summary, a pull request, a file.

Foreign text stands in fences that it cannot close.
"""

import re
from collections.abc import Iterator

from agentcli.machine.bound import cap
from agentcli.ui.lines import duration, target
from agentcli.ui.reports.account import Account

PATCH_BYTES = 200_000
ANSWER_BYTES = 200_000
OUTPUT_BYTES = 10_000
FILES_MAX = 100

_BACKQUOTES = re.compile(r"`+")


def markdown(account: Account) -> str:
    return "\n".join(_lines(account)).rstrip("\n") + "\n"


def _lines(account: Account) -> Iterator[str]:
    outcome, tally = account.outcome, account.tally
    mark = "✅" if outcome.status == "ok" else "❌"
    yield f"## {mark} agentcli: {outcome.status} (exit code {int(outcome.exit_code)})"
    yield ""
    if outcome.message:
        yield from fenced(outcome.message)
    spending = tally.spending
    yield "| model | requests | tokens in / out | cost | time |"
    yield "| --- | --- | --- | --- | --- |"
    tokens = f"{tally.usage.prompt_tokens} / {tally.usage.output_tokens}"
    took = duration(tally.duration_s)
    yield f"| {cell(tally.model)} | {spending.requests} | {tokens} | {spending.cost} | {took} |"
    yield ""
    yield from _changes(account)
    yield from _checks(account)
    yield from _denials(account)
    yield from _claims(account)
    if account.answer.strip():
        yield "### Answer\n"
        yield from fenced(cap(account.answer, ANSWER_BYTES)[0], kind="markdown")


def _changes(account: Account) -> Iterator[str]:
    changed = account.tally.changed
    if changed:
        yield f"### Changed files ({len(changed)})\n"
        for path, (added, removed) in list(changed.items())[:FILES_MAX]:
            yield f"- {code(path)} +{added} −{removed}"
        if len(changed) > FILES_MAX:
            yield f"- and {len(changed) - FILES_MAX} more"
        yield ""
    if account.patch:
        yield "<details><summary>Diff</summary>\n"
        yield from fenced(cap(account.patch, PATCH_BYTES)[0], kind="diff")
        yield "</details>\n"


def _checks(account: Account) -> Iterator[str]:
    runs = account.tally.verified.values()
    if runs:
        yield "### Verification\n"
    for run in runs:
        how = "passed" if run.passed else f"failed, exit code {run.exit_code}"
        yield f"- {code(run.command)}: {how} ({duration(run.duration_s)})"
        if not run.passed:
            yield ""
            yield from fenced(cap(run.output, OUTPUT_BYTES)[0])
    if runs:
        yield ""


def _denials(account: Account) -> Iterator[str]:
    denials = account.tally.denials
    if denials:
        yield "### Denied\n"
    for call, verdict in denials:
        wanted = f": permit it with {code(verdict.remedy)}" if verdict.remedy else ""
        yield f"- {code(call.name)} {code(target(call))}{wanted}"
    if denials:
        yield ""


def _claims(account: Account) -> Iterator[str]:
    claims = account.tally.claims
    if claims:
        yield "### Claims of the answer\n"
        yield "| claim | record | evidence |"
        yield "| --- | --- | --- |"
    for claim in claims:
        verdict = claim.verdict.replace("_", " ")
        yield f"| {cell(claim.text)} | {verdict} | {cell(claim.evidence)} |"
    if claims:
        yield ""


def fenced(text: str, *, kind: str = "") -> Iterator[str]:
    fence = "`" * max(3, _longest_run(text) + 1)
    yield f"{fence}{kind}"
    yield text.rstrip("\n")
    yield f"{fence}\n"


def code(text: str) -> str:
    """Foreign text within a line."""
    text = " ".join(text.split())
    quote = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{quote}{pad}{text}{pad}{quote}"


def cell(text: str) -> str:
    """Foreign text within a table."""
    return code(text).replace("|", "\\|") if text else ""


def _longest_run(text: str) -> int:
    return max(map(len, _BACKQUOTES.findall(text)), default=0)
