import os
import subprocess
from pathlib import Path

import pytest

from agentcli.system.workspace import find_closest_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in ("src/app/config.py", "src/app/main.py", "tests/test_config.py", ".git/config.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("src/app/confg.py", "src/app/config.py"),
        ("src/ap/config.py", "src/app/config.py"),
        ("/src/app/main.py", "src/app/main.py"),
        ("./src/app/Main.py", "src/app/main.py"),
        ("app/main.py", "src/app/main.py"),
        ("config.py", "src/app/config.py"),
        ("src\\app\\main.py", "src/app/main.py"),
        ("nothing/like/it.rs", None),
        ("..", None),
        ("", None),
        ("\0", None),
    ],
)
def test_closest_path_is_found(root: Path, given: str, near: str | None) -> None:
    assert find_closest_path(root, given) == near


def test_links_are_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "hidden.py").write_text("")
    (root / "link").symlink_to(outside)
    assert find_closest_path(root, "link/hiden.py") is None
    assert find_closest_path(root, "hidden.py") is None


def test_bottomless_directory_is_not_searched_to_its_end(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("a", dir_fd=handle)
        below = os.open("a", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    try:
        assert find_closest_path(tmp_path, "nothere.txt") is None
        assert find_closest_path(tmp_path, "b/" * 3000) is None
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "a"], check=True)
