import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentcli.sandbox.placeholders import Placeholder, PlaceholderHolder, build_removal
from agentcli.sandbox.protect import GuardedPath
from tests.support.processes import until

HOLD = """
import sys
from pathlib import Path
from agentcli.sandbox.placeholders import PlaceholderHolder
from agentcli.sandbox.protect import GuardedPath
top = Path(sys.argv[1])
holding = PlaceholderHolder([GuardedPath(top / "a", "directory"), GuardedPath(top / "b", "file")])
holding.take()
print("held", flush=True)
sys.stdin.read()
"""


def held_here(top: Path) -> PlaceholderHolder:
    return PlaceholderHolder([GuardedPath(top / "a", "directory"), GuardedPath(top / "b", "file")])


@contextmanager
def killed_in_the_end(top: Path) -> Iterator[None]:
    """Another process holds the same."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(top)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield
        other.kill()


def names(top: Path) -> list[str]:
    return sorted(path.name for path in top.iterdir())


def test_missing_places_exist_while_held(tmp_path: Path) -> None:
    guarded = (
        GuardedPath(tmp_path / "hooks", "directory"),
        GuardedPath(tmp_path / "commondir", "file", b".\n"),
    )
    holding = PlaceholderHolder(guarded)
    holding.take()
    holding.take()
    assert (tmp_path / "hooks").is_dir()
    assert (tmp_path / "commondir").read_bytes() == b".\n"
    holding.release()
    assert (tmp_path / "hooks").is_dir()
    holding.release()
    assert list(tmp_path.iterdir()) == []


def test_existing_places_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("mine")
    holding = PlaceholderHolder([GuardedPath(tmp_path / "config", "file")])
    holding.take()
    holding.release()
    assert (tmp_path / "config").read_text() == "mine"


def test_what_others_put_there_meanwhile_stays(tmp_path: Path) -> None:
    holding = PlaceholderHolder(
        [GuardedPath(tmp_path / "a", "directory"), GuardedPath(tmp_path / "b", "file")]
    )
    holding.take()
    (tmp_path / "a/settings").write_text("mine")
    (tmp_path / "b").write_text("mine")
    holding.release()
    assert (tmp_path / "a/settings").read_text() == "mine"
    assert (tmp_path / "b").read_text() == "mine"


def test_place_that_became_a_link_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/etc")
    with pytest.raises(OSError, match="is no directory any more"):
        PlaceholderHolder([GuardedPath(tmp_path / "a", "directory")]).take()


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "commondir").write_bytes(b".\n")
    (tmp_path / "config").write_bytes(b"")
    holding = PlaceholderHolder(
        [
            GuardedPath(tmp_path / "commondir", "file", b".\n"),
            GuardedPath(tmp_path / "config", "file"),
        ]
    )
    for _ in range(2):
        holding.take()
    holding.release()
    holding.release()
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


def test_what_another_session_holds_stays_until_nobody_does(tmp_path: Path) -> None:
    first, second = held_here(tmp_path), held_here(tmp_path)
    first.take()
    second.take()
    first.release()
    assert names(tmp_path) == ["a", "b"]
    first.take()
    second.release()
    assert names(tmp_path) == ["a", "b"]
    first.release()
    assert names(tmp_path) == []


def test_sessions_that_come_and_go_never_take_a_place_from_each_other(tmp_path: Path) -> None:
    def is_always_held(_: int) -> bool:
        here = held_here(tmp_path)
        return all(is_held_once(here) for _ in range(60))

    def is_held_once(here: PlaceholderHolder) -> bool:
        here.take()
        try:
            found = (tmp_path / "a").stat().st_ino
            os.sched_yield()
            # A session that leaves moves its own out of the way first, under another name.
            is_there = {"a", "b"} <= set(names(tmp_path))
            return is_there and (tmp_path / "a").stat().st_ino == found
        finally:
            here.release()

    with ThreadPoolExecutor(3) as sessions:
        assert list(sessions.map(is_always_held, range(3))) == [True] * 3
    assert names(tmp_path) == []


def test_what_a_killed_session_made_is_taken_away(tmp_path: Path) -> None:
    with killed_in_the_end(tmp_path):
        assert names(tmp_path) == ["a", "b"]
    asyncio.run(until(lambda: names(tmp_path) == []))
    assert names(tmp_path) == []


def test_what_a_killed_session_made_and_another_uses_goes_with_the_last(tmp_path: Path) -> None:
    here = held_here(tmp_path)
    with killed_in_the_end(tmp_path):
        here.take()
    leave_for_another(tmp_path)
    assert names(tmp_path) == ["a", "b"]
    here.release()
    # The killed session's own reaper may have the lock at this moment: then it removes the rest.
    asyncio.run(until(lambda: names(tmp_path) == []))


def test_path_that_is_removed_while_the_reaper_looks_is_not_made_anew(tmp_path: Path) -> None:
    top, programs = tmp_path / "top", tmp_path / "bin"
    top.mkdir()
    programs.mkdir()
    place = Placeholder(top / "a", is_directory=True)
    place.make()
    flock = shutil.which("flock", path=os.defpath)
    for name, does in {"flock": f'rmdir {top}/a; exec {flock} "$@"', "sleep": "true"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.defpath}"
    subprocess.run(["/bin/sh", "-c", build_removal([place])], env={"PATH": path})
    assert names(top) == []


def test_what_the_person_made_of_it_stays_after_a_kill(tmp_path: Path) -> None:
    with killed_in_the_end(tmp_path):
        (tmp_path / "a/settings.toml").write_text("mine")
        (tmp_path / "b").touch()
    leave_for_another(tmp_path)
    assert names(tmp_path) == ["a", "b"]


def test_place_of_any_name_is_taken_away_after_a_kill(tmp_path: Path) -> None:
    top = tmp_path / "a  'b' * \n\udcff"
    top.mkdir()
    with killed_in_the_end(top):
        assert names(top) == ["a", "b"]
    asyncio.run(until(lambda: names(top) == []))


def test_place_that_is_taken_away_is_made_for_the_next_command(tmp_path: Path) -> None:
    here = held_here(tmp_path)
    here.take()
    (tmp_path / "a").rmdir()
    here.take()
    assert names(tmp_path) == ["a", "b"]
    here.release()
    here.release()
    assert names(tmp_path) == []


def leave_for_another(top: Path) -> None:
    """As the process does that outlives the session."""
    left = (Placeholder(top / "a", is_directory=True), Placeholder(top / "b", is_directory=False))
    subprocess.run(["/bin/sh", "-c", build_removal(left)])


def test_file_that_took_the_place_of_one_held_stays(tmp_path: Path) -> None:
    place = tmp_path / "config.worktree"
    holding = PlaceholderHolder([GuardedPath(place, "file")])
    holding.take()
    (tmp_path / "config.worktree.lock").write_text("mine")
    (tmp_path / "config.worktree.lock").rename(place)
    holding.release()
    assert (names(tmp_path), place.read_text()) == (["config.worktree"], "mine")


def test_directory_that_took_the_place_of_one_held_stays(tmp_path: Path) -> None:
    holding = PlaceholderHolder([GuardedPath(tmp_path / "a", "directory")])
    holding.take()
    (tmp_path / "a").rmdir()
    (tmp_path / "a").mkdir()
    holding.release()
    assert names(tmp_path) == ["a"]
