import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentcli.sandbox.git_paths import find_repositories
from agentcli.sandbox.restore import GuardedPaths
from agentcli.sandbox.supervisor import NewRepositoryScan, OriginalState

APART_S = 0.3
"""Seconds between commands, more than the times of files may be off."""


def git(*words: object) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *map(str, words)], check=True, capture_output=True)


def read_settings(repository: Path) -> dict[str, str]:
    words = ("git", "-C", repository, "config", "--local", "--list")
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return dict(line.split("=", 1) for line in listed.splitlines())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    git("init", "-q", workspace)
    git("-C", workspace, "commit", "-q", "--allow-empty", "-m", "first")
    return workspace


@pytest.fixture
def original() -> OriginalState:
    return OriginalState()


def scan_in(workspace: Path, original: OriginalState, *, rejected: Path) -> NewRepositoryScan:
    known = tuple(find_repositories(workspace))
    return NewRepositoryScan(workspace, known=known, original=original, rejected=rejected)


@pytest.fixture
def scan(workspace: Path, original: OriginalState, tmp_path: Path) -> Iterator[NewRepositoryScan]:
    scan = scan_in(workspace, original, rejected=tmp_path / "rejected")
    yield scan
    scan.close()


@contextmanager
def command(original: OriginalState, tmp_path: Path) -> Iterator[None]:
    original.begin(GuardedPaths((), roots=(), rejected=tmp_path))
    yield
    original.end()


def between_commands() -> None:
    """Until the clock shows that what was just done is before or after a command."""
    until = time.time() + APART_S
    while time.time() < until:
        time.sleep(0.01)


def swept(scan: NewRepositoryScan) -> tuple[str, ...]:
    scan.look()
    return scan.take_notes()


def test_new_repository_loses_what_would_run_and_keeps_the_rest(
    workspace: Path, tmp_path: Path, scan: NewRepositoryScan, original: OriginalState
) -> None:
    new = workspace / "deep/new"
    with command(original, tmp_path):
        git("init", "-q", new)
        git("-C", new, "remote", "add", "origin", "git@example.com:a/b.git")
    assert swept(scan) == ()

    with command(original, tmp_path):
        (new / ".git/hooks/pre-commit").write_text("evil")
    told = swept(scan)
    with command(original, tmp_path):
        git("-C", new, "config", "core.fsmonitor", "evil")
    told += swept(scan)

    assert [sentence.split(" by the command")[0] for sentence in told] == [
        "deep/new/.git/hooks was made",
        "deep/new/.git/config was written",
    ]
    assert not (new / ".git/hooks").exists()
    git("-C", new, "status")
    assert read_settings(new)["remote.origin.url"] == "git@example.com:a/b.git"
    assert "core.fsmonitor" not in read_settings(new)


def test_clones_and_linked_worktrees_are_left_alone(
    workspace: Path, tmp_path: Path, scan: NewRepositoryScan, original: OriginalState
) -> None:
    with command(original, tmp_path):
        git("clone", "-q", workspace, workspace / "clone")
        url = "ssh://git@example.com:22/a/b.git"
        git("-C", workspace / "clone", "remote", "set-url", "origin", url)
        git("-C", workspace, "worktree", "add", "-q", workspace / "tree")
    assert swept(scan) == ()

    git("-C", workspace / "tree", "status")
    with command(original, tmp_path):
        (workspace / ".git/worktrees/tree/commondir").write_text("../../../evil")
    assert len(swept(scan)) == 1


def test_repositories_of_before_are_not_newcomers(
    workspace: Path, tmp_path: Path, original: OriginalState
) -> None:
    (workspace / ".git/hooks/pre-commit").write_text("mine")
    scan = scan_in(workspace, original, rejected=tmp_path / "rejected")
    with command(original, tmp_path):
        (workspace / ".git/hooks/other").write_text("put back by whoever holds it")

    assert swept(scan) == ()
    assert (workspace / ".git/hooks/pre-commit").read_text() == "mine"
    scan.close()


def test_what_the_person_does_between_commands_stays(
    workspace: Path, tmp_path: Path, scan: NewRepositoryScan, original: OriginalState
) -> None:
    between_commands()
    git("init", "-q", workspace / "mine")
    git("-C", workspace / "mine", "config", "alias.x", "!true")
    (workspace / "mine/.git/hooks/pre-commit").write_text("mine")
    between_commands()
    with command(original, tmp_path):
        git("-C", workspace / "mine", "status")
    assert swept(scan) == ()

    between_commands()
    with command(original, tmp_path):
        (workspace / "mine/.git/hooks/pre-push").write_text("evil")
    [told] = swept(scan)
    assert told.startswith("mine/.git/hooks was made by the command")
    assert "alias" in (workspace / "mine/.git/config").read_text()


def test_repository_that_is_moved_to_its_place_later_is_a_commands(
    workspace: Path, tmp_path: Path, scan: NewRepositoryScan, original: OriginalState
) -> None:
    with command(original, tmp_path):
        git("init", "-q", workspace / "node_modules/made")
        (workspace / "node_modules/made/.git/hooks/pre-commit").write_text("evil")
    assert swept(scan) == ()
    between_commands()
    with command(original, tmp_path):
        (workspace / "node_modules/made").rename(workspace / "made")
    [told] = swept(scan)
    assert told.startswith("made/.git/hooks was made by the command")


def test_repository_of_before_that_is_moved_to_its_place_is_a_commands(
    workspace: Path, tmp_path: Path, original: OriginalState
) -> None:
    git("init", "-q", workspace / "node_modules/made")
    (workspace / "node_modules/made/.git/hooks/pre-commit").write_text("evil")
    between_commands()
    scan = scan_in(workspace, original, rejected=tmp_path / "rejected")
    with command(original, tmp_path):
        (workspace / "node_modules/made").rename(workspace / "made")
    [told] = swept(scan)
    assert told.startswith("made/.git/hooks was made by the command")
    scan.close()


def test_pointer_out_of_the_workspace_is_taken_away(
    workspace: Path, tmp_path: Path, scan: NewRepositoryScan, original: OriginalState
) -> None:
    git("init", "-q", tmp_path / "outside")
    with command(original, tmp_path):
        (workspace / "by-file").mkdir()
        (workspace / "by-file/.git").write_text(f"gitdir: {tmp_path}/outside/.git\n")
        (workspace / "by-link").mkdir()
        (workspace / "by-link/.git").symlink_to(tmp_path / "outside/.git")
    told = swept(scan)
    assert [sentence.split(" was made")[0] for sentence in told] == ["by-file/.git", "by-link/.git"]
    assert [*workspace.glob("by-*/.git")] == []
    assert (tmp_path / "outside/.git/config").exists()


@pytest.mark.parametrize("target", [" zz", "zz ", "zz\x0b"])
def test_blanks_in_a_pointer_hide_no_repository(
    workspace: Path,
    tmp_path: Path,
    scan: NewRepositoryScan,
    original: OriginalState,
    target: str,
) -> None:
    with command(original, tmp_path):
        git("init", "-q", workspace / "made")
        (workspace / "made/.git").rename(workspace / "made" / target)
        (workspace / "made/.git").write_text(f"gitdir: {target}\n")
        git("-C", workspace / "made", "config", "core.fsmonitor", "evil")
    told = swept(scan)
    assert len(told) == 1
    assert "/config was written by the command" in told[0]
    assert "evil" not in (workspace / "made" / target / "config").read_text()


def add_link(root: Path, path: str) -> None:
    entry = f"160000,{'1' * 40},{path}"
    git("-C", root, "update-index", "--add", "--cacheinfo", entry)


@pytest.mark.parametrize("place", ["a/b/c/d/e", "node_modules/e", "z"])
def test_repository_that_git_enters_by_itself_is_found_wherever_it_is(
    workspace: Path,
    tmp_path: Path,
    scan: NewRepositoryScan,
    original: OriginalState,
    place: str,
) -> None:
    with command(original, tmp_path):
        for number in range(70):
            (workspace / f"a{number}/.git").mkdir(parents=True)
        git("init", "-q", workspace / place)
        git("-C", workspace / place, "config", "core.fsmonitor", "evil")
        add_link(workspace, place)
    [told] = swept(scan)
    assert told.startswith(f"{place}/.git/config was written by the command")


def test_any_number_of_repositories_does_not_hide_another(
    workspace: Path, tmp_path: Path, scan: NewRepositoryScan, original: OriginalState
) -> None:
    with command(original, tmp_path):
        for number in range(70):
            (workspace / f"a{number}/.git").mkdir(parents=True)
            (workspace / f"a{number}/.git/HEAD").touch()
        git("init", "-q", workspace / "z")
        git("-C", workspace / "z", "config", "core.fsmonitor", "evil")
    [told] = swept(scan)
    assert told.startswith("z/.git/config was written by the command")
