import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcli.log.checkpoint import keep, scan, trees
from agentcli.log.checkpoint.keep import CheckpointKeeper
from agentcli.log.checkpoint.scan import WorkspaceTooLarge
from agentcli.log.checkpoint.store import EMPTY_TREE, ObjectStore
from agentcli.log.checkpoint.trees import StoredEntry, find_differences
from agentcli.system.text import SHOWN_PATH_CHARS
from agentcli.tools.search.ignore import IgnoreRules
from agentcli.types.events import Checkpointed


class Ground:
    def __init__(self, root: Path, kept: Path) -> None:
        self.root = root
        self.store = ObjectStore(kept)
        self.keeper = self.new_keeper("s")

    def new_keeper(self, session: str) -> CheckpointKeeper:
        return CheckpointKeeper(
            ObjectStore(self.store.directory),
            session=session,
            root=self.root,
            scope=lambda: IgnoreRules.for_workspace(self.root),
            outside=(self.store.directory,),
        )

    def write(self, name: str, text: str = "x\n") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def state(self, tree: str) -> dict[bytes, StoredEntry]:
        found = find_differences(self.store, EMPTY_TREE, after=tree)
        return {one.path: one.after for one in found if one.after}

    def changed(self, fact: Checkpointed | None) -> list[str]:
        assert fact is not None
        return [
            os.fsdecode(d.path) for d in find_differences(self.store, fact.before, after=fact.after)
        ]


def run_git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True)


def wait_until_old(path: Path) -> None:
    """Wait until the clock of the file system shows that the file is older than what comes now."""
    while time.time_ns() - path.lstat().st_ctime_ns <= 2 * scan.RACY_NS:
        time.sleep(0.001)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    root = tmp_path / "work"
    root.mkdir()
    made = Ground(root, tmp_path / "kept.git")
    yield made
    made.keeper.close()


def test_call_that_changed_nothing_leaves_no_fact(ground: Ground) -> None:
    ground.write("a")
    before = ground.keeper.begin_checkpoint("c", None)
    assert ground.keeper.finish_checkpoint(before) is None


def test_named_files_alone_are_kept(ground: Ground) -> None:
    ground.write("a")
    ground.write("dir/b")
    before = ground.keeper.begin_checkpoint("c", [b"a", b"new/c"])
    ground.write("a", "y\n")
    ground.write("new/c")
    ground.write("dir/b", "changed, but not by this call")
    fact = ground.keeper.finish_checkpoint(before)
    assert ground.changed(fact) == ["a", "new", "new/c"]
    assert fact is not None
    assert (fact.paths, fact.paths_total, fact.not_kept) == (("a", "new", "new/c"), 3, ())


def test_edits_between_two_calls_belong_to_neither(ground: Ground) -> None:
    ground.write("a")
    first = ground.keeper.begin_checkpoint("1", None)
    ground.write("b")
    assert ground.changed(ground.keeper.finish_checkpoint(first)) == ["b"]
    ground.write("a", "by the person\n")
    second = ground.keeper.begin_checkpoint("2", None)
    ground.write("c")
    assert ground.changed(ground.keeper.finish_checkpoint(second)) == ["c"]


def test_same_size_and_time_do_not_hide_a_change(ground: Ground) -> None:
    ground.write("a", "one\n")
    found = (ground.root / "a").stat()
    before = ground.keeper.begin_checkpoint("c", None)
    ground.write("a", "two\n")
    os.utime(ground.root / "a", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["a"]


def test_ignored_files_are_left_out_and_rules_count_from_the_next_call(ground: Ground) -> None:
    ground.write(".gitignore", "*.log\nbuild/\n!keep.log\n")
    ground.write("node_modules/x/index.js")
    before = ground.keeper.begin_checkpoint("1", None)
    for name in ("x.log", "keep.log", "build/out", "sub/y.log", "node_modules/y", ".git/config"):
        ground.write(name)
    ground.write(".gitignore", "")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == [
        ".gitignore",
        "keep.log",
        "sub",
    ]
    before = ground.keeper.begin_checkpoint("2", None)
    ground.write("x.log", "visible now\n")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["x.log"]


def test_rule_that_goes_away_does_not_make_files_look_new(ground: Ground) -> None:
    ground.write(".gitignore", "secret\n")
    ground.write("secret", "the person's\n")
    before = ground.keeper.begin_checkpoint("1", None)
    (ground.root / ".gitignore").unlink()
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == [".gitignore"]


def test_what_has_no_content_to_keep_is_named(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "LIMIT_BYTES", 10)
    before = ground.keeper.begin_checkpoint("c", None)
    ground.write("large", "x" * 11)
    ground.write("small", "x")
    os.mkfifo(ground.root / "pipe")
    fact = ground.keeper.finish_checkpoint(before)
    assert fact is not None
    assert (fact.paths, fact.not_kept) == (("small",), ("large", "pipe"))


def test_ignored_files_that_a_call_removed_are_named(ground: Ground) -> None:
    ground.write(".gitignore", "*.db\n.env\nbuild/\n")
    for name in (".env", "sub/local.db", "sub/deep/other.db", "build/out", "kept.db"):
        ground.write(name)
    before = ground.keeper.begin_checkpoint("1", None)
    (ground.root / ".env").unlink()
    ground.write("new.db")
    fact = ground.keeper.finish_checkpoint(before)
    assert fact is not None
    assert (fact.paths, fact.not_kept, fact.before) == ((), (".env",), fact.after)
    before = ground.keeper.begin_checkpoint("2", None)
    assert ground.keeper.finish_checkpoint(before) is None
    before = ground.keeper.begin_checkpoint("3", None)
    shutil.rmtree(ground.root / "sub")
    shutil.rmtree(ground.root / "build")
    fact = ground.keeper.finish_checkpoint(before)
    assert fact is not None
    assert fact.not_kept == ("build", "sub/deep/other.db", "sub/local.db")


def test_tracked_files_are_stored_whatever_the_rules_say(ground: Ground) -> None:
    for root in (ground.root, ground.root / "nested"):
        root.mkdir(exist_ok=True)
        run_git(root, "init", "-q")
        for name in ("dist/app.js", "dist/deep/b.js", "a.log"):
            ground.write(f"{root.relative_to(ground.root)}/{name}", "one\n")
        (root / ".gitignore").write_text("dist/\n*.log\n")
        run_git(root, "add", "-f", "dist", "a.log", ".gitignore")
        (root / "dist" / "untracked.js").write_text("made again")
        (root / "b.log").write_text("made again")
    before = ground.keeper.begin_checkpoint("c", None)
    stored = set(ground.state(before.tree))
    ground.write("dist/app.js", "two\n")
    ground.write("dist/untracked.js", "two\n")
    ground.write("nested/dist/deep/b.js", "two\n")
    changed = ground.changed(ground.keeper.finish_checkpoint(before))
    assert {b"dist/app.js", b"dist/deep/b.js", b"a.log", b"nested/dist/app.js"} <= stored
    assert not {b"dist/untracked.js", b"b.log", b"nested/b.log"} & stored
    assert changed == ["dist/app.js", "nested/dist/deep/b.js"]


def test_file_is_seen_to_change_by_its_other_name_when_one_name_is_gone(ground: Ground) -> None:
    ground.write("one/a")
    ground.write("two/placeholder")
    os.link(ground.root / "one" / "a", ground.root / "two" / "b")
    wait_until_old(ground.root / "one" / "a")
    before = ground.keeper.begin_checkpoint("c", None)
    with (ground.root / "one" / "a").open("a") as file:
        file.write("more\n")
    (ground.root / "one" / "a").unlink()
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["one/a", "two/b"]


def test_file_that_a_rule_hid_before_does_not_count_as_new(ground: Ground) -> None:
    ground.write(".gitignore", "*.txt\n")
    ground.write("old.txt")
    wait_until_old(ground.root / "old.txt")
    since = ground.keeper.begin_checkpoint("", None).tree
    (ground.root / ".gitignore").unlink()
    ground.write("new.txt")
    found = ground.keeper.find_changes((), since=since)
    assert sorted(one.path for one in found) == [".gitignore", "new.txt"]


def test_many_ignored_files_are_bounded_and_never_named_while_they_exist(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "IGNORED_MAX", 3)
    ground.write(".gitignore", "*.log\n")
    for number in range(10):
        ground.write(f"{number}.log")
    before = ground.keeper.begin_checkpoint("1", None)
    for number in range(5):
        (ground.root / f"{number}.log").unlink()
        ground.write(f"new-{number}.log")
    fact = ground.keeper.finish_checkpoint(before)
    named = fact.not_kept if fact else ()
    assert len(named) <= 3
    assert not any((ground.root / name).exists() for name in named)


def test_temporary_files_of_ours_are_left_out_and_old_ones_removed(ground: Ground) -> None:
    left, fresh = f"sub/.agentcli-{'0' * 16}.tmp", f"sub/.agentcli-{'1' * 16}.tmp"
    ground.write(left)
    ground.write(fresh)
    os.utime(ground.root / left, (1_000_000_000, 1_000_000_000))
    before = ground.keeper.begin_checkpoint("c", None)
    assert set(ground.state(before.tree)) == {b"sub"}
    assert list((ground.root / "sub").iterdir()) == [ground.root / fresh]


def test_names_of_every_kind_are_kept(ground: Ground) -> None:
    before = ground.keeper.begin_checkpoint("c", None)
    names = [b"new\nline", b"not utf-8 \xff", b"blank ", b"-rf", b"\xe2\x98\x83"]
    for name in names:
        (ground.root / os.fsdecode(name)).write_bytes(name)
    fact = ground.keeper.finish_checkpoint(before)
    assert fact is not None
    assert sorted(ground.state(fact.after)) == sorted(names)
    assert all(path.isprintable() for path in fact.paths)


def test_moved_directory_is_followed(ground: Ground) -> None:
    ground.write("a/deep/file")
    before = ground.keeper.begin_checkpoint("1", None)
    (ground.root / "a").rename(ground.root / "b")
    ground.keeper.finish_checkpoint(before)
    before = ground.keeper.begin_checkpoint("2", None)
    ground.write("b/deep/file", "changed\n")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["b/deep/file"]


def test_file_with_two_names_changes_under_both(ground: Ground) -> None:
    ground.write("a/x")
    (ground.root / "b").mkdir()
    (ground.root / "b/x").hardlink_to(ground.root / "a/x")
    before = ground.keeper.begin_checkpoint("c", None)
    ground.write("a/x", "changed\n")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["a/x", "b/x"]


def test_without_a_watch_everything_is_looked_at(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "elsewhere")
    ground.write("a/x")
    before = ground.keeper.begin_checkpoint("c", None)
    ground.write("a/x", "changed\n")
    ground.write("b/y")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["a/x", "b", "b/y"]


def test_two_sessions_do_not_disturb_each_other(ground: Ground) -> None:
    ground.write("a")
    other = ground.new_keeper("other")
    mine, theirs = ground.keeper.begin_checkpoint("1", [b"a"]), other.begin_checkpoint("1", [b"b"])
    ground.write("a", "mine\n")
    ground.write("b", "theirs\n")
    assert ground.changed(other.finish_checkpoint(theirs)) == ["b"]
    assert ground.changed(ground.keeper.finish_checkpoint(mine)) == ["a"]


def test_workspace_that_is_too_large_is_refused_and_named_files_still_work(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "FILES_MAX", 3)
    for number in range(5):
        ground.write(f"f{number}")
    with pytest.raises(WorkspaceTooLarge, match="it has more than 3 files"):
        ground.keeper.begin_checkpoint("1", None)
    before = ground.keeper.begin_checkpoint("2", [b"f1"])
    ground.write("f1", "changed\n")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["f1"]


def test_deeply_nested_directories_do_no_harm(ground: Ground) -> None:
    where = ground.root
    for _ in range(300):
        where = where / "d"
        where.mkdir()
    before = ground.keeper.begin_checkpoint("c", None)
    ground.write("a")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["a"]


def test_path_that_is_too_long_is_left_out_and_named_once_it_is_gone(ground: Ground) -> None:
    name = "d" * 90
    make_too_long_path(ground.root, name)
    ground.write("a")
    before = ground.keeper.begin_checkpoint("1", None)
    (ground.root / "a").unlink()
    fact = ground.keeper.finish_checkpoint(before)
    assert fact is not None
    assert (fact.paths, fact.not_kept) == (("a",), ())
    before = ground.keeper.begin_checkpoint("2", None)
    shutil.rmtree(ground.root / name)
    fact = ground.keeper.finish_checkpoint(before)
    assert fact is not None
    (lost,) = fact.not_kept
    assert (lost.startswith(name), len(lost)) == (True, SHOWN_PATH_CHARS + 1)


def test_call_that_names_an_impossible_path_is_kept(ground: Ground) -> None:
    before = ground.keeper.begin_checkpoint("c", [b"n" * 300, b"a"])
    ground.write("a")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["a"]


class Vanishing:
    """Ignores nothing; one file is removed while its directory is listed."""

    def __init__(self, root: Path, name: str) -> None:
        self.gone = root / name

    def ignores(self, name: bytes, *, is_dir: bool) -> bool:
        if os.fsencode(self.gone.name) == name:
            self.gone.unlink()
        return False

    def enter(self, name: bytes) -> "Vanishing":
        return self


def test_file_that_is_removed_meanwhile_does_not_hide_the_others(ground: Ground) -> None:
    for number in range(20):
        ground.write(f"file{number}")
    listed = [entry.name for entry in os.scandir(ground.root)]
    scope = Vanishing(ground.root, listed[0])
    with ground.store.batch_writes():
        seen = scan.WorkspaceScan(ground.store, ground.root, scope=scope)
    assert {os.fsdecode(path) for path in ground.state(seen.store_tree())} == set(listed[1:])
    seen.close()


def make_too_long_path(root: Path, name: str) -> None:
    """Nest directories until no system call takes the path of the innermost."""
    handle = os.open(root, os.O_RDONLY)
    for _ in range(50):
        os.mkdir(name, dir_fd=handle)
        deeper = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = deeper
    os.close(handle)


def test_our_own_records_inside_the_workspace_are_not_part_of_it(tmp_path: Path) -> None:
    here = Ground(tmp_path, tmp_path / "state" / "kept.git")
    here.write("a")
    before = here.keeper.begin_checkpoint("c", None)
    assert here.keeper.finish_checkpoint(before) is None
    here.keeper.close()


@pytest.fixture
def remembering(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr(keep, "WORTH_REMEMBERING", 0)
    monkeypatch.setattr(scan, "RACY_NS", -(10**12))  # as if everything had been written long ago
    for name in ("a", "dir/b", "dir/c"):
        ground.write(name)
    ground.keeper.begin_checkpoint("1", None)
    return ground


def test_later_session_does_not_read_again_what_is_kept(
    remembering: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def noted(store: ObjectStore, path: bytes, root: bytes) -> trees.CapturedFile | None:
        read.append(path)
        return trees.capture(store, path, root=root)

    remembering.write("dir/b", "changed between the sessions\n")
    monkeypatch.setattr(scan, "capture", noted)
    later = remembering.new_keeper("later")
    before = later.begin_checkpoint("1", None)
    later.close()
    assert read == [b"dir/b"]
    state = remembering.state(before.tree)
    assert remembering.store.get("blob", state[b"dir/b"].id) == b"changed between the sessions\n"
    assert remembering.store.get("blob", state[b"a"].id) == b"x\n"


@pytest.mark.parametrize("memory", ["", "[]", "{}", "[1, 2]", '[1, {"a": 3}]', "[2, {}]", "\0"])
def test_memory_that_cannot_be_read_is_no_memory(remembering: Ground, memory: str) -> None:
    (remembering.store.directory / "memory.json").write_text(memory)
    later = remembering.new_keeper("later")
    before = later.begin_checkpoint("1", None)
    later.close()
    assert sorted(remembering.state(before.tree)) == [b"a", b"dir", b"dir/b", b"dir/c"]


def test_sessions_that_keep_everything_at_once_do_not_disturb_each_other(ground: Ground) -> None:
    for number in range(60):
        ground.write(f"dir{number % 7}/f{number}", f"{number}\n")

    def whole(number: int) -> str:
        keeper = ground.new_keeper(f"s{number}")
        try:
            return keeper.begin_checkpoint("1", None).tree
        finally:
            keeper.close()

    with ThreadPoolExecutor(4) as threads:
        trees = set(threads.map(whole, range(8)))
    assert len(trees) == 1
    assert len(ground.state(trees.pop())) == 60 + 7


def test_store_that_cannot_be_written_is_an_error_and_not_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    here = Ground(tmp_path / "work", tmp_path / "kept.git")
    here.write("a")
    (tmp_path / "kept.git" / "objects").mkdir(parents=True)
    (tmp_path / "kept.git" / "objects" / "58").write_text("in the way of every id that begins so")
    with pytest.raises(OSError, match="58"):
        for number in range(1000):
            here.write("a", str(number))
            here.keeper.begin_checkpoint("1", [b"a"])


def test_directory_that_was_removed_and_made_again_is_watched_again(ground: Ground) -> None:
    ground.write("dir/a")
    first = ground.keeper.begin_checkpoint("1", None)
    for _ in range(3):  # file systems like to give the same number again
        shutil.rmtree(ground.root / "dir")
        ground.write("dir/a", "again\n")
    ground.keeper.finish_checkpoint(first)
    second = ground.keeper.begin_checkpoint("2", None)
    ground.write("dir/b")
    assert ground.changed(ground.keeper.finish_checkpoint(second)) == ["dir/b"]


def test_flood_of_changes_is_not_lost(ground: Ground) -> None:
    ground.write("dir/a")
    before = ground.keeper.begin_checkpoint("1", None)
    for number in range(6_000):  # four events each, more than the kernel keeps for us
        path = ground.root / f"dir/flood{number % 7}"
        path.write_bytes(b"%d" % number)
        path.unlink()
    ground.write("dir/b")
    assert ground.changed(ground.keeper.finish_checkpoint(before)) == ["dir/b"]
    again = ground.keeper.begin_checkpoint("2", None)
    ground.write("dir/c")
    assert ground.changed(ground.keeper.finish_checkpoint(again)) == ["dir/c"]


def test_place_that_a_sandbox_holds_is_no_change_of_a_command(ground: Ground) -> None:
    ground.write("a")
    first = ground.keeper.begin_checkpoint("c", None)
    (ground.root / ".agentcli").mkdir()
    assert ground.keeper.finish_checkpoint(first) is None
    second = ground.keeper.begin_checkpoint("d", None)
    ground.write(".agentcli/settings.toml")
    assert ground.changed(ground.keeper.finish_checkpoint(second)) == [
        ".agentcli",
        ".agentcli/settings.toml",
    ]
