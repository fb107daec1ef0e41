"""Findings of a run or a review, with their locations if they have any, and the reports on them."""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

from agentcli.system.output import cap
from agentcli.types.checks import Verified
from agentcli.types.errors import Ending, Exit, RunOutcome
from agentcli.ui.render.wording import format_duration, format_target
from agentcli.ui.tally import Tally

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFinding:
    rule: str
    """The kind of finding, for programs: denied, verify, bug."""
    level: Level
    title: str
    message: str
    path: str = ""
    line: int = 0
    """The line, counted from 1; 0 for the whole file or no location."""
    end_line: int = 0


CollectFindings: TypeAlias = Callable[[Tally, RunOutcome], list[ReportFinding]]

_REPORTED_ELSEWHERE = (Ending.DONE, Ending.DENIED, Ending.VERIFY_FAILED)
"""Endings that another finding describes better."""


def collect_run_findings(tally: Tally, outcome: RunOutcome) -> list[ReportFinding]:
    return [
        *_find_denials(tally),
        *_find_failed_checks(tally),
        *_find_changed_checks(tally),
        *_find_failure(outcome),
        *(
            ReportFinding(rule="warning", level="warning", title="agentcli", message=message)
            for message in tally.warnings
        ),
    ]


def _find_denials(tally: Tally) -> Iterator[ReportFinding]:
    for call, verdict in tally.denials:
        if verdict.by == "nobody":
            message = f"{call.name} {format_target(call)}: {verdict.reason}"
            yield ReportFinding(rule="denied", level="error", title="Denied", message=message)


def _find_failed_checks(tally: Tally) -> Iterator[ReportFinding]:
    for run in tally.verified.values():
        if not run.passed:
            how = "did not finish" if run.exit_code is None else f"exit code {run.exit_code}"
            message = f"{run.command}: {how}\n{run.output}"
            yield ReportFinding(
                rule="verify", level="error", title="Verification failed", message=message
            )


def _find_changed_checks(tally: Tally) -> Iterator[ReportFinding]:
    for message in tally.warn_changed_checks():
        yield ReportFinding(
            rule="verify", level="warning", title="Check changed by the run", message=message
        )


def _find_failure(outcome: RunOutcome) -> Iterator[ReportFinding]:
    if outcome.ending in _REPORTED_ELSEWHERE:
        return
    title = "Limit reached" if outcome.exit_code in (Exit.LIMIT, Exit.TIMEOUT) else "Failed"
    message = "\n".join(filter(None, (outcome.message or outcome.ending, outcome.hint)))
    yield ReportFinding(rule=outcome.ending.value, level="error", title=title, message=message)


# All data of a report on a run that has ended.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    outcome: RunOutcome
    tally: Tally
    findings: tuple[ReportFinding, ...]
    answer: str
    patch: str
    """The changes of the run as a diff; empty if there are none or they are not known."""


# A run as a page of Markdown, for a job's summary, a pull request or a file.


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
        wanted = f": allow it with {quote_code(verdict.remedy)}" if verdict.remedy else ""
        yield f"- {quote_code(call.name)} {quote_code(format_target(call))}{wanted}"
    if denials:
        yield ""


def fence(text: str, *, kind: str = "") -> Iterator[str]:
    fence = "`" * max(3, _measure_longest_run(text) + 1)
    yield f"{fence}{kind}"
    yield text.rstrip("\n")
    yield f"{fence}\n"


def quote_code(text: str) -> str:
    """Quote foreign text within a line."""
    text = " ".join(text.split())
    quote = "`" * (_measure_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{quote}{pad}{text}{pad}{quote}"


def quote_cell(text: str) -> str:
    """Quote foreign text within a table."""
    return quote_code(text).replace("|", "\\|") if text else ""


def _measure_longest_run(text: str) -> int:
    return max(map(len, _BACKQUOTES.findall(text)), default=0)


# Files for the rest of a GitHub Actions job: its summary page and the step's outputs.


SUMMARY_BYTES = 1_000_000
"""The limit for a summary: GitHub drops the one of a step that is larger than 1 MiB."""


def write_job_files(summary: RunSummary, environ: Mapping[str, str] = os.environ) -> None:
    """Append to the files that the runner names. Raise OSError if that fails."""
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(path), cap(render_markdown(summary), SUMMARY_BYTES)[0] + "\n")
    if path := environ.get("GITHUB_OUTPUT"):
        _append(
            Path(path), "".join(_format_output(*pair) for pair in _list_outputs(summary).items())
        )


def _list_outputs(summary: RunSummary) -> dict[str, str]:
    outcome, tally = summary.outcome, summary.tally
    cost_usd = tally.spending.cost_usd
    return {
        "status": outcome.status,
        "exit-code": str(int(outcome.exit_code)),
        "session": tally.session,
        "cost-usd": "" if cost_usd is None else f"{cost_usd:.6f}",
        "changed": "true" if tally.changed or summary.patch else "false",
        "answer": summary.answer,
    }


def _format_output(name: str, value: str) -> str:
    """Format an output. The value cannot end itself early: the delimiter cannot be guessed."""
    delimiter = f"agentcli-{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)


# A run as JUnit: one test case for the run itself, one for every check.


_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(summary: RunSummary) -> str:
    outcome, tally = summary.outcome, summary.tally
    checks = list(tally.verified.values())
    is_error = outcome.is_error
    is_failure = outcome.exit_code is not Exit.DONE and not is_error
    suite = Element(
        "testsuite",
        name="agentcli",
        tests=str(1 + len(checks)),
        failures=str(is_failure + sum(not run.passed for run in checks)),
        errors=str(int(is_error)),
        time=f"{tally.duration_s:.3f}",
    )
    case = SubElement(
        suite, "testcase", classname="agentcli", name="run", time=f"{tally.duration_s:.3f}"
    )
    if is_error or is_failure:
        message = _clean_xml_text(outcome.message or outcome.ending)
        fault = SubElement(
            case, "error" if is_error else "failure", type=outcome.ending, message=message
        )
        fault.text = _clean_xml_text(outcome.hint)
    for run in checks:
        _add_check(suite, run)
    suites = Element("testsuites")
    suites.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _add_check(suite: Element, run: Verified) -> None:
    name = _clean_xml_text(run.command)
    case = SubElement(
        suite, "testcase", classname="agentcli.verify", name=name, time=f"{run.duration_s:.3f}"
    )
    if not run.passed:
        how = "did not finish" if run.exit_code is None else f"exit code {run.exit_code}"
        failure = SubElement(case, "failure", type="verify", message=how)
        failure.text = _clean_xml_text(run.output)


def _clean_xml_text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


# Findings as SARIF 2.1.0, for code scanning.


SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(summary: RunSummary) -> str:
    findings = summary.findings
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    run = {
        "tool": {
            "driver": {
                "name": "agentcli",
                "version": summary.tally.version or "0",
                "rules": [{"id": rule, "name": rule} for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": summary.outcome.status == "ok",
                "exitCode": int(summary.outcome.exit_code),
            }
        ],
        "results": [_build_result(finding, rules) for finding in findings],
    }
    report = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(report, ensure_ascii=False, indent=2) + "\n"


def _build_result(finding: ReportFinding, rules: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.level,
        "message": {"text": f"{finding.title}\n\n{finding.message}".strip()},
        "partialFingerprints": {"agentcli/v1": _hash_finding(finding)},
    }
    if finding.path:
        location: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.path)}}
        if finding.line:
            region = {"startLine": finding.line}
            if finding.end_line > finding.line:
                region["endLine"] = finding.end_line
            location["region"] = region
        result["locations"] = [{"physicalLocation": location}]
    return result


def _hash_finding(finding: ReportFinding) -> str:
    """Return a hash that stays the same in the next run, even if the lines above have moved."""
    return hashlib.sha256(f"{finding.rule}\0{finding.path}\0{finding.title}".encode()).hexdigest()
