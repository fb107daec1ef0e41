import errno
import os
import tempfile
from pathlib import Path

import pytest

from agentcli.types.errors import Exit
from agentcli.ui.crash import describe_crash, report_crash


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


def _fail(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("shortage", "said"),
    [
        (_fail(errno.EMFILE), "error: too many open files\n  fix: ulimit -n 4096"),
        (_fail(errno.ENFILE), "error: too many open files\n  fix: ulimit -n 4096"),
        (_fail(errno.ENOMEM), "error: not enough memory\n  fix: end other programs"),
        (MemoryError(), "error: not enough memory\n  fix: end other programs"),
        (RuntimeError("can't start new thread"), "error: not enough memory\n"),
        (ImportError("x.so: failed to map segment from shared object"), "error: not enough mem"),
        (_fail(errno.ENOSPC), "error: cannot write the output: No space left on device\n"),
    ],
)
def test_shortage_of_the_machine_is_no_bug(
    shortage: Exception,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert report_crash(shortage, is_debugging=True) == Exit.SETTINGS
    assert capsys.readouterr().err.startswith(said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_path_that_may_not_be_accessed_is_no_bug(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    error = OSError(number, os.strerror(number), "/home/a b/.local/state")
    assert report_crash(error) == Exit.SETTINGS
    said = capsys.readouterr().err
    assert said.startswith(f"error: cannot access /home/a b/.local/state: {os.strerror(number)}\n")
    assert said.endswith("fix: ls -ld '/home/a b/.local'\n")
