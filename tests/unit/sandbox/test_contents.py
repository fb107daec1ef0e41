import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.sandbox.contents import (
    DIRECTORY,
    ContentReader,
    DirectoryContent,
    Entry,
    FileContent,
    LinkContent,
    UnreadContent,
    put_back,
    remove_directory,
)
from tests.support.examples import examples

NAMES = st.sampled_from(["a", "b", "c"])
MODES = st.sampled_from([0o644, 0o755, 0o600])
FILES = st.builds(FileContent, MODES, st.binary(max_size=20))
LINKS = st.builds(LinkContent, st.sampled_from(["a", "../x", "/etc/passwd"]))
ENTRIES: st.SearchStrategy[Entry] = st.recursive(
    st.one_of(FILES, LINKS),
    lambda below: st.builds(
        DirectoryContent, st.just(0o755), st.dictionaries(NAMES, below, max_size=3)
    ),
    max_leaves=6,
)


@given(before=st.none() | ENTRIES, after=st.none() | ENTRIES)
@examples(60)
def test_whatever_was_there_is_put_back(before: Entry | None, after: Entry | None) -> None:
    with TemporaryDirectory() as directory:
        parent = os.open(directory, DIRECTORY)
        try:
            put_back("it", parent, before=after, after=None)
            now = ContentReader().read("it", parent)
            assert now == after
            put_back("it", parent, before=before, after=now)
            assert ContentReader().read("it", parent) == before
        finally:
            os.close(parent)


@pytest.fixture
def parent(tmp_path: Path) -> int:
    return os.open(tmp_path, DIRECTORY)


def test_links_are_not_followed(tmp_path: Path, parent: int) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").write_text("kept")
    (tmp_path / "it").symlink_to("outside")
    assert ContentReader().read("it", parent) == LinkContent("outside")
    put_back("it", parent, before=FileContent(0o644, b"x"), after=LinkContent("outside"))
    assert (tmp_path / "it").read_text() == "x"
    assert (tmp_path / "outside/kept").read_text() == "kept"


def test_too_much_is_told_apart_but_not_kept(tmp_path: Path, parent: int) -> None:
    (tmp_path / "many").mkdir()
    for number in range(2001):
        (tmp_path / f"many/{number}").touch()
    deep = tmp_path / "deep"
    for _ in range(20):
        deep.mkdir()
        deep = deep / "d"
    with (tmp_path / "large").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    reader = ContentReader()
    assert [type(reader.read(name, parent)) for name in ("many", "deep", "large")] == [
        UnreadContent
    ] * 3
    put_back("many", parent, before=DirectoryContent(0o755, {}), after=reader.read("many", parent))
    assert list((tmp_path / "many").iterdir()) == []


def test_deep_directories_are_moved_away_when_they_cannot_be_removed(
    tmp_path: Path, parent: int
) -> None:
    at = os.open(tmp_path, DIRECTORY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        put_back("d", parent, before=None, after=ContentReader().read("d", parent))
        assert not (tmp_path / "d").exists()
    finally:  # pytest cannot remove what is so deep, and would end with a traceback days later
        subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


def test_pipes_are_not_waited_for(tmp_path: Path, parent: int) -> None:
    os.mkfifo(tmp_path / "it")
    assert isinstance(ContentReader().read("it", parent), UnreadContent)
    put_back(
        "it", parent, before=FileContent(0o600, b"x"), after=ContentReader().read("it", parent)
    )
    assert (tmp_path / "it").read_bytes() == b"x"


def test_unread_files_stay_when_their_directory_is_put_back(tmp_path: Path, parent: int) -> None:
    (tmp_path / "it").mkdir()
    with (tmp_path / "it/large").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    reader = ContentReader()
    before = reader.read("it", parent)
    (tmp_path / "it/new").write_text("x")
    put_back("it", parent, before=before, after=reader.read("it", parent))
    assert [path.name for path in (tmp_path / "it").iterdir()] == ["large"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_directory_is_replaced(tmp_path: Path, parent: int) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it/x").touch()
    (tmp_path / "it").chmod(0)
    put_back(
        "it", parent, before=DirectoryContent(0o755, {}), after=ContentReader().read("it", parent)
    )
    assert list((tmp_path / "it").iterdir()) == []


def test_directory_is_removed_whatever_rights_are_missing_in_it(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "closed").mkdir(parents=True, mode=0o700)
    (top / "read-only/deep").mkdir(parents=True)
    (top / "read-only/deep/file").touch()
    for path, mode in (("closed", 0), ("read-only/deep", 0o500), ("read-only", 0o500)):
        (top / path).chmod(mode)
    remove_directory(top)
    assert not top.exists()


def test_change_is_seen_however_soon(tmp_path: Path, parent: int) -> None:
    reader = ContentReader()
    for number in range(50):
        (tmp_path / "it").write_text(str(number % 10))
        assert reader.read("it", parent) == FileContent(0o644, str(number % 10).encode())
