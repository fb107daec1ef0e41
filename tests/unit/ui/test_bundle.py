from pathlib import Path

import pytest

from agentcli.types.errors import Ending, RunOutcome, SettingsError, UsageError
from agentcli.types.settings import CustomProvider, Settings
from agentcli.ui.oneshot.artifacts import (
    ReportFormat,
    build_settings_json,
    open_files,
    parse_reports,
)
from agentcli.ui.oneshot.reports import RunSummary
from agentcli.ui.tally import Tally

ACCOUNT = RunSummary(
    outcome=RunOutcome(ending=Ending.DONE), tally=Tally(), findings=(), answer="Hi.", patch="+x\n"
)


def test_reports_are_named_together_or_one_by_one() -> None:
    both = frozenset({ReportFormat.JUNIT, ReportFormat.SARIF})
    assert parse_reports(["junit, sarif"]) == parse_reports(["junit", "sarif"]) == both
    assert parse_reports([]) == frozenset()
    with pytest.raises(UsageError, match="unknown report 'html'"):
        parse_reports(["html"])


def test_settings_lose_passwords_in_addresses() -> None:
    own = CustomProvider(name="x", protocol="openai-chat", base_url="http://me:pw@host:1/v1")
    written = build_settings_json(Settings(workspace=Path("/w"), providers=(own,)))
    assert written["providers"][0]["base_url"] == "http://host:1/v1"
    assert written["workspace"] == "/w"


def test_files_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    bundle = open_files(
        patch=tmp_path / "p.diff",
        last_message=tmp_path / "answer.md",
        directory=tmp_path / "out",
        reports=frozenset(ReportFormat) - {ReportFormat.GITHUB},
    )
    bundle.write_named_files(answer=ACCOUNT.answer, patch=ACCOUNT.patch)
    bundle.write(ACCOUNT, settings=Settings(workspace=tmp_path), log=None)
    assert (tmp_path / "answer.md").read_text() == "Hi.\n"
    assert (tmp_path / "p.diff").read_text() == "+x\n"
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "answer.md",
        "junit.xml",
        "patch.diff",
        "report.md",
        "report.sarif",
        "result.json",
        "settings.json",
    ]


def test_check_of_files_leaves_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "p.diff").write_text("old")
    open_files(patch=tmp_path / "p.diff")
    assert (tmp_path / "p.diff").read_text() == "old"


def test_disk_that_fails_later_is_said(tmp_path: Path) -> None:
    bundle = open_files(directory=tmp_path / "out")
    (tmp_path / "out").rmdir()
    with pytest.raises(SettingsError):
        bundle.write_named_files(answer="", patch="")
    with pytest.raises(SettingsError):
        bundle.write(ACCOUNT, settings=None, log=None)


def test_link_that_was_planted_meanwhile_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    bundle = open_files(
        directory=tmp_path / "out", patch=tmp_path / "p.diff", last_message=tmp_path / "m.md"
    )
    (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "out").symlink_to(victim)
    (tmp_path / "moved/answer.md").symlink_to(victim / "file")
    for name in ("p.diff", "m.md"):
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to(victim / "file")
    bundle.write_named_files(answer=ACCOUNT.answer, patch=ACCOUNT.patch)
    bundle.write(ACCOUNT, settings=None, log=None)
    assert [file.name for file in victim.iterdir()] == ["file"]
    assert (victim / "file").read_text() == "mine"
    assert (tmp_path / "moved/answer.md").read_text() == "Hi.\n"
