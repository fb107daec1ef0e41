import os
import subprocess
from pathlib import Path

import pytest

from agentcli.features.batch.trees import TaskTrees
from agentcli.system import own_process
from agentcli.system.git import PLAIN_DIFF, add_worktree, run_git
from agentcli.system.repository import UncommittedChanges
from agentcli.types.errors import SettingsError


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path))
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a.txt").write_text("one\n")
    commands = "git init -q; git add -A; git -c user.name=n -c user.email=e commit -qm m"
    subprocess.run(["bash", "-ec", commands], cwd=repo, check=True)
    return repo


def test_diff_is_what_git_says(repo: Path) -> None:
    (repo / "a.txt").write_text("two\n")
    assert "-one\n+two\n" in run_git("diff", *PLAIN_DIFF, "HEAD", cwd=repo)


def test_nothing_that_the_repository_has_set_is_run(repo: Path) -> None:
    ran = repo.parent / "ran"
    (repo / ".gitattributes").write_text("* filter=evil diff=evil\n")
    settings = {
        "filter.evil.clean": f"touch {ran}; cat",
        "filter.evil.process": f"touch {ran}",
        "filter.evil.required": "true",
        "diff.evil.command": f"touch {ran}",
        "diff.evil.textconv": f"touch {ran}",
        "diff.external": f"touch {ran}",
        "core.fsmonitor": f"touch {ran}; false",
        "core.pager": f"touch {ran}",
    }
    for name, value in settings.items():
        subprocess.run(["git", "config", name, value], cwd=repo, check=True)
    (repo / "a.txt").write_text("two\n")
    assert "+two" in run_git("diff", *PLAIN_DIFF, "HEAD", cwd=repo)
    run_git("ls-files", "--others", "--exclude-standard", cwd=repo)
    assert not ran.exists()


def test_environment_cannot_lead_to_another_repository(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    (repo / "a.txt").write_text("two\n")
    assert "+two" in run_git("diff", *PLAIN_DIFF, "HEAD", cwd=repo)


def test_failure_is_told_in_the_words_of_git(repo: Path) -> None:
    with pytest.raises(SettingsError, match="git rev-parse failed: fatal: "):
        run_git("rev-parse", "--verify", "nowhere", cwd=repo)


def test_missing_git_is_told(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo))
    monkeypatch.setattr(own_process, "SYSTEM_DIRECTORIES", ())
    with pytest.raises(SettingsError, match="git is not installed"):
        run_git("status", cwd=repo)


def settled(repo: Path, ran: Path, name: str) -> None:
    """A filter that would be run for every file, and a file that is changed."""
    (repo / ".gitattributes").write_text(f"* filter={name}\n")
    for key in ("clean", "smudge", "process"):
        setting = f"filter.{name}.{key}"
        subprocess.run(["git", "config", setting, f"touch {ran}; cat"], cwd=repo, check=True)
    (repo / "a.txt").write_text("two\n")


def test_filter_with_any_name_is_not_run(repo: Path) -> None:
    ran = repo.parent / "ran"
    for name in ("a=b", "=", "a.b=c.d", "A=B"):
        settled(repo, ran, name)
        run_git("status", cwd=repo)
        assert "+two" in run_git("diff", *PLAIN_DIFF, "HEAD", cwd=repo)
        assert not ran.exists(), name


def test_nothing_that_a_repository_in_the_repository_has_set_is_run(repo: Path) -> None:
    ran = repo.parent / "ran"
    inner = repo / "inner"
    inner.mkdir()
    (inner / "a.txt").write_text("one\n")
    commands = (
        "git -C inner init -q; git -C inner add -A;"
        "git -C inner -c user.name=n -c user.email=e commit -qm m; git add -A;"
        "git -c user.name=n -c user.email=e commit -qm inner"
    )
    subprocess.run(["bash", "-ec", commands], cwd=repo, check=True, capture_output=True)
    settled(inner, ran, "x")
    subprocess.run(
        ["git", "config", "core.fsmonitor", f"touch {ran}; false"], cwd=inner, check=True
    )

    assert run_git("diff", *PLAIN_DIFF, "HEAD", cwd=repo) == ""
    assert not TaskTrees(repo, out=repo.parent / "out").lacks_changes
    changes = UncommittedChanges(repo)
    changes.load()
    assert changes.known == ()
    assert not ran.exists()


@pytest.mark.parametrize("commit", ["--detach", "--lock", "-f"])
def test_commit_of_a_worktree_is_never_an_option(repo: Path, commit: str) -> None:
    with pytest.raises(SettingsError, match=commit):
        add_worktree(repo.parent / "tree", commit, root=repo)
    assert not (repo.parent / "tree").exists()
