import os
from pathlib import Path

import pytest

from agentcli.system.files import open_regular, read_regular


def test_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\r\ntwo")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file") == b"one\r\ntwo"
    assert read_regular(tmp_path / "link", 3) == b"one"
    with open_regular(tmp_path / "file") as file:
        assert file.readline() == b"one\r\n"


def test_pipe_and_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "link", "endless"):
        with pytest.raises(OSError, match="Not a regular file"):
            read_regular(tmp_path / name)


def test_other_paths_raise_the_errors_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing")


def test_link_to_the_null_device_is_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "off").symlink_to(os.devnull)
    assert read_regular(tmp_path / "off") == b""
