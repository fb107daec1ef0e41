"""The files a run leaves behind: the answer, the patch, reports, and all of it in one directory.

Whether they can be written is found out before a model is asked; they are written however the run
ended.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from agentcli.settings import Settings
from agentcli.types.errors import SettingsError, UsageError
from agentcli.ui.outlets import OutputFile, OutputFolder
from agentcli.ui.reports.account import RunSummary
from agentcli.ui.reports.github import write_job_files
from agentcli.ui.reports.junit import render_junit
from agentcli.ui.reports.markdown import render_markdown
from agentcli.ui.reports.sarif import render_sarif
from agentcli.ui.streams import write_err


class ReportFormat(StrEnum):
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    SARIF = "sarif"


GITHUB = frozenset({ReportFormat.GITHUB})
_DIRECTORY_FORMATS = (ReportFormat.JUNIT, ReportFormat.MARKDOWN, ReportFormat.SARIF)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactOptions:
    patch: Path | None = None
    last_message: Path | None = None
    directory: Path | None = None
    reports: frozenset[ReportFormat] = frozenset()

    @property
    def wants_patch(self) -> bool:
        has_page = bool(self.reports & {ReportFormat.MARKDOWN, ReportFormat.GITHUB})
        return bool(self.patch or self.directory or has_page)

    def open_files(self) -> "ArtifactFiles":
        """Raises UsageError where something of it could not be written."""
        for form in _DIRECTORY_FORMATS:
            if form in self.reports and self.directory is None:
                raise UsageError(
                    f"--report {form} needs a directory to write to", hint="add --output-dir DIR"
                )
        return ArtifactFiles(
            directory=OutputFolder(self.directory) if self.directory else None,
            patch=OutputFile(self.patch) if self.patch else None,
            last_message=OutputFile(self.last_message) if self.last_message else None,
            reports=self.reports,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFiles:
    """The same, ready to be written to."""

    directory: OutputFolder | None = None
    patch: OutputFile | None = None
    last_message: OutputFile | None = None
    reports: frozenset[ReportFormat] = frozenset()

    def write_named_files(self, *, answer: str, patch: str) -> None:
        """The files that have a name of their own. Raises SettingsError, also where the directory
        takes nothing any more: that is to be known before the log is closed."""
        with _report_write_errors("the answer or the patch"):
            if self.last_message is not None:
                self.last_message.write(answer.rstrip("\n") + "\n")
            if self.patch is not None:
                self.patch.write(patch)
        with _report_write_errors("to the output directory"):
            if self.directory is not None:
                self.directory.check_writable()

    def write(self, summary: RunSummary, *, settings: Settings | None, log: Path | None) -> None:
        """Raises SettingsError where the disk no longer takes what it did before."""
        with _report_write_errors("what the run leaves"):
            if self.directory is not None:
                for name, text in self._render_files(summary, settings, log):
                    self.directory.write(name, text)
        if ReportFormat.GITHUB in self.reports:
            self._write_job_files(summary)

    def _write_job_files(self, summary: RunSummary) -> None:
        """Its files are the runner's: that they cannot be written is no failure of the run."""
        try:
            write_job_files(summary)
        except OSError as error:
            write_err(f"warning: the job was not told: {error.filename}: {error.strerror}\n")

    def _render_files(
        self, summary: RunSummary, settings: Settings | None, log: Path | None
    ) -> Iterator[tuple[str, str]]:
        result = {
            "v": 1,
            "session": summary.tally.session,
            **summary.tally.build_result(summary.outcome),
        }
        yield "result.json", _format_json(result)
        yield "answer.md", summary.answer.rstrip("\n") + "\n"
        yield "patch.diff", summary.patch
        if settings is not None:
            yield "settings.json", _format_json(build_settings_json(settings))
        if log is not None:
            yield "log.jsonl", log.read_text(encoding="utf-8", errors="replace")
        for form in _DIRECTORY_FORMATS:
            if form in self.reports:
                yield _FILE_NAMES[form], _render_report(form, summary)


@contextmanager
def _report_write_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"cannot write {what}: {error.strerror}",
            hint="write to a place that has room and that the run leaves alone",
        ) from error


_FILE_NAMES = {
    ReportFormat.JUNIT: "junit.xml",
    ReportFormat.MARKDOWN: "report.md",
    ReportFormat.SARIF: "report.sarif",
}


def parse_reports(texts: Iterable[str]) -> frozenset[ReportFormat]:
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    known = ", ".join(ReportFormat)
    for name in names:
        if name not in list(ReportFormat):
            raise UsageError(f"there is no report {name!r}", hint=f"--report takes {known}")
    return frozenset(map(ReportFormat, names))


def build_settings_json(settings: Settings) -> dict[str, Any]:
    """The effective settings. No key is among them; addresses lose what may be a password."""
    return {field.name: _to_plain(getattr(settings, field.name)) for field in fields(settings)}


def _render_report(form: ReportFormat, summary: RunSummary) -> str:
    match form:
        case ReportFormat.JUNIT:
            return render_junit(summary)
        case ReportFormat.SARIF:
            return render_sarif(summary)
        case _:
            return render_markdown(summary)


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _to_plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _without_userinfo(value)
        case tuple() | list():
            return [_to_plain(item) for item in value]
        case frozenset():
            return sorted(map(str, value))
        case Path():
            return str(value)
        case _:
            return {field.name: _to_plain(getattr(value, field.name)) for field in fields(value)}


def _without_userinfo(text: str) -> str:
    if "://" not in text or "@" not in text:
        return text
    parts = urlsplit(text)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
