import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.sandbox.limits import CommandLimits, CommandWatch, count_tasks
from agentcli.sandbox.mounts import MountCheck, MountChecks
from agentcli.sandbox.protect import GuardedPath
from agentcli.sandbox.restore import GuardedPaths

pytestmark = pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="handles are those of Linux")

OLD = "[core]\n\tbare = false\n[alias]\n\tmine = !true\n"
EVIL = "\tfsmonitor = evil\n"


@pytest.fixture
def git(tmp_path: Path) -> Path:
    git = tmp_path / "workspace/.git"
    (git / "hooks").mkdir(parents=True)
    (git / "hooks/pre-commit").write_text("mine\n")
    (git / "config").write_text(OLD)
    (git / "config.worktree").touch()
    (git / "commondir").write_text(".\n")
    return git


class Held:
    """What is held, and a command that has just started."""

    def __init__(self, git: Path) -> None:
        held = (
            GuardedPath(git / "hooks", "directory"),
            GuardedPath(git / "config", "file"),
            GuardedPath(git / "config.worktree", "file"),
            GuardedPath(git / "commondir", "file", b".\n"),
        )
        self.rejected = git.parents[1] / "rejected"
        self.keeper = GuardedPaths(held, roots=[git.parent], rejected=self.rejected)
        self.check = MountCheck(one.path for one in held)
        self.before = self.keeper.take_snapshot()

    def undo(self) -> tuple[str, ...]:
        held, stale = self.check.paths, self.check.find_stale()
        return self.keeper.undo(self.keeper.select_to_undo(self.before, held=held, stale=stale))


def replace(path: Path, text: str) -> None:
    lock = path.with_name(f"{path.name}.lock")
    lock.write_text(text)
    lock.rename(path)


def test_place_is_lost_when_it_is_replaced_or_removed_and_not_when_it_is_changed(
    git: Path,
) -> None:
    paths = (git / "config", git / "hooks", git / "commondir")
    check = MountCheck(paths)
    (git / "config").write_text("changed in place")
    (git / "hooks/post-commit").write_text("added")
    assert check.find_stale() == ()
    replace(git / "config", OLD)
    shutil.rmtree(git / "hooks")
    assert check.find_stale() == paths[:2]


def test_place_stays_lost_however_often_it_is_replaced(git: Path) -> None:
    check = MountCheck([git / "config"])
    for _ in range(20):  # a file system gives a free number to the next file
        replace(git / "config", OLD)
        assert check.find_stale() == (git / "config",)


def test_handles_are_closed_with_the_check(git: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    check = MountCheck([git / "config", git / "hooks"])
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 2
    del check
    assert len(list(Path("/proc/self/fd").iterdir())) == before


WHERE_TO_PUSH = """\
[remote "origin"]
	url = https://example.org/a.git
[branch "x"]
	remote = origin
	merge = refs/heads/x
"""
HARMLESS = {
    "where to push": ("config", OLD + WHERE_TO_PUSH),
    "its own directories": ("config.worktree", "[core]\n\tsparseCheckout = true\n"),
    "nothing new": ("commondir", ".\n"),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_a_person_brought_stays_if_it_is_harmless(git: Path, case: str) -> None:
    name, text = HARMLESS[case]
    held = Held(git)
    replace(git / name, text)
    assert (held.undo(), (git / name).read_text()) == ((), text)


HARMFUL = {
    "a program": ("config", OLD.replace("[alias]", f"{EVIL}[alias]")),
    "a program in the line of a section": ("config", OLD + "[core] fsmonitor = evil\n"),
    "an alias more": ("config", OLD + "\tyours = !evil\n"),
    "an alias less": ("config", "[core]\n\tbare = false\n"),
    "a line that goes on": ("config", OLD.replace("!true", "!true \\")),
    "settings of a worktree": ("config.worktree", "[core]\n\tfsmonitor = evil\n"),
    "another directory that looks like a comment": ("commondir", "# evil\n"),
}


@pytest.mark.parametrize("case", HARMFUL)
def test_what_could_be_the_commands_is_put_back_and_kept(git: Path, case: str) -> None:
    name, text = HARMFUL[case]
    before = (git / name).read_text()
    held = Held(git)
    replace(git / name, text)
    [told] = held.undo()
    [rejected] = held.rejected.iterdir()
    assert told.startswith(f".git/{name} was ") and str(rejected) in told
    assert rejected.read_text() == text
    assert (git / name).read_text() == before


def test_what_a_person_changes_in_place_stays(git: Path) -> None:
    held = Held(git)
    (git / "config").write_text(OLD + "\tadded = !in place\n")
    (git / "hooks/post-commit").write_text("mine too")
    replace(git / "config.worktree", "[core]\n\tfsmonitor = evil\n")
    assert len(held.undo()) == 1
    assert (git / "config").read_text() == OLD + "\tadded = !in place\n"
    assert (git / "hooks/post-commit").read_text() == "mine too"


@pytest.mark.parametrize("text", [OLD, HARMLESS["where to push"][1]])
def test_other_name_by_which_it_could_be_written_later_is_cut_off(git: Path, text: str) -> None:
    held = Held(git)
    replace(git / "config", text)
    (git.parent / "other").hardlink_to(git / "config")
    assert len(held.undo()) == 1
    (git.parent / "other").write_text(EVIL)
    assert (git / "config").read_text() == OLD


def test_what_was_taken_away_stays_away_and_what_came_instead_does_not(git: Path) -> None:
    held = Held(git)
    (git / "config").unlink()
    (git / "hooks").rename(git / "old")
    (git / "hooks").mkdir()
    assert held.undo() == ()
    (git / "hooks/pre-push").write_text("evil")
    assert len(held.undo()) == 1
    assert sorted(path.name for path in git.iterdir()) == [
        *("commondir", "config.worktree", "hooks", "old")
    ]
    assert {path.name for path in (git / "hooks").iterdir()} == {"pre-commit"}


def test_check_is_shared_until_something_is_lost(git: Path) -> None:
    checks = MountChecks([git / "config"])
    first = checks.take()
    assert checks.take() is first
    replace(git / "config", OLD)
    assert checks.take() is not first


def test_file_that_was_removed_and_linked_again_is_checked_anew(git: Path) -> None:
    checks = MountChecks([git / "config"])
    first = checks.take()
    (git / "other").hardlink_to(git / "config")
    (git / "config").unlink()
    (git / "config").hardlink_to(git / "other")
    assert first.find_stale() == ()
    assert checks.take() is not first


def test_command_is_stopped_when_a_place_is_lost(git: Path) -> None:
    watch = CommandWatch(CommandLimits())
    check = MountCheck([git / "config"])
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    later = subprocess.Popen(["sleep", "60"], start_new_session=True)
    watch.add(process, tasks_before=count_tasks(), find_stale=check.find_stale)
    replace(git / "config", OLD)
    watch.add(later, tasks_before=count_tasks(), find_stale=MountCheck([git / "config"]).find_stale)
    process.wait()
    assert watch.remove(process) == (
        f"Stopped: {git}/config was replaced or removed while it ran, "
        "and could not be kept from it any more.",
    )
    assert later.poll() is None
    later.kill()
    later.wait()
    assert watch.remove(later) == ()
    watch.close()
