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
from agentcli.ui.outlets import FileOutlet, FolderOutlet
from agentcli.ui.reports import junit, markdown, sarif
from agentcli.ui.reports.account import Account
from agentcli.ui.reports.github import write_job_files
from agentcli.ui.streams import write_err


class ReportForm(StrEnum):
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    SARIF = "sarif"


GITHUB = frozenset({ReportForm.GITHUB})
_IN_THE_DIRECTORY = (ReportForm.JUNIT, ReportForm.MARKDOWN, ReportForm.SARIF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leavings:
    patch: Path | None = None
    last_message: Path | None = None
    directory: Path | None = None
    reports: frozenset[ReportForm] = frozenset()

    @property
    def wants_patch(self) -> bool:
        has_page = bool(self.reports & {ReportForm.MARKDOWN, ReportForm.GITHUB})
        return bool(self.patch or self.directory or has_page)

    def opened(self) -> "Bundle":
        """Raises UsageError where something of it could not be written."""
        for form in _IN_THE_DIRECTORY:
            if form in self.reports and self.directory is None:
                raise UsageError(
                    f"--report {form} needs a directory to write to", hint="add --output-dir DIR"
                )
        return Bundle(
            directory=FolderOutlet(self.directory) if self.directory else None,
            patch=FileOutlet(self.patch) if self.patch else None,
            last_message=FileOutlet(self.last_message) if self.last_message else None,
            reports=self.reports,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The same, ready to be written to."""

    directory: FolderOutlet | None = None
    patch: FileOutlet | None = None
    last_message: FileOutlet | None = None
    reports: frozenset[ReportForm] = frozenset()

    def write_named(self, *, answer: str, patch: str) -> None:
        """The files that have a name of their own. Raises SettingsError, also where the directory
        takes nothing any more: that is to be known before the log is closed."""
        with _told("the answer or the patch"):
            if self.last_message is not None:
                self.last_message.put(answer.rstrip("\n") + "\n")
            if self.patch is not None:
                self.patch.put(patch)
        with _told("to the output directory"):
            if self.directory is not None:
                self.directory.probe()

    def write(self, account: Account, *, settings: Settings | None, log: Path | None) -> None:
        """Raises SettingsError where the disk no longer takes what it did before."""
        with _told("what the run leaves"):
            if self.directory is not None:
                for name, text in self._files(account, settings, log):
                    self.directory.put(name, text)
        if ReportForm.GITHUB in self.reports:
            self._tell_the_job(account)

    def _tell_the_job(self, account: Account) -> None:
        """Its files are the runner's: that they cannot be written is no failure of the run."""
        try:
            write_job_files(account)
        except OSError as error:
            write_err(f"warning: the job was not told: {error.filename}: {error.strerror}\n")

    def _files(
        self, account: Account, settings: Settings | None, log: Path | None
    ) -> Iterator[tuple[str, str]]:
        result = {"v": 1, "session": account.tally.session, **account.tally.result(account.outcome)}
        yield "result.json", _json(result)
        yield "answer.md", account.answer.rstrip("\n") + "\n"
        yield "patch.diff", account.patch
        if settings is not None:
            yield "settings.json", _json(settings_json(settings))
        if log is not None:
            yield "log.jsonl", log.read_text(encoding="utf-8", errors="replace")
        for form in _IN_THE_DIRECTORY:
            if form in self.reports:
                yield _FILE_OF_FORM[form], _report(form, account)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"cannot write {what}: {error.strerror}",
            hint="write to a place that has room and that the run leaves alone",
        ) from error


_FILE_OF_FORM = {
    ReportForm.JUNIT: "junit.xml",
    ReportForm.MARKDOWN: "report.md",
    ReportForm.SARIF: "report.sarif",
}


def parse_reports(given: Iterable[str]) -> frozenset[ReportForm]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    known = ", ".join(ReportForm)
    for name in names:
        if name not in list(ReportForm):
            raise UsageError(f"there is no report {name!r}", hint=f"--report takes {known}")
    return frozenset(map(ReportForm, names))


def settings_json(settings: Settings) -> dict[str, Any]:
    """The effective settings. No key is among them; addresses lose what may be a password."""
    return {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}


def _report(form: ReportForm, account: Account) -> str:
    match form:
        case ReportForm.JUNIT:
            return junit.junit(account)
        case ReportForm.SARIF:
            return sarif.sarif(account)
        case _:
            return markdown.markdown(account)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _without_userinfo(value)
        case tuple() | list():
            return [_plain(item) for item in value]
        case frozenset():
            return sorted(map(str, value))
        case Path():
            return str(value)
        case _:
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _without_userinfo(text: str) -> str:
    if "://" not in text or "@" not in text:
        return text
    parts = urlsplit(text)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
