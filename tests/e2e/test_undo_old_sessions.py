import shutil
import stat
import tarfile
from pathlib import Path
from typing import Any

from tests.support.program import agentcli

RECORDED = Path(__file__).parents[2] / "fixtures" / "undo" / "session.tar.xz"
"""A session of version 0.1.0: its log, the stored states, and the workspace before and after.

Its calls edited, created, moved, removed and linked files, and changed permissions. The states are
partly single objects, partly in a pack.
"""
UNCHANGED: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
"""Python before 3.11.4 has no filters, and extracts unchanged."""


def read_tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of everything below the root."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = (stat.S_IFLNK, bytes(path.readlink()))
        else:
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(root))] = (path.stat().st_mode, content)
    return found


def test_recorded_session_can_be_undone_and_redone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, **UNCHANGED)
    shutil.copytree(tmp_path / "state", home / ".local/state/agentcli")
    session = next((tmp_path / "state/sessions").iterdir()).name
    work = tmp_path / "work"
    after = read_tree(work)

    undone = agentcli("undo", session, "-C", work, "--turn", "1", home=home)
    assert undone.code == 0, undone.err
    assert read_tree(work) == read_tree(tmp_path / "before") != after
    assert agentcli("undo", session, "-C", work, "--redo", home=home).code == 0
    assert read_tree(work) == after
    verified = agentcli("audit", "verify", session, home=home)
    assert verified.code == 0, verified.out
