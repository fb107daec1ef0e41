"""Findings as SARIF 2.1.0, for code scanning."""

import hashlib
import json
from typing import Any
from urllib.parse import quote

from agentcli.ui.findings import Finding
from agentcli.ui.reports.account import Account

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(account: Account) -> str:
    findings = account.findings
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    run = {
        "tool": {
            "driver": {
                "name": "agentcli",
                "version": account.tally.version or "0",
                "rules": [{"id": rule, "name": rule} for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": account.outcome.status == "ok",
                "exitCode": int(account.outcome.exit_code),
            }
        ],
        "results": [_result(finding, rules) for finding in findings],
    }
    report = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(report, ensure_ascii=False, indent=2) + "\n"


def _result(finding: Finding, rules: list[str]) -> dict[str, Any]:
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


def _fingerprint(finding: Finding) -> str:
    """The same finding in the next run, though the lines above it have moved."""
    return hashlib.sha256(f"{finding.rule}\0{finding.path}\0{finding.title}".encode()).hexdigest()
