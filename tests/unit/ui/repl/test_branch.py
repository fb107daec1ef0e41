import asyncio
import subprocess
from pathlib import Path

import pytest

from agentcli.ui.repl.state import GitBranch

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.com")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run(["git", *IDENTITY, *words], cwd=tmp_path, check=True)
    return tmp_path


def shown(folder: Path) -> str:
    branch = GitBranch(folder)
    asyncio.run(branch.refresh())
    return branch.name


def test_branch_has_a_star_when_something_tracked_is_changed(repo: Path) -> None:
    (repo / "new.txt").write_text("untracked\n")
    assert shown(repo) == "main"
    (repo / "a.txt").write_text("two\n")
    assert shown(repo) == "main*"


def test_name_is_there_before_git_has_answered(repo: Path) -> None:
    assert GitBranch(repo).name.rstrip("*") == "main"


def test_folder_without_a_repository_has_no_branch(tmp_path: Path) -> None:
    assert shown(tmp_path) == ""


def test_nothing_that_the_repository_names_is_run(repo: Path) -> None:
    planted = f"touch {repo}/ran; cat"
    settings = {"filter.x.clean": planted, "filter.x.required": "true", "core.fsmonitor": planted}
    for name, value in settings.items():
        subprocess.run(["git", "config", name, value], cwd=repo, check=True)
    (repo / ".git/info/attributes").write_text("* filter=x\n")
    (repo / "a.txt").write_text("two\n")
    assert shown(repo) == "main*"
    assert not (repo / "ran").exists()
