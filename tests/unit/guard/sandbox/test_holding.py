from pathlib import Path

import pytest

from agentcli.guard.sandbox.holding import Holding
from agentcli.guard.sandbox.protect import Guarded


def test_missing_places_exist_while_held(tmp_path: Path) -> None:
    guarded = (
        Guarded(tmp_path / "hooks", "directory"),
        Guarded(tmp_path / "commondir", "file", b".\n"),
    )
    holding = Holding(guarded)
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
    holding = Holding([Guarded(tmp_path / "config", "file")])
    holding.take()
    holding.release()
    assert (tmp_path / "config").read_text() == "mine"


def test_what_others_put_there_meanwhile_stays(tmp_path: Path) -> None:
    holding = Holding([Guarded(tmp_path / "a", "directory"), Guarded(tmp_path / "b", "file")])
    holding.take()
    (tmp_path / "a/settings").write_text("mine")
    (tmp_path / "b").write_text("mine")
    holding.release()
    assert (tmp_path / "a/settings").read_text() == "mine"
    assert (tmp_path / "b").read_text() == "mine"


def test_place_that_became_a_link_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/etc")
    with pytest.raises(OSError, match="is no directory any more"):
        Holding([Guarded(tmp_path / "a", "directory")]).take()


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "commondir").write_bytes(b".\n")
    (tmp_path / "config").write_bytes(b"")
    holding = Holding(
        [Guarded(tmp_path / "commondir", "file", b".\n"), Guarded(tmp_path / "config", "file")]
    )
    for _ in range(2):
        holding.take()
    holding.release()
    holding.release()
    assert [path.name for path in tmp_path.iterdir()] == ["config"]
