import os
from pathlib import Path

import pytest

from agentcli.sandbox.placeholders import PlaceholderHolder
from agentcli.sandbox.protect import GuardedPath, guard_new_repository
from agentcli.sandbox.restore import GuardedPaths

RULE = "Git's hooks and settings, agentcli's own and what rules deny are read-only."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    (path / ".git/hooks").mkdir(parents=True)
    (path / ".git/config").write_text("mine")
    return path


def keeper(workspace: Path, *guarded: GuardedPath) -> GuardedPaths:
    return GuardedPaths(guarded, roots=[workspace], rejected=workspace.parent / "rejected")


def test_changed_file_is_put_back_and_told(workspace: Path) -> None:
    kept = keeper(workspace, GuardedPath(workspace / ".git/config", "file"))
    before = kept.take_snapshot()
    (workspace / ".git/config").write_text("evil")
    told = kept.undo(before)
    [rejected] = (workspace.parent / "rejected").iterdir()
    assert told == (
        f".git/config was changed by the command, and has been put back. {RULE} "
        f"What was there is kept in {rejected}.",
    )
    assert (workspace / ".git/config").read_text() == "mine"
    assert rejected.read_text() == "evil"
    assert kept.undo(before) == ()


def test_unchanged_places_tell_nothing(workspace: Path) -> None:
    kept = keeper(workspace, GuardedPath(workspace / ".git/config", "file"))
    assert kept.undo(kept.take_snapshot()) == ()


def test_nothing_is_written_through_a_swapped_directory(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config").write_text("theirs")
    kept = keeper(
        workspace,
        GuardedPath(workspace / ".git", "entry"),
        GuardedPath(workspace / ".git/config", "file"),
    )
    before = kept.take_snapshot()
    (workspace / ".git").rename(workspace / "moved")
    (workspace / ".git").symlink_to(outside)
    assert kept.undo(before) == (f".git was removed or replaced by the command. {RULE}",)
    assert not os.path.lexists(workspace / ".git")
    assert (outside / "config").read_text() == "theirs"


def test_link_is_put_back(workspace: Path) -> None:
    (workspace / ".agentcli").symlink_to("settings")
    kept = keeper(workspace, GuardedPath(workspace / ".agentcli", "entry"))
    before = kept.take_snapshot()
    (workspace / ".agentcli").unlink()
    (workspace / ".agentcli").mkdir()
    kept.undo(before)
    assert (workspace / ".agentcli").readlink() == Path("settings")


def test_what_git_makes_in_a_new_repository_stays(tmp_path: Path) -> None:
    kept = keeper(tmp_path, *guard_new_repository(tmp_path))
    before = kept.take_snapshot()
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/hooks/pre-commit.sample").touch()
    (tmp_path / ".git/config").write_text("[core]\n\tbare = false\n")
    (tmp_path / "HEAD").write_text("a file of the project\n")
    assert kept.undo(before) == ()


def test_hooks_that_the_person_made_stay(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/hooks/pre-commit").write_text("mine")
    kept = keeper(tmp_path, *guard_new_repository(tmp_path))
    before = kept.take_snapshot()
    (tmp_path / ".git/hooks/pre-push").write_text("evil")
    kept.undo(before)
    assert [path.name for path in (tmp_path / ".git/hooks").iterdir()] == ["pre-commit"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_directory_that_was_closed_is_opened_to_look_into_it(workspace: Path) -> None:
    kept = keeper(workspace, GuardedPath(workspace / ".git/hooks", "directory"))
    before = kept.take_snapshot()
    (workspace / ".git/hooks/pre-commit").write_text("evil")
    (workspace / ".git").chmod(0)
    assert len(kept.undo(before)) == 1
    assert list((workspace / ".git/hooks").iterdir()) == []


def held_by_another_session(workspace: Path) -> tuple[GuardedPath, ...]:
    return (
        GuardedPath(workspace / ".agentcli", "directory"),
        GuardedPath(workspace / ".git/config.worktree", "file"),
        GuardedPath(workspace / ".git/commondir", "file", b".\n"),
    )


def test_what_another_session_holds_counts_as_absent(workspace: Path) -> None:
    places = held_by_another_session(workspace)
    kept, holding = keeper(workspace, *places), PlaceholderHolder(places)
    before = kept.take_snapshot()
    holding.take()
    assert (kept.undo(before), kept.take_snapshot()) == ((), before)
    assert all(one.path.exists() for one in places)
    holding.release()
    assert not any(one.path.exists() for one in places)
    holding.take()
    before = kept.take_snapshot()
    holding.release()
    assert kept.undo(before) == ()
    assert not any(one.path.exists() for one in places)


def test_what_only_has_the_time_of_something_held_does_not_count_as_absent(
    workspace: Path,
) -> None:
    places = held_by_another_session(workspace)
    kept, holding = keeper(workspace, *places), PlaceholderHolder(places)
    before = kept.take_snapshot()
    holding.take()
    made_at_s = (workspace / ".agentcli").stat().st_mtime
    holding.release()
    for path in (workspace / ".agentcli/hooks.json", *(one.path for one in places[1:])):
        path.parent.mkdir(exist_ok=True)
        path.write_text("evil")
    for one in places:
        os.utime(one.path, (made_at_s, made_at_s))
    assert len(kept.undo(before)) == len(places)
    assert not any(one.path.exists() for one in places)
