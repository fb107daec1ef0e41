import subprocess
from pathlib import Path

import pytest

from agentcli.guard.sandbox.newcomers import Newcomers


def git(*words: object) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    git("init", "-q", workspace)
    git("-C", workspace, "commit", "-q", "--allow-empty", "-m", "first")
    return workspace


def swept(newcomers: Newcomers) -> tuple[str, ...]:
    newcomers.look()
    return newcomers.told()


def test_new_repository_loses_what_would_run_and_keeps_the_rest(
    workspace: Path, tmp_path: Path
) -> None:
    newcomers = Newcomers(workspace, rejected=tmp_path / "rejected")
    new = workspace / "deep/new"
    git("init", "-q", new)
    git("-C", new, "remote", "add", "origin", "git@example.com:a/b.git")
    assert swept(newcomers) == ()

    (new / ".git/hooks/pre-commit").write_text("evil")
    told = swept(newcomers)
    git("-C", new, "config", "core.fsmonitor", "evil")
    told += swept(newcomers)

    assert [sentence.split(" was made")[0] for sentence in told] == [
        "deep/new/.git/hooks",
        "deep/new/.git/config",
    ]
    assert not (new / ".git/hooks").exists()
    git("-C", new, "status")
    newcomers.close()


def test_clones_and_linked_worktrees_are_left_alone(workspace: Path, tmp_path: Path) -> None:
    newcomers = Newcomers(workspace, rejected=tmp_path / "rejected")
    git("clone", "-q", workspace, workspace / "clone")
    url = "ssh://git@example.com:22/a/b.git"
    git("-C", workspace / "clone", "remote", "set-url", "origin", url)
    git("-C", workspace, "worktree", "add", "-q", workspace / "tree")

    assert swept(newcomers) == ()

    git("-C", workspace / "tree", "status")
    (workspace / ".git/worktrees/tree/commondir").write_text("../../../evil")
    assert len(swept(newcomers)) == 1
    newcomers.close()


def test_repositories_of_before_are_not_newcomers(workspace: Path, tmp_path: Path) -> None:
    (workspace / ".git/hooks/pre-commit").write_text("mine")
    newcomers = Newcomers(workspace, rejected=tmp_path / "rejected")

    assert swept(newcomers) == ()
    assert (workspace / ".git/hooks/pre-commit").read_text() == "mine"
    newcomers.close()
