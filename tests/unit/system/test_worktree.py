import subprocess
import tempfile
from pathlib import Path

import pytest

from agentcli.system.plain_text import NAME_CHARS
from agentcli.system.repository import UncommittedChanges, find_branch
from tests.support.terminal import until


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def test_branch_is_read_from_anywhere_in_the_tree(repository: Path, tmp_path: Path) -> None:
    (repository / "deep" / "er").mkdir(parents=True)
    git(repository, "worktree", "add", "-q", "-b", "fix/it", str(tmp_path / "other"))
    assert find_branch(repository / "deep" / "er") == "branch main"
    assert find_branch(tmp_path / "other") == "branch fix/it"
    git(repository, "checkout", "-q", "--detach")
    assert find_branch(repository).startswith("commit ")
    assert len(find_branch(repository)) == len("commit ") + 12


def test_what_is_no_repository_has_no_branch(tmp_path: Path) -> None:
    for name, content in (("none", None), ("lying", "gitdir: ../nowhere"), ("words", "hello\0")):
        folder = tmp_path / name
        folder.mkdir()
        if content is not None:
            (folder / ".git").write_text(content)
        assert find_branch(folder) == ""


@pytest.mark.parametrize("name", ["x" * 200, "a\x1b[31mred", "right\u202eleft", "é"])
def test_branch_of_any_name_is_short_and_harmless(tmp_path: Path, name: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(f"ref: refs/heads/{name}\n")
    shown = find_branch(tmp_path)
    assert shown.startswith("branch ")
    assert shown.isprintable()
    assert len(shown) <= NAME_CHARS + len("branch ")


def test_changes_are_known_after_git_was_asked(repository: Path) -> None:
    (repository / "a.py").write_text("2\n")
    (repository / "new file.py").write_text("")
    changes = UncommittedChanges(repository)
    assert changes.known is None
    changes.load()
    assert changes.known == (" M a.py", "?? new file.py")


def test_changes_are_asked_for_without_running_what_the_repository_sets(repository: Path) -> None:
    ran = repository.parent / "ran"
    (repository / ".gitattributes").write_text("*.py filter=evil\n")
    for key in ("filter.evil.clean", "core.fsmonitor"):
        git(repository, "config", key, f"touch {ran}; cat")
    (repository / "a.py").write_text("3\n")
    changes = UncommittedChanges(repository)
    changes.load()
    assert changes.known
    assert not ran.exists()


def test_changes_of_what_is_no_repository_or_was_closed_are_never_known(
    tmp_path: Path, repository: Path
) -> None:
    changes = UncommittedChanges(tmp_path)
    changes.load()
    closed = UncommittedChanges(repository)
    closed.close()
    closed.load()
    assert (changes.known, closed.known) == (None, None)


def test_closing_early_leaves_no_temporary_directory(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    changes = UncommittedChanges(repository)
    changes.request()
    until(lambda: any(temporary.iterdir()) or changes.known is not None, "git is prepared")
    changes.close()
    assert list(temporary.iterdir()) == []
