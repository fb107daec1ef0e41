import tempfile
from pathlib import Path

import pytest

from agentcli.ui.crash import describe_crash


def test_bug_is_reported_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    what, fix = describe_crash(ZeroDivisionError("of all things"))
    (report,) = tmp_path.iterdir()
    assert what == "internal error: ZeroDivisionError: of all things"
    assert fix == f"report it and attach {report}"
    assert "ZeroDivisionError" in report.read_text()


def test_bug_is_said_where_no_report_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    what, fix = describe_crash(ZeroDivisionError("of all things"))
    assert what == "internal error: ZeroDivisionError: of all things"
    assert "no report could be written" in fix
