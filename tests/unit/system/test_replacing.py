import fcntl
import os
import resource
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from agentcli.system.workspace import Workspace
from agentcli.types.errors import ToolError
from tests.support.files import IS_ROOT, refusal, tree


def replaced(root: Path, name: str, data: bytes) -> tuple[str, ...]:
    workspace = Workspace(root)
    place = workspace.locate(name)
    return workspace.replace(place, data, expected=(root / name).read_bytes()).notes


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o640, 0o666, 0o700])
def test_mode_is_kept(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes(b"old")
    file.chmod(mode)
    assert replaced(tmp_path, "run.sh", b"new") == ()
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", mode)


def test_new_files_get_the_usual_mode(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    before = os.umask(0o022)
    try:
        workspace.replace(workspace.locate("new"), b"", expected=None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644


def test_what_a_killed_process_left_is_removed_once_it_is_old(tmp_path: Path) -> None:
    left, fresh = f".agentcli-{'0' * 16}.tmp", f".agentcli-{'1' * 16}.tmp"
    others = (".agentcli-notes.tmp", "agentcli.tmp", "file")
    for name in (left, fresh, *others):
        (tmp_path / name).write_bytes(b"old")
        if name != fresh:
            os.utime(tmp_path / name, (1_000_000_000, 1_000_000_000))
    replaced(tmp_path, "file", b"new")
    assert sorted(tree(tmp_path)) == sorted((fresh, *others))


def test_a_hard_link_is_broken_and_told(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "other").write_bytes(b"old")
    (tmp_path / "ws/linked").hardlink_to(tmp_path / "other")
    assert replaced(tmp_path / "ws", "linked", b"new") == (
        "it had 1 other hard link, not changed: the old text is kept under those names",
    )
    assert tree(tmp_path) == {"other": b"old", "ws/linked": b"new"}


@pytest.mark.skipif(sys.platform != "linux", reason="extended attributes")
def test_extended_attributes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    try:
        os.setxattr(tmp_path / "file", "user.note", b"kept")
    except OSError:
        pytest.skip("the file system has none")
    replaced(tmp_path, "file", b"new")
    assert os.getxattr(tmp_path / "file", "user.note") == b"kept"


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files away")
def test_owner_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    os.chown(tmp_path / "file", 12345, 23456)
    replaced(tmp_path, "file", b"new")
    found = (tmp_path / "file").stat()
    assert (found.st_uid, found.st_gid) == (12345, 23456)


@pytest.mark.skipif(IS_ROOT, reason="root may write anything")
def test_read_only_files_and_directories_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o444)
    assert refusal(replaced, tmp_path, "file", b"new") == (
        "Not written: file is read-only (mode 0444)."
    )
    file.chmod(0o644)
    tmp_path.chmod(0o555)
    try:
        assert refusal(replaced, tmp_path, "file", b"new") == (
            "Not written: file: Permission denied. Nothing changed."
        )
    finally:
        tmp_path.chmod(0o755)
    assert tree(tmp_path) == {"file": b"old"}


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        workspace = Workspace(tmp_path)
        messages = [
            refusal(replaced, tmp_path, "file", b"x" * 200_000),
            refusal(workspace.replace, workspace.locate("a/new"), b"x" * 200_000, expected=None),
        ]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert messages == [
        "Not written: file: File too large. Nothing changed.",
        "Not written: a/new: File too large. Nothing changed.",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_sessions_that_write_one_file_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "shared"
    file.write_bytes(b"")

    def append(line: bytes) -> None:
        workspace = Workspace(tmp_path)
        place = workspace.locate("shared")
        while True:
            before = file.read_bytes()
            with suppress(ToolError):  # another one was faster
                workspace.replace(place, before + line, expected=before)
                return

    lines = [b"%d\n" % number for number in range(60)]
    with ThreadPoolExecutor(max_workers=6) as sessions:
        list(sessions.map(append, lines))
    assert sorted(file.read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_a_strangers_lock_does_not_stop_a_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        replaced(tmp_path, "file", b"new")
    finally:
        os.close(handle)
    assert tree(tmp_path) == {"file": b"new"}
