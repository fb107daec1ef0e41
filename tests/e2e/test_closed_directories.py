"""Directories that may not be entered, and those that may not be written: for root, all may."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.everyday import Person
from tests.support.files import IS_ROOT
from tests.support.program import Ran, agentcli, script, session_log

pytestmark = pytest.mark.usefixtures("without_sandbox")

MAKE_READ_ONLY = {"bash": {"command": "mkdir -p ro/deep; echo 1 > ro/deep/f; chmod -R a-w ro"}}
MARKS_OF_A_FAULT = ("Traceback", "internal error", "listener")


@pytest.fixture
def opened(person: Person) -> Iterator[Person]:
    """A person whose files can be removed again, whatever a test has closed."""
    yield person
    subprocess.run(["chmod", "-R", "u+rwX", person.base], check=True)


def ask(person: Person, *words: str | Path) -> Ran:
    person.own_all()
    ran = agentcli(
        *words,
        home=person.home,
        cwd=person.project,
        env={"PATH": person.path},
        account=person.account,
    )
    assert not any(mark in ran.err for mark in MARKS_OF_A_FAULT), ran.err
    return ran


def run(person: Person, *calls: dict[str, Any], options: tuple[str, ...] = ()) -> Ran:
    replies = [*({"calls": [call]} for call in calls), "Done.", "Done."]
    model = script(person.home / "s.json", replies)
    return ask(person, "run", "--mode", "auto", "--model", model, *options, "go")


@pytest.mark.parametrize("name", ["data", ".claude", ".cursor", ".agents", ".github", ".windsurf"])
def test_a_directory_that_may_not_be_entered_stops_no_run(opened: Person, name: str) -> None:
    closed = opened.project / name
    closed.mkdir()
    (closed / "x").write_text("x\n")
    (opened.project / "f").write_text("1\n")
    closed.chmod(0)
    ran = run(
        opened,
        {"edit_file": {"path": "f", "old_text": "1", "new_text": "2"}},
        {"read_file": {"path": f"{name}/x"}},
        {"write_file": {"path": f"{name}/deep/y", "content": "y"}},
        {"bash": {"command": f"ls {name}/x"}},
    )
    assert ran.code == 0, ran.err
    if opened.account:  # the refused call changed nothing, and the one before it can be undone
        assert ask(opened, "undo").out.startswith("Undid edit_file f")


def test_undo_removes_what_is_in_read_only_directories(opened: Person) -> None:
    assert run(opened, MAKE_READ_ONLY).code == 0
    undone = ask(opened, "undo")
    assert undone.code == 0, undone.out
    assert list(opened.project.iterdir()) == []
    assert ask(opened, "undo", "--redo").code == 0
    assert (opened.project / "ro/deep").stat().st_mode & 0o777 == 0o555
    assert (opened.project / "ro/deep/f").read_text() == "1\n"


def test_a_read_only_directory_that_stays_is_read_only_again(opened: Person) -> None:
    assert run(opened, MAKE_READ_ONLY).code == 0
    deep = opened.project / "ro/deep"
    deep.chmod(0o755)
    (deep / "own").write_text("the user's\n")
    deep.chmod(0o555)
    assert ask(opened, "undo").code == 0
    assert [one.name for one in deep.iterdir()] == ["own"]
    assert deep.stat().st_mode & 0o777 == 0o555
    assert deep.parent.stat().st_mode & 0o777 == 0o555


def test_sessions_with_read_only_directories_are_replayed_and_forked(opened: Person) -> None:
    (opened.project / "kept").mkdir()
    (opened.project / "kept/f").write_text("1\n")
    close = {"bash": {"command": "echo 2 > kept/f; chmod a-w kept"}}
    assert run(opened, MAKE_READ_ONLY, close).code == 0
    replayed = ask(opened, "replay", "--check")
    assert replayed.code == 0, replayed.out + replayed.err
    session = session_log(opened.home).parent.name
    look = {"calls": [{"bash": {"command": "ls -d ro; cat kept/f; echo 3 > kept/new"}}]}
    model = script(opened.home / "f.json", [look, "Done.", "Done."])
    forked = ask(opened, "fork", session, "--at", "1", "--model", model)
    assert forked.code == 0, forked.err
    tree = next((opened.home / ".local/state/agentcli-forks").iterdir())
    assert not (tree / "ro").exists()
    assert {one.name: one.read_text() for one in (tree / "kept").iterdir()} == {
        "f": "1\n",
        "new": "3\n",
    }


def test_sessions_beside_what_cannot_be_read_are_replayed_and_forked(opened: Person) -> None:
    (opened.project / "kept/closed").mkdir(parents=True)
    (opened.project / "kept/closed/x").write_text("1\n")
    (opened.project / "secret").write_text("1\n")
    (opened.project / "f").write_text("1\n")
    for name, mode in (("secret", 0), ("kept/closed", 0o400), ("kept", 0o555)):
        (opened.project / name).chmod(mode)
    look = {"bash": {"command": "cat secret kept/closed/x; ls kept; echo 2 > f"}}
    assert run(opened, look).code == 0
    if opened.account or not IS_ROOT:  # what root may read, it may not in the sandbox of a replay
        replayed = ask(opened, "replay", "--check")
        assert replayed.code == 0, replayed.out + replayed.err
    session = session_log(opened.home).parent.name
    model = script(opened.home / "f.json", ["Done."])
    forked = ask(opened, "fork", session, "--at", "1", "--model", model)
    assert forked.code == 0, forked.err
    tree = next((opened.home / ".local/state/agentcli-forks").iterdir())
    assert (tree / "f").read_text() == "1\n"
    assert (tree / "kept/closed").is_dir()


@pytest.fixture
def repository(opened: Person) -> Person:
    (opened.project / "f").write_text("1\n")
    own = ("-c", "safe.directory=*", "-c", "user.name=A", "-c", "user.email=a@example.org")
    git = ("git", *own, "-C", opened.project)
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Add f")):
        subprocess.run([*git, *words], check=True)
    return opened


def list_trees(person: Person) -> list[Path]:
    found = (person.home / ".local/state/agentcli-worktrees").glob("*/*")
    return [path for path in found if path.is_dir()]


def test_a_merged_worktree_with_read_only_directories_is_removed(repository: Person) -> None:
    assert run(repository, MAKE_READ_ONLY, options=("-w", "w")).code == 0
    merged = ask(repository, "worktree", "merge", "w")
    assert merged.code == 0, merged.err
    assert (repository.project / "ro/deep/f").read_text() == "1\n"
    assert "Removed the worktree w." in merged.out
    assert list_trees(repository) == []


def test_a_worktree_with_a_directory_that_cannot_be_read_stays(repository: Person) -> None:
    hide = {"bash": {"command": "echo 2 > f; mkdir hidden; echo 1 > hidden/x; chmod 0 hidden"}}
    assert run(repository, hide, options=("-w", "w")).code == 0
    merged = ask(repository, "worktree", "merge", "w")
    assert merged.code == 0, merged.err
    assert (repository.project / "f").read_text() == "2\n"
    if repository.account is None:
        return  # root reads and merges it
    assert "nowhere else: the unreadable directory hidden." in merged.out
    assert list_trees(repository)
    assert ask(repository, "worktree", "discard", "w", "--yes").code == 0
    assert list_trees(repository) == []


@pytest.mark.parametrize("command", [("sessions", "list"), ("undo",), ("stats",), ("context",)])
def test_state_that_may_not_be_accessed_is_named(opened: Person, command: tuple[str, ...]) -> None:
    assert run(opened).code == 0
    state = opened.home / ".local/state/agentcli"
    state.chmod(0)
    ran = ask(opened, *command)
    if opened.account:
        assert ran.code == 3
        assert f"ls -ld {state}" in ran.err
