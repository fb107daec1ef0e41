"""Findings as SARIF 2.1.0, for code scanning."""

import hashlib
import json
from typing import Any
from urllib.parse import quote

from agentcli.ui.findings import ReportFinding
from agentcli.ui.reports.account import RunSummary

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
        "partialFingerprints": {"agentcli/v1": _fingerprint(finding)},
    }
    if finding.path:
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.path)}}
        if finding.line:
            region = {"startLine": finding.line}
            if finding.end_line > finding.line:
                region["endLine"] = finding.end_line
            place["region"] = region
        result["locations"] = [{"physicalLocation": place}]
    return result


def _fingerprint(finding: ReportFinding) -> str:
    """The same finding in the next run, though the lines above it have moved."""
    return hashlib.sha256(f"{finding.rule}\0{finding.path}\0{finding.title}".encode()).hexdigest()
