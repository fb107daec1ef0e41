"""GitHub Actions on stderr: groups, annotations and masks, with all foreign text fenced off.

Commands are switched off by a random word from the first line to the last, and on only for the
lines that are ours: whatever a file, a test or a model prints, it stays text.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Sequence

from agentcli.types.errors import Outcome
from agentcli.types.events import Event
from agentcli.ui.findings import Finding, FindingsOf, Level
from agentcli.ui.tally import Tally

PER_LEVEL_MAX = 10
"""GitHub shows no more annotations of one kind for a step."""

_COMMAND_OF_LEVEL: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_LEGACY = "##["
_LINE_START = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_NOTHING_SEEN = "\u200b"


class Workflow:
    """A `Page` for stories, and more."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._fence = ""

    def open(self, masked: Iterable[str] = ()) -> None:
        """`masked`: values the runner is to hide wherever the job prints them."""
        for value in masked:
            for line in filter(None, value.splitlines()):
                self._write(f"::add-mask::{_data(line)}\n")
        self._raise_fence()

    def line(self, text: str) -> None:
        self._write(text + "\n")

    def card(self, title: str, body: Sequence[str]) -> None:
        if not body:
            self.line(title)
            return
        self._command(f"::group::{_data(title)}")
        for line in body:
            self.line(line)
        self._command("::endgroup::")

    def annotate(self, findings: Iterable[Finding]) -> None:
        counts: dict[Level, int] = {}
        for finding in findings:
            counts[finding.level] = counts.get(finding.level, 0) + 1
            if counts[finding.level] <= PER_LEVEL_MAX:
                self._command(_annotation(finding))

    def close(self) -> None:
        """What the step prints after us is its own affair again."""
        self._lower_fence()

    def _command(self, line: str) -> None:
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
    """The last word to the runner: what somebody should look at, beside the code where that is."""

    def __init__(self, workflow: Workflow, findings_of: FindingsOf) -> None:
        self._workflow = workflow
        self._findings_of = findings_of

    def __call__(self, event: Event) -> None:
        """Everything is known at the end."""

    def finish(self, outcome: Outcome, tally: Tally) -> None:
        self._workflow.annotate(self._findings_of(tally, outcome))
        self._workflow.close()


def defanged(text: str) -> str:
    """An answer on stdout, where no fence can stand: the runner takes no line of it for a command.

    Only a line that would be one is touched, by a character that cannot be seen.
    """
    text = text.replace(_LEGACY, f"##{_NOTHING_SEEN}[")
    return _LINE_START.sub(rf"\1:{_NOTHING_SEEN}", text)


def _annotation(finding: Finding) -> str:
    places = {"file": finding.path, "line": finding.line, "endLine": finding.end_line}
    properties = [f"{name}={_property(str(value))}" for name, value in places.items() if value]
    properties.append(f"title={_property(finding.title)}")
    return f"::{_COMMAND_OF_LEVEL[finding.level]} {','.join(properties)}::{_data(finding.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
