import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

from agentcli.log.checkpoint.store import EMPTY_TREE, LOOSE_MAX, STALE_S, ObjectStore
from agentcli.types.errors import SettingsError


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "kept.git")


def test_nothing_is_made_before_something_is_put(store: ObjectStore) -> None:
    assert not store.directory.exists()


def test_content_comes_back_and_has_the_name_git_would_give_it(store: ObjectStore) -> None:
    with store.batch_writes():
        kept = store.put("blob", b"hello\n")
        assert store.put("tree", b"") == EMPTY_TREE
    assert kept == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert ObjectStore(store.directory).get("blob", kept) == b"hello\n"


def test_directory_is_its_owners_alone(store: ObjectStore) -> None:
    with store.batch_writes():
        store.put("blob", b"secret")
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 2047, 2048, 300_000])
def test_many_at_once_share_a_pack_and_come_back(store: ObjectStore, size: int) -> None:
    contents = [bytes([number]) * size + b"%d" % number for number in range(LOOSE_MAX + 20)]
    with store.batch_writes():
        ids = [store.put("blob", content) for content in contents]
    assert len(list((store.directory / "objects/pack").glob("*.pack"))) == 1
    again = ObjectStore(store.directory)
    assert [again.get("blob", kept) for kept in ids] == contents


def test_what_is_kept_is_not_written_again(store: ObjectStore) -> None:
    contents = [b"%d" % number for number in range(LOOSE_MAX + 20)]
    with store.batch_writes():
        ids = [store.put("blob", content) for content in contents]
    found = sorted(store.directory.rglob("*"))
    again = ObjectStore(store.directory)
    with again.batch_writes():
        assert [again.put("blob", content) for content in contents] == ids
    assert sorted(store.directory.rglob("*")) == found


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_reads_loose_objects_and_packs(store: ObjectStore) -> None:
    with store.batch_writes():
        ids = [store.put("blob", b"%d\n" % number) for number in range(LOOSE_MAX + 5)]
    for kept in ids:
        store.keep_reference("s", kept)
    git = ["git", "--git-dir", str(store.directory)]
    assert subprocess.run([*git, "fsck", "--full"], capture_output=True).returncode == 0
    shown = subprocess.run([*git, "cat-file", "blob", ids[-1]], capture_output=True, check=True)
    assert shown.stdout == b"%d\n" % (LOOSE_MAX + 4)


def test_failure_leaves_no_half_pack(store: ObjectStore) -> None:
    with pytest.raises(RuntimeError), store.batch_writes():
        for number in range(LOOSE_MAX + 5):
            store.put("blob", b"%d" % number)
        raise RuntimeError
    assert list((store.directory / "objects/pack").iterdir()) == []


def test_pack_that_a_killed_process_began_is_swept_away_later(store: ObjectStore) -> None:
    with store.batch_writes():
        store.put("blob", b"x")
    begun = store.directory / "objects/pack/tmp_pack_1_2"
    begun.write_bytes(b"half")
    with ObjectStore(store.directory).batch_writes():
        assert begun.exists()
    long_ago = time.time() - 2 * STALE_S
    os.utime(begun, (long_ago, long_ago))
    with ObjectStore(store.directory).batch_writes():
        assert not begun.exists()


@pytest.mark.parametrize("damage", [b"", b"garbage"])
def test_damaged_or_lost_content_is_named(store: ObjectStore, damage: bytes) -> None:
    with store.batch_writes():
        kept = store.put("blob", b"hello\n")
    path = store.directory / "objects" / kept[:2] / kept[2:]
    path.unlink()
    with pytest.raises(SettingsError, match=f"{kept} is not among"):
        store.get("blob", kept)
    path.write_bytes(damage)
    with pytest.raises(SettingsError, match="is damaged"):
        store.get("blob", kept)


@pytest.mark.parametrize("left", [0.0, 0.5])
@pytest.mark.parametrize("suffix", ["pack", "idx"])
def test_what_a_power_cut_has_lost_is_stored_again(
    store: ObjectStore, suffix: str, left: float
) -> None:
    contents = [b"%d" % number for number in range(LOOSE_MAX + 20)]
    with store.batch_writes():
        ids = [store.put("blob", content) for content in contents]
    (half,) = (store.directory / "objects/pack").glob(f"*.{suffix}")
    half.write_bytes(half.read_bytes()[: int(half.stat().st_size * left)])
    loose = store.directory / "objects" / ids[0][:2] / ids[0][2:]
    loose.write_bytes(b"")
    again = ObjectStore(store.directory)
    with again.batch_writes():
        assert [again.put("blob", content) for content in contents] == ids
    assert again.lost_packs
    assert [ObjectStore(store.directory).get("blob", one) for one in ids] == contents


def test_forgetting_the_last_session_forgets_everything(store: ObjectStore) -> None:
    with store.batch_writes():
        kept = store.put("blob", b"x")
    store.keep_reference("one", kept)
    store.keep_reference("two", kept)
    store.forget("one")
    assert store.get("blob", kept) == b"x"
    store.forget("two")
    assert not store.directory.exists()
