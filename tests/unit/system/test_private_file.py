import errno
import os
import stat
from pathlib import Path

import pytest

from agentcli.system.files import build_unwritable_error, remove_private, write_private
from agentcli.types.errors import SettingsError


def test_file_is_whole_private_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "keys.toml"
    write_private(path, "first\n")
    write_private(path, "second, of any bytes: \udcff\n")
    assert path.read_bytes() == b"second, of any bytes: \xff\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_file_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.mkdir()
    with pytest.raises(SettingsError, match=r"cannot write .*keys.toml") as refused:
        write_private(path, "text")
    assert refused.value.hint == f"ls -ld {tmp_path}"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_is_answered_with_how_to_see_it(tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert build_unwritable_error(tmp_path / "log", error).hint == f"df -h {tmp_path}"


def test_what_is_not_there_need_not_be_removed(tmp_path: Path) -> None:
    remove_private(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []
