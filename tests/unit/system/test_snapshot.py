import os
import subprocess
from pathlib import Path

import pytest

from agentcli.system.snapshot import WorkspaceSnapshot


def sh(command: str, cwd: Path) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(cwd)}
    ran = subprocess.run(
        ["bash", "-ec", command], cwd=cwd, env=env, check=True, capture_output=True, text=True
    )
    return ran.stdout


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "sub").mkdir()
    (workspace / "sub/b.txt").write_text("b\n")
    return workspace


@pytest.fixture(params=[False, True], ids=["folder", "repository"])
def tracked(request: pytest.FixtureRequest, workspace: Path) -> Path:
    if request.param:
        sh("git init -q; git add -A; git -c user.name=n -c user.email=e commit -qm m", workspace)
    return workspace


def change(workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"one\r\n2")
    (workspace / "sub/b.txt").unlink()
    (workspace / "sub/ü.bin").write_bytes(bytes(range(256)))


def test_patch_makes_the_old_state_the_new_one(tracked: Path, tmp_path: Path) -> None:
    sh("cp -r work before", tmp_path)
    snapshot = WorkspaceSnapshot(tracked, tmp_path / "kept.git")
    change(tracked)
    (tmp_path / "p.diff").write_text(snapshot.patch(), newline="")
    sh("rm -rf before/.git; cd before; git apply --whitespace=nowarn ../p.diff", tmp_path)
    assert sh("diff -r -x .git before work || true", tmp_path) == ""


def test_nothing_changed_is_an_empty_patch(tracked: Path, tmp_path: Path) -> None:
    assert WorkspaceSnapshot(tracked, tmp_path / "kept.git").patch() == ""


def test_what_was_dirty_before_is_not_part_of_the_patch(tracked: Path, tmp_path: Path) -> None:
    (tracked / "dirty.txt").write_text("mine\n")
    snapshot = WorkspaceSnapshot(tracked, tmp_path / "kept.git")
    (tracked / "new.txt").write_text("theirs\n")
    patch = snapshot.patch()
    assert "new.txt" in patch
    assert "dirty.txt" not in patch


def test_repository_itself_is_left_alone(workspace: Path, tmp_path: Path) -> None:
    sh("git init -q; git add a.txt", workspace)
    before = sh("find .git -type f | xargs sha256sum | sort", workspace)
    snapshot = WorkspaceSnapshot(workspace, tmp_path / "kept.git")
    change(workspace)
    snapshot.patch()
    assert sh("find .git -type f | xargs sha256sum | sort", workspace) == before


def test_ignored_files_are_not_part_of_the_patch(tracked: Path, tmp_path: Path) -> None:
    (tracked / ".gitignore").write_text("*.log\n")
    snapshot = WorkspaceSnapshot(tracked, tmp_path / "kept.git")
    (tracked / "x.log").write_text("noise\n")
    assert snapshot.patch() == ""


def test_what_a_repository_above_ignores_is_ignored_too(workspace: Path, tmp_path: Path) -> None:
    sh("git init -q; echo '*.secret' >> .git/info/exclude", workspace)
    (workspace / ".gitignore").write_text("# lists\nnode_modules/\n*.log\n/sub/only-here\n")
    snapshot = WorkspaceSnapshot(workspace / "sub", tmp_path / "kept.git")
    for name in ("node_modules/x.js", "deep/y.log", "z.secret", "new.txt", "only-here"):
        file = workspace / "sub" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("x\n")
    patch = snapshot.patch()
    named = [line.split(" b/")[1] for line in patch.splitlines() if line.startswith("diff ")]
    assert named == ["new.txt", "only-here"]


def test_settings_of_the_repository_run_nothing(workspace: Path, tmp_path: Path) -> None:
    sh("git init -q; git add -A", workspace)
    (workspace / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (workspace / ".git/config").write_text(
        f'[core]\n\tfsmonitor = "touch {tmp_path}/ran; false"\n'
        f'[filter "evil"]\n\tclean = touch {tmp_path}/ran\n\tsmudge = touch {tmp_path}/ran\n'
        f'[diff "evil"]\n\tcommand = touch {tmp_path}/ran\n\ttextconv = touch {tmp_path}/ran\n'
    )
    snapshot = WorkspaceSnapshot(workspace, tmp_path / "kept.git")
    change(workspace)
    assert "a.txt" in snapshot.patch()
    assert not (tmp_path / "ran").exists()


def test_index_of_another_kind_is_no_trouble(workspace: Path, tmp_path: Path) -> None:
    sh("git init -q; git add -A", workspace)
    (workspace / ".git/index").write_bytes(b"not an index")
    snapshot = WorkspaceSnapshot(workspace, tmp_path / "kept.git")
    (workspace / "a.txt").write_text("changed\n")
    assert "+changed" in snapshot.patch()


def test_close_leaves_nothing_behind(workspace: Path, tmp_path: Path) -> None:
    snapshot = WorkspaceSnapshot(workspace, tmp_path / "kept.git")
    snapshot.close()
    assert not (tmp_path / "kept.git").exists()
