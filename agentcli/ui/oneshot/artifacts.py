"""The files that a run writes: the answer, the patch, reports, and all of it in one directory.

They are checked for writing before the first model request, and written however the run ends.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from agentcli.session.session import Session
from agentcli.system.folder import Folder
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.settings import Settings
from agentcli.ui.oneshot.reports import (
    RunSummary,
    render_junit,
    render_markdown,
    render_sarif,
    write_job_files,
)
from agentcli.ui.oneshot.request import RunRequest
from agentcli.ui.oneshot.runner import RunState
from agentcli.ui.streams import write_err

# Files that a run writes at its end, opened before the model can do anything.


_PROBE = ".agentcli-probe"


class OutputFile:
    def __init__(self, path: Path) -> None:
        """Open the file; its content stays until `write`.

        Raise UsageError if it cannot be opened.
        """
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", hint="choose a path that you can write to"
            ) from None

    def write(self, text: str) -> None:
        """Replace the content. Raise OSError if that fails."""
        try:
            if stat.S_ISREG(os.fstat(self._handle).st_mode):
                os.ftruncate(self._handle, 0)
            _write_whole(self._handle, text)
        finally:
            os.close(self._handle)


class OutputFolder:
    def __init__(self, path: Path) -> None:
        """Create the directory if it is missing. Raise UsageError if it cannot be used."""
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = Folder.open(Path(os.path.realpath(path)))
            self.check_writable()
        except OSError as error:
            raise UsageError(
                f"cannot write to the output directory {path}: {error.strerror}",
                hint="--output-dir DIR, with a directory that you can write to",
            ) from None

    def check_writable(self) -> None:
        """Raise OSError if nothing could be written to it."""
        self.write(_PROBE, "")
        self._folder.unlink(_PROBE)

    def write(self, name: str, text: str) -> None:
        """Write a file, replacing whatever has that name. Raise OSError if that fails."""
        with suppress(FileNotFoundError):
            self._folder.unlink(name)
        # It holds what the model and the commands said, which is for the user alone.
        handle = self._folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600)
        try:
            _write_whole(handle, text)
        finally:
            os.close(handle)


def _write_whole(handle: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(handle, data) :]


class ReportFormat(StrEnum):
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    SARIF = "sarif"


GITHUB = frozenset({ReportFormat.GITHUB})
_DIRECTORY_FORMATS = (ReportFormat.JUNIT, ReportFormat.MARKDOWN, ReportFormat.SARIF)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFiles:
    """Everything that will be written, opened for writing."""

    directory: OutputFolder | None = None
    patch: OutputFile | None = None
    last_message: OutputFile | None = None
    reports: frozenset[ReportFormat] = frozenset()

    @property
    def wants_patch(self) -> bool:
        has_page = bool(self.reports & {ReportFormat.MARKDOWN, ReportFormat.GITHUB})
        return bool(self.patch or self.directory or has_page)

    def write_named_files(self, *, answer: str, patch: str) -> None:
        """Write the files that the user named.

        Raise SettingsError if that fails, or if the directory can no longer be written to: this
        must be known before the log is closed.
        """
        with _report_write_errors("the answer or the patch"):
            if self.last_message is not None:
                self.last_message.write(answer.rstrip("\n") + "\n")
            if self.patch is not None:
                self.patch.write(patch)
        with _report_write_errors("to the output directory"):
            if self.directory is not None:
                self.directory.check_writable()

    def write(self, summary: RunSummary, *, settings: Settings | None, log: Path | None) -> None:
        """Write the directory and the reports.

        Raise SettingsError if the disk no longer takes them.
        """
        with _report_write_errors("what the run leaves"):
            if self.directory is not None:
                for name, text in self._render_files(summary, settings, log=log):
                    self.directory.write(name, text)
        if ReportFormat.GITHUB in self.reports:
            self._write_job_files(summary)

    def _write_job_files(self, summary: RunSummary) -> None:
        """Write the files of the job.

        They belong to the CI runner: if that fails, the run does not fail.
        """
        try:
            write_job_files(summary)
        except OSError as error:
            write_err(
                f"warning: cannot write the job summary: {error.filename}: {error.strerror}\n"
            )

    def _render_files(
        self, summary: RunSummary, settings: Settings | None, *, log: Path | None
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


def open_files(
    *,
    directory: Path | None = None,
    patch: Path | None = None,
    last_message: Path | None = None,
    reports: frozenset[ReportFormat] = frozenset(),
) -> ArtifactFiles:
    """Open everything that will be written. Raise UsageError if a part of it cannot be."""
    for form in _DIRECTORY_FORMATS:
        if form in reports and directory is None:
            raise UsageError(
                f"--report {form} needs a directory to write to", hint="add --output-dir DIR"
            )
    return ArtifactFiles(
        directory=OutputFolder(directory) if directory else None,
        patch=OutputFile(patch) if patch else None,
        last_message=OutputFile(last_message) if last_message else None,
        reports=reports,
    )


@contextmanager
def _report_write_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"cannot write {what}: {error.strerror}",
            hint="choose a path with free space that the run does not change",
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
            raise UsageError(f"unknown report {name!r}", hint=f"--report takes {known}")
    return frozenset(map(ReportFormat, names))


def build_settings_json(settings: Settings) -> dict[str, Any]:
    """Return the effective settings.

    They contain no key; addresses lose user names and passwords.
    """
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


# All artifacts of a run, from the state before its first request to its last file.


class Artifacts:
    """The files of a request, besides the output of its renderers."""

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        self._files: ArtifactFiles | None = None
        self._is_named_written = False
        self.since: str | None = None
        """The stored state of the workspace before the first request, if a patch is wanted."""
        self._unstored = ""
        """Why there is no such state, though a patch is written."""

    @property
    def has_named_patch(self) -> bool:
        return self._request.patch is not None

    def open_files(self) -> None:
        """Open the files. Raise UsageError if one cannot be written; then none will be."""
        request = self._request
        self._files = open_files(
            directory=request.output_dir,
            patch=request.patch,
            last_message=request.last_message,
            reports=parse_reports(request.reports) | (GITHUB if request.on_github else frozenset()),
        )

    async def begin(self, session: Session) -> None:
        """Store the state of the workspace. Raise SettingsError if a patch would be incomplete."""
        if self._files is None or not self._files.wants_patch:
            return
        try:
            self.since = await session.checkpoints.capture_workspace()
        except SettingsError as error:
            if self.has_named_patch:
                raise
            self._unstored = str(error)
            # Nobody asked for a patch itself: the reports show what the calls changed.

    def write_named_files(self, run: RunState) -> None:
        """Write the files that the user named. Raise SettingsError if that fails."""
        if self._files is None or self._is_named_written:
            return
        self._is_named_written = True
        if self._unstored:
            run.tally.add_whole_omission(self._unstored)
        answer = self._request.render_answer(run.tally)
        self._files.write_named_files(answer=answer, patch=run.patch)

    def write(self, run: RunState) -> None:
        """Write everything, including the reports on the outcome.

        Raise SettingsError if that fails.
        """
        if self._files is None:
            return
        self.write_named_files(run)
        summary = RunSummary(
            outcome=run.outcome,
            tally=run.tally,
            findings=tuple(self._request.collect_findings(run.tally, run.outcome)),
            answer=self._request.render_answer(run.tally),
            patch=run.patch,
        )
        settings = run.task.settings if run.task else None
        self._files.write(summary, settings=settings, log=run.log)
