import subprocess
from pathlib import Path

import pytest

from agentcli.sandbox.git_paths import find_gitlinks

LINKS = ("a/deep/link", "b" * 200, "link with ü")
SHAPES = {
    "version 2": ("--index-version", "2"),
    "version 4": ("--index-version", "4"),
    "with further flags": ("--skip-worktree", "file-3"),
    "split": ("--split-index",),
}


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


def add(root: Path, mode: str, path: str, digits: int = 40) -> None:
    git(root, "update-index", "--add", "--cacheinfo", f"{mode},{'e0' * (digits // 2)},{path}")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for number in range(12):
        (tmp_path / f"file-{number}").touch()
    git(tmp_path, "add", ".")
    return tmp_path


@pytest.mark.parametrize("shape", SHAPES)
def test_links_are_read_from_an_index_of_every_shape(repository: Path, shape: str) -> None:
    for path in LINKS:
        add(repository, "160000", path)
    git(repository, "update-index", *SHAPES[shape])
    assert set(find_gitlinks(repository / ".git")) == set(LINKS)


def test_links_are_read_with_longer_hashes(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    for path in LINKS:
        add(tmp_path, "160000", path, digits=64)
    assert set(find_gitlinks(tmp_path / ".git")) == set(LINKS)


def test_index_that_changed_is_read_again(repository: Path) -> None:
    assert find_gitlinks(repository / ".git") == ()
    add(repository, "160000", "one")
    assert find_gitlinks(repository / ".git") == ("one",)
    git(repository, "update-index", "--force-remove", "one")
    assert find_gitlinks(repository / ".git") == ()


@pytest.mark.parametrize("kept_bytes", [0, 3, 11, 12, 40, 80, 120, 200])
def test_broken_index_says_what_it_can(repository: Path, kept_bytes: int) -> None:
    add(repository, "160000", "a")
    index = repository / ".git/index"
    index.write_bytes(index.read_bytes()[:kept_bytes] + b"\0\0\xe0\0" * 3)
    assert isinstance(find_gitlinks(repository / ".git"), tuple)
    index.write_bytes(b"DIRC\0\0\0\4\xff\xff\xff\xff" + b"\0\0\xe0\0" + b"\xff" * 200)
    assert find_gitlinks(repository / ".git") == ()
