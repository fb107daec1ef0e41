import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.features.symbols.index import StaleFiles, SymbolIndex
from agentcli.features.symbols.parser import GRAMMARS, parse_source
from tests.support.examples import examples
from tests.support.processes import until

NAMES = ("alpha", "beta", "gamma")
FOLDERS = ("", "a/", "a/b/", "c/")
SOURCES = tuple(f"def {one}():\n    {other}()\n" for one in NAMES for other in NAMES)

files = st.tuples(st.sampled_from(FOLDERS), st.sampled_from(("x.py", "y.py"))).map("".join)
sources = st.sampled_from(SOURCES)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def replace(root: Path, name: str, text: str) -> None:
    """As editors save: a new file takes the name."""
    write(root, f"{name}.new", text)
    (root / f"{name}.new").replace(root / name)


def write_back_dated(root: Path, name: str, text: str) -> None:
    """The time is the one that it had: only the kernel's own time has changed."""
    write(root, name, text)
    os.utime(root / name, (1_000_000_000, 1_000_000_000))


def remove(root: Path, name: str, _: str) -> None:
    (root / name).unlink(missing_ok=True)


def make_folder(root: Path, name: str, _: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)


def move_folder(root: Path, name: str, _: str) -> None:
    top, moved = root / name.split("/")[0], root / "moved"
    if top.is_dir() and not moved.exists():
        top.rename(moved)


def remove_folder(root: Path, name: str, _: str) -> None:
    if "/" in name:
        shutil.rmtree(root / name.split("/")[0], ignore_errors=True)


Change = Callable[[Path, str, str], None]
CHANGES: tuple[Change, ...] = (
    *(write, replace, write_back_dated, remove),
    *(make_folder, move_folder, remove_folder),
)
steps = st.lists(
    st.lists(st.tuples(st.sampled_from(CHANGES), files, sources), max_size=4),
    min_size=1,
    max_size=8,
)


def list_sources(root: Path) -> list[bytes]:
    return [os.fsencode(path.relative_to(root)) for path in root.rglob("*.py") if path.is_file()]


def refresh(index: SymbolIndex, root: Path) -> int:
    stale = index.compare()
    if stale.must_list:
        stale = index.update_list(list_sources(root), stale)
    change_times = index.get_change_times(stale.changed)
    parsed = [
        parse_source((root / os.fsdecode(path)).read_bytes(), GRAMMARS[".py"])
        for path in stale.changed
    ]
    index.store(stale.changed, change_times, parsed)
    return len(stale.changed)


def expect(root: Path, name: str, marker: str, line: int) -> list[bytes]:
    return sorted(
        path
        for path in list_sources(root)
        if marker.format(name) in (root / os.fsdecode(path)).read_text().splitlines()[line - 1]
    )


@given(steps=steps)
@examples(60)
def test_index_follows_every_change(
    steps: list[list[tuple[Change, str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("symbols")
    root = top / "work"
    root.mkdir()
    index = SymbolIndex(top / "index.sqlite", root=root)
    for changes in steps:
        for change, name, text in changes:
            change(root, name, text)
        refresh(index, root)
        for name in NAMES:
            defined = [(one.path, one.line) for one in index.find_definitions(name)]
            assert defined == [(path, 1) for path in expect(root, name, "def {}(", 1)]
            used = [one.path for one in index.find_mentions(name) if 2 in one.lines]
            assert used == expect(root, name, "    {}()", 2)


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_index_that_cannot_be_used_is_made_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index.sqlite").write_bytes(content)
    (tmp_path / "work").mkdir()
    write(tmp_path / "work", "a.py", SOURCES[0])
    index = SymbolIndex(tmp_path / "index.sqlite", root=tmp_path / "work")
    assert refresh(index, tmp_path / "work") == 1
    assert [one.path for one in index.find_definitions("alpha")] == [b"a.py"]


def test_index_of_another_version_is_made_again(tmp_path: Path) -> None:
    index = SymbolIndex(tmp_path / "index.sqlite", root=tmp_path)
    write(tmp_path, "a.py", SOURCES[0])
    refresh(index, tmp_path)
    with sqlite3.connect(tmp_path / "index.sqlite") as store:
        store.execute("PRAGMA user_version = 99")
    assert index.find_definitions("alpha") == []
    assert refresh(index, tmp_path) == 1


def test_only_what_has_changed_is_read_again(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "empty/inner").mkdir(parents=True)
    write(root, "a/x.py", SOURCES[0])
    write(root, "a/y.py", SOURCES[1])
    index = SymbolIndex(tmp_path / "index.sqlite", root=root)

    def rest() -> None:
        """Let the files become old enough to be known by their times."""
        asyncio.run(until(lambda: not refresh(index, root) and not index.compare().must_list))

    rest()
    write(root, "a/x.py", SOURCES[2])
    assert index.compare() == StaleFiles(changed=(b"a/x.py",))
    rest()
    write(root, "empty/inner/new.py", SOURCES[3])
    assert index.compare().must_list
    assert refresh(index, root) == 1
    rest()
    (root / "a/.gitignore").write_text("y.py\n")
    assert index.compare().must_list
