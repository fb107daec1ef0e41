"""GitHub Actions on stderr: groups, annotations and masks, with all foreign text fenced off.

Workflow commands are switched off by a random word from the first line to the last, and on only for
our own lines. Whatever a file, a test or a model prints stays text.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Sequence

from agentcli.types.errors import RunOutcome
from agentcli.types.events import Event
from agentcli.ui.oneshot.reports import CollectFindings, Level, ReportFinding
from agentcli.ui.streams import break_service_messages
from agentcli.ui.tally import Tally

PER_LEVEL_MAX = 10
"""The most annotations of one level that GitHub shows for a step."""

_COMMAND_OF_LEVEL: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_LINE_START = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_NOTHING_SEEN = "\u200b"


class Workflow:
    """A `ProgressSink` that also writes masks and annotations."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._fence = ""

    def open(self, masked: Iterable[str] = ()) -> None:
        """Raise the fence.

        `masked` are values that the runner hides wherever the job prints them.
        """
        for value in masked:
            for line in filter(None, value.splitlines()):
                self._write(f"::add-mask::{_escape_data(line)}\n")
        self._raise_fence()

    def write_line(self, text: str) -> None:
        self._write(text + "\n")

    def write_card(self, title: str, body: Sequence[str]) -> None:
        if not body:
            self.write_line(title)
            return
        self._write_command(f"::group::{_escape_data(title)}")
        for line in body:
            self.write_line(line)
        self._write_command("::endgroup::")

    def annotate(self, findings: Iterable[ReportFinding]) -> None:
        counts: dict[Level, int] = {}
        for finding in findings:
            counts[finding.level] = counts.get(finding.level, 0) + 1
            if counts[finding.level] <= PER_LEVEL_MAX:
                self._write_command(_format_annotation(finding))

    def close(self) -> None:
        """Lower the fence: what the step prints after us is not ours to guard."""
        self._lower_fence()

    def _write_command(self, line: str) -> None:
        self._lower_fence()
        self._write(line + "\n")
        self._raise_fence()

    def _raise_fence(self) -> None:
        self._fence = f"agentcli-{secrets.token_hex(16)}"
        self._write(f"::stop-commands::{self._fence}\n")

    def _lower_fence(self) -> None:
        if self._fence:
            self._write(f"::{self._fence}::\n")
            self._fence = ""


class Annotations:
    """Annotations of the findings, written at the end, beside the code if they have a location."""

    def __init__(self, workflow: Workflow, collect_findings: CollectFindings) -> None:
        self._workflow = workflow
        self._collect_findings = collect_findings

    def __call__(self, event: Event) -> None:
        """Ignore the event: everything is known at the end."""

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        self._workflow.annotate(self._collect_findings(tally, outcome))
        self._workflow.close()


def neutralize_commands(text: str) -> str:
    """Return an answer for stdout, where no fence can be used, with no line that is a command.

    Only lines that would be commands are changed, by an invisible character.
    """
    return _LINE_START.sub(rf"\1:{_NOTHING_SEEN}", break_service_messages(text))


def _format_annotation(finding: ReportFinding) -> str:
    places = {"file": finding.path, "line": finding.line, "endLine": finding.end_line}
    properties = [
        f"{name}={_escape_property(str(value))}" for name, value in places.items() if value
    ]
    properties.append(f"title={_escape_property(finding.title)}")
    return (
        f"::{_COMMAND_OF_LEVEL[finding.level]} "
        f"{','.join(properties)}::{_escape_data(finding.message)}"
    )


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
