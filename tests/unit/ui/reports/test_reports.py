import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agentcli.types.checks import Verified
from agentcli.types.errors import Ending, RunOutcome
from agentcli.types.events import Event, SessionStarted
from agentcli.types.messages import ToolCall
from agentcli.types.verdicts import Verdict
from agentcli.ui.oneshot.reports import (
    ReportFinding,
    RunSummary,
    collect_run_findings,
    quote_code,
    render_junit,
    render_markdown,
    render_sarif,
    write_job_files,
)
from agentcli.ui.tally import Tally

DONE = RunOutcome(ending=Ending.DONE)
FAILED = RunOutcome(ending=Ending.VERIFY_FAILED, message="--verify 'x' failed", hint="see the log")


def account(
    outcome: RunOutcome = DONE,
    *events: Event,
    answer: str = "",
    patch: str = "",
    tally: Tally | None = None,
) -> RunSummary:
    tally = tally or Tally()
    for event in events:
        tally(event)
    return RunSummary(
        outcome=outcome,
        tally=tally,
        findings=tuple(collect_run_findings(tally, outcome)),
        answer=answer,
        patch=patch,
    )


def verified(command: str, exit_code: int | None) -> Verified:
    return Verified(command=command, exit_code=exit_code, output="a\x1bb\n]]>", duration_s=1.5)


def test_junit_has_a_case_for_the_run_and_one_for_every_check() -> None:
    text = render_junit(account(FAILED, verified("make a", 0), verified("make <b>", 3)))
    suite = ElementTree.fromstring(text)[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "2",
        "errors": "0",
    }
    assert [(case.get("name"), len(case)) for case in suite] == [
        ("run", 1),
        ("make a", 0),
        ("make <b>", 1),
    ]


def test_junit_tells_errors_from_failures() -> None:
    outcome = RunOutcome(ending=Ending.PROVIDER_FAILED, message="down")
    suite = ElementTree.fromstring(render_junit(account(outcome)))[0]
    assert (suite.get("errors"), suite[0][0].tag) == ("1", "error")


@given(st.text(max_size=50))
def test_junit_is_well_formed_whatever_is_said(text: str) -> None:
    outcome = RunOutcome(ending=Ending.DENIED, message=text, hint=text)
    run = Verified(command=text or "x", exit_code=1, output=text)
    report = ElementTree.fromstring(render_junit(account(outcome, run)).encode("utf-8", "replace"))
    assert [case.tag for case in report[0]] == ["testcase", "testcase"]


HOSTILE = [
    "```\n</details><script>alert(1)</script>\n```",
    "````\n# Heading\n````",
    "| a | b |",
    "<img src=x onerror=y>",
    "`x` ``y`` ```z",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_foreign_text_stays_text_in_markdown(text: str) -> None:
    tally = Tally()
    tally.denials.append(
        (
            ToolCall(id="c", name="bash", input={"command": text}),
            Verdict(decision="deny", by="nobody", reason=text, remedy=f"--allow {text}"),
        )
    )
    tally.changed[text] = (1, 2)
    outcome = RunOutcome(ending=Ending.DENIED, message=text)
    run = Verified(command=text, exit_code=1, output=text)
    page = render_markdown(account(outcome, run, answer=text, patch=text, tally=tally))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(page)
    assert "<script>" not in rendered
    assert "<img" not in rendered
    assert "<h1>" not in rendered


@given(st.text(alphabet="`a |\n", max_size=30))
def test_code_in_a_line_cannot_be_closed(text: str) -> None:
    quoted = quote_code(text)
    longest = max(map(len, re.findall("`+", text)), default=0)
    assert "\n" not in quoted
    assert quoted.startswith("`" * (longest + 1))


def test_markdown_says_what_happened() -> None:
    tally = Tally(model="anthropic/opus", turns=4, changed={"a.py": (3, 1)})
    page = render_markdown(account(DONE, tally=tally, answer="Fixed.", patch="+new"))
    assert page.startswith("## ✅ agentcli: ok (exit code 0)\n")
    for part in ("`anthropic/opus`", "- `a.py` +3 −1", "```diff\n+new\n```", "Fixed."):
        assert part in page


def test_markdown_cuts_a_patch_that_is_too_long() -> None:
    assert len(render_markdown(account(patch="x" * 1_000_000))) < 250_000


def test_sarif_has_a_result_for_every_finding_and_its_place() -> None:
    found = ReportFinding(
        rule="review/bug",
        level="warning",
        title="Off by one",
        message="It is.",
        path="src/a b.py",
        line=3,
        end_line=5,
    )
    whole = ReportFinding(rule="denied", level="error", title="Denied", message="no")
    made = RunSummary(outcome=DONE, tally=Tally(), findings=(found, whole), answer="", patch="")
    run = json.loads(render_sarif(made))["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["review/bug", "denied"]
    first, second = run["results"]
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "src/a%20b.py"},
                "region": {"startLine": 3, "endLine": 5},
            }
        }
    ]
    assert (first["level"], first["message"]["text"]) == ("warning", "Off by one\n\nIt is.")
    assert "locations" not in second


def test_job_files_are_appended_to_and_values_cannot_end_themselves(tmp_path: Path) -> None:
    summary, outputs = tmp_path / "summary.md", tmp_path / "output"
    outputs.write_text("before=1\n")
    started = SessionStarted(
        session="s1", version="1", workspace="/w", model="m", mode="ask", tools=(), tools_sha256=""
    )
    made = account(FAILED, started, answer="x\nEOF\nstatus<<EOF\nok\nEOF")
    write_job_files(made, {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(outputs)})
    assert "agentcli: failed" in summary.read_text()
    assert _parsed(outputs.read_text()) == {
        "before": "1",
        "status": "failed",
        "exit-code": "7",
        "session": "s1",
        "cost-usd": "0.000000",
        "changed": "false",
        "answer": "x\nEOF\nstatus<<EOF\nok\nEOF",
    }


def _parsed(text: str) -> dict[str, str]:
    """As the runner reads it."""
    values: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if "<<" in line:
            name, _, delimiter = line.partition("<<")
            values[name] = "\n".join(iter(lambda: next(lines), delimiter))
        elif "=" in line:
            name, _, values[name] = line.partition("=")
    return values


def test_nothing_is_written_where_the_runner_names_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_job_files(account(), {})
    assert list(tmp_path.iterdir()) == []
