import os
from pathlib import Path

import pytest

from agentcli.log.checkpoint.store import EMPTY_TREE, ObjectStore
from agentcli.log.checkpoint.trees import State, StoredEntry, write_state
from agentcli.log.paths import SessionPaths
from agentcli.log.rebuild import copy_tree, rebuild_at, restore_changes
from agentcli.types.errors import SettingsError
from agentcli.types.events import Checkpointed, Entry, Fact
from tests.support.record import STARTED

FILE, LINK, DIRECTORY = 0o100644, 0o120000, 0o040755


def kept(store: ObjectStore, text: str, mode: int = FILE) -> StoredEntry:
    return StoredEntry(mode, store.put("blob", text.encode()))


def changed(store: ObjectStore, before: State, after: State) -> Entry:
    with store.batch_writes():
        states = [write_state(store, state) if state else EMPTY_TREE for state in (before, after)]
    fact = Checkpointed(call_id="c", before=states[0], after=states[1], paths=(), paths_total=0)
    return entry(fact)


def entry(fact: Fact, seq: int = 1) -> Entry:
    return Entry(seq=seq, at="", session="s", parent=None, fact=fact)


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    made = ObjectStore(tmp_path / "store.git")
    with made.batch_writes():
        return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def test_what_calls_changed_is_put_back_as_it_was_first(store: ObjectStore, root: Path) -> None:
    (root / "edited").write_text("3")
    (root / "made").write_text("new")
    (root / "own").write_text("the person's")
    with store.batch_writes():
        states = [kept(store, text) for text in ("1", "2", "3", "link")]
    first = changed(store, {b"edited": states[0]}, {b"edited": states[1], b"made": states[2]})
    second = changed(store, {b"edited": states[1]}, {b"edited": states[2]})
    third = changed(
        store,
        {b"d": StoredEntry(DIRECTORY), b"d/gone": states[0], b"l": StoredEntry(LINK, states[3].id)},
        {},
    )
    assert restore_changes([first, second, third], store, root=root) == 5
    assert files(root) == {"d/gone": "1", "edited": "1", "l": "link", "own": "the person's"}


def test_link_in_the_way_leads_nowhere(store: ObjectStore, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b").write_text("theirs")
    (root / "d").symlink_to(outside)
    with store.batch_writes():
        text = kept(store, "ours")
    before = {b"d": StoredEntry(DIRECTORY), b"d/a": text}
    after = {b"d": StoredEntry(DIRECTORY), b"d/b": text}
    restore_changes([changed(store, before, after)], store, root=root)
    assert files(outside) == {"b": "theirs"}
    assert files(root) == {"d/a": "ours"}


def test_tree_beside_the_log_is_the_one_it_began_with(tmp_path: Path, root: Path) -> None:
    place = SessionPaths(id="s", directory=tmp_path / "s")
    (place.directory / "base").mkdir(parents=True)
    (place.directory / "base" / "a").write_text("1")
    words = rebuild_at(place, [entry(STARTED)], seq=0, into=root)
    assert (files(root), words) == ({"a": "1"}, f"the files in {place.directory / 'base'}")


def test_copy_keeps_links_and_leaves_pipes(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_text("1")
    (source / "link").symlink_to("/nowhere")
    os.mkfifo(source / "pipe")
    copy_tree(source, root)
    assert files(root) == {"a": "1", "link": "/nowhere"}


def test_tree_that_is_gone_is_an_error_with_a_way_out(tmp_path: Path, root: Path) -> None:
    with pytest.raises(SettingsError, match="no longer exists") as raised:
        copy_tree(tmp_path / "none", root)
    assert raised.value.hint == f"put it back: ls -la {tmp_path}"


def test_a_file_of_which_no_copy_was_stored_stays_as_it_is(store: ObjectStore, root: Path) -> None:
    (root / "large").write_text("today's")
    (root / "other").write_text("2")
    with store.batch_writes():
        old = {b"large": StoredEntry.without_content("1"), b"other": kept(store, "1")}
        new = {b"large": StoredEntry.without_content("2"), b"other": kept(store, "2")}
    assert restore_changes([changed(store, old, new)], store, root=root) == 1
    assert files(root) == {"large": "today's", "other": "1"}
