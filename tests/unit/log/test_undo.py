from pathlib import Path

import pytest

from agentcli.log.checkpoint.keep import CheckpointKeeper
from agentcli.log.checkpoint.merge import mark_conflicts, merge_three_way
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.undo import StateChange, UndoResult, undo_changes
from tests.support.actions import KeepsAll


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        (b"a\nb\nc\n", b"a\nb\nC\n", b"A\nb\nc\n", b"A\nb\nC\n"),
        (b"a\nb\n", b"A\nb\n", b"a\nB\n", b"A\nB\n"),
        (b"a\nb\nc\n", b"a\nc\n", b"a\nb\nc\nd\n", b"a\nc\nd\n"),
        (b"a\n", b"b\n", b"b\n", b"b\n"),
        (b"a\n", b"b\n", b"c\n", None),
        (b"a\nb\n", b"a\nx\nb\n", b"a\ny\nb\n", None),
        (b"a\r\nb", b"A\r\nb", b"a\r\nB", b"A\r\nB"),
        (b"\xff\nb\n", b"\xfe\nb\n", b"\xff\nc\n", b"\xfe\nc\n"),
        (b"a\0\nb\n", b"A\0\nb\n", b"a\0\nB\n", None),
        (b"", b"a\n", b"", b"a\n"),
    ],
)
def test_merge(base: bytes, mine: bytes, theirs: bytes, merged: bytes | None) -> None:
    assert merge_three_way(base, mine=mine, theirs=theirs) == merged
    assert merge_three_way(base, mine=theirs, theirs=mine) == merged
    marked = mark_conflicts(base, mine=mine, theirs=theirs, name="fix")
    is_text = not any(b"\0" in text for text in (base, mine, theirs))
    if merged is not None or not is_text:
        assert marked == (merged or b"")
    else:
        assert b"<<<<<<< yours\n" in marked and marked.endswith((b">>>>>>> fix\n", b"b\n"))


class Ground:
    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "work"
        self.root.mkdir()
        self.store = ObjectStore(tmp_path / "kept.git")
        self.keeper = CheckpointKeeper(self.store, session="s", root=self.root, scope=KeepsAll)

    def begin(self) -> None:
        self._before = self.keeper.begin_checkpoint("c", None)

    def end(self) -> StateChange:
        fact = self.keeper.finish_checkpoint(self._before)
        self.keeper.close()
        assert fact is not None
        return StateChange(before=fact.before, after=fact.after)

    def undo(self, change: StateChange) -> UndoResult:
        return undo_changes(self.store, self.root, changes=[change])


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def conflicts(result: UndoResult) -> dict[str, str]:
    return {one.path: one.reason for one in result.conflicts}


def test_file_that_the_person_removed_stays_removed(ground: Ground) -> None:
    (ground.root / "a").write_text("one\n")
    ground.begin()
    (ground.root / "a").write_text("two\n")
    change = ground.end()
    (ground.root / "a").unlink()
    result = ground.undo(change)
    assert conflicts(result) == {"a": "deleted since then, and stays deleted"}
    assert list(ground.root.iterdir()) == []


def test_file_without_lines_that_the_person_changed_stays_for_that_reason(ground: Ground) -> None:
    file = ground.root / "a"
    file.write_text("one\ntwo\nthree\n", encoding="utf-16")
    ground.begin()
    file.write_text("ONE\ntwo\nthree\n", encoding="utf-16")
    change = ground.end()
    file.write_text("ONE\ntwo\nTHREE\n", encoding="utf-16")
    reason = "changed since then, and has no lines to merge; it stays unchanged"
    assert conflicts(ground.undo(change)) == {"a": reason}
    assert file.read_text(encoding="utf-16") == "ONE\ntwo\nTHREE\n"


def test_file_that_the_person_made_anew_stays(ground: Ground) -> None:
    (ground.root / "a").write_text("one\n")
    ground.begin()
    (ground.root / "a").unlink()
    change = ground.end()
    (ground.root / "a").write_text("mine\n")
    assert conflicts(ground.undo(change)) == {"a": "created again since then; the new one stays"}
    assert (ground.root / "a").read_text() == "mine\n"


def test_link_in_the_way_is_never_followed_out(ground: Ground, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("not ours\n")
    ground.begin()
    (ground.root / "dir").mkdir()
    (ground.root / "dir" / "a").write_text("not ours\n")
    change = ground.end()
    (ground.root / "dir" / "a").unlink()
    (ground.root / "dir").rmdir()
    (ground.root / "dir").symlink_to(outside)
    ground.undo(change)
    assert (outside / "a").read_text() == "not ours\n"
    assert (ground.root / "dir").is_symlink()


def test_write_through_a_swapped_link_fails_as_a_conflict(ground: Ground, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (ground.root / "dir").mkdir()
    (ground.root / "dir" / "a").write_text("one\n")
    ground.begin()
    (ground.root / "dir" / "a").unlink()
    change = ground.end()
    (ground.root / "dir").rmdir()
    (ground.root / "dir").symlink_to(outside)
    assert list(conflicts(ground.undo(change))) == ["dir/a"]
    assert list(outside.iterdir()) == []


def test_read_only_file_is_changed_back_with_its_mode(ground: Ground) -> None:
    (ground.root / "a").write_text("one\n")
    (ground.root / "a").chmod(0o640)
    ground.begin()
    (ground.root / "a").write_text("two\n")
    (ground.root / "a").chmod(0o444)
    ground.undo(ground.end())
    assert (ground.root / "a").read_text() == "one\n"
    assert (ground.root / "a").stat().st_mode & 0o777 == 0o640


def test_closed_directory_is_opened_before_it_is_filled(ground: Ground) -> None:
    (ground.root / "dir").mkdir(mode=0o755)
    (ground.root / "dir" / "a").write_text("one\n")
    ground.begin()
    (ground.root / "dir" / "a").unlink()
    (ground.root / "dir").chmod(0o555)
    ground.undo(ground.end())
    assert (ground.root / "dir" / "a").read_text() == "one\n"
    assert (ground.root / "dir").stat().st_mode & 0o777 == 0o755


def test_file_in_the_place_of_a_directory_that_holds_something_of_the_persons(
    ground: Ground,
) -> None:
    (ground.root / "a").write_text("one\n")
    ground.begin()
    (ground.root / "a").unlink()
    (ground.root / "a").mkdir()
    (ground.root / "a" / "theirs").write_text("x\n")
    change = ground.end()
    (ground.root / "a" / "mine").write_text("mine\n")
    assert list(conflicts(ground.undo(change))) == ["a"]
    assert [path.name for path in (ground.root / "a").iterdir()] == ["mine"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_directory_that_stays_is_not_called_removed(ground: Ground, dry_run: bool) -> None:
    ground.begin()
    for name in ("full/deep", "empty"):
        (ground.root / name).mkdir(parents=True)
        (ground.root / name / "made.txt").write_text("a\n")
    change = ground.end()
    (ground.root / "full" / "deep" / "mine.txt").write_text("b\n")
    result = undo_changes(ground.store, ground.root, changes=[change], dry_run=dry_run)
    assert {one.path: one.change for one in result.done} == {
        "empty": "removed",
        "empty/made.txt": "removed",
        "full": "left",
        "full/deep": "left",
        "full/deep/made.txt": "removed",
    }
    assert (ground.root / "full/deep/mine.txt").exists()


def test_rehearsal_touches_nothing(ground: Ground) -> None:
    ground.begin()
    (ground.root / "a").write_text("one\n")
    change = ground.end()
    result = undo_changes(ground.store, ground.root, changes=[change], dry_run=True)
    assert [(one.path, one.change) for one in result.done] == [("a", "removed")]
    assert (ground.root / "a").exists()


def test_file_that_grew_too_large_to_be_kept_is_left(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentcli.log.checkpoint.trees.LIMIT_BYTES", 10)
    (ground.root / "a").write_text("one\n")
    ground.begin()
    (ground.root / "a").write_text("x" * 100)
    assert list(conflicts(ground.undo(ground.end()))) == ["a"]
    assert (ground.root / "a").stat().st_size == 100


def test_many_files_that_the_person_went_on_with_are_merged_at_once(ground: Ground) -> None:
    files = [ground.root / f"f{number}" for number in range(60)]
    for number, file in enumerate(files):
        file.write_text(f"{number}\ntwo\nthree\n")
    ground.begin()
    for number, file in enumerate(files):
        file.write_text(f"{number}\nTWO\nthree\n")
    change = ground.end()
    for number, file in enumerate(files):
        file.write_text(f"{number}\nTWO\nthree\nfour\n")
    result = ground.undo(change)
    assert result.conflicts == ()
    assert [file.read_text() for file in files] == [
        f"{number}\ntwo\nthree\nfour\n" for number in range(60)
    ]
    ground.undo(StateChange(before=result.before, after=result.after))
    assert files[59].read_text() == "59\nTWO\nthree\nfour\n"
