"""A run as JUnit: one case for the run itself, one for every check."""

import re
from xml.etree.ElementTree import Element, SubElement, tostring

from agentcli.types.checks import Verified
from agentcli.types.errors import Exit
from agentcli.ui.reports.account import RunSummary

_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_ERRORS = (Exit.INTERNAL, Exit.USAGE, Exit.SETTINGS, Exit.PROVIDER)
"""What kept the run from being one, rather than what came of it."""


def render_junit(summary: RunSummary) -> str:
    outcome, tally = summary.outcome, summary.tally
    checks = list(tally.verified.values())
    is_error = outcome.exit_code in _ERRORS
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
        how = "did not end" if run.exit_code is None else f"exit code {run.exit_code}"
        failure = SubElement(case, "failure", type="verify", message=how)
        failure.text = _clean_xml_text(run.output)


def _clean_xml_text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
