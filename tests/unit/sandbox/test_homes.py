import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from agentcli.sandbox.homes import (
    UNUSED_DAYS,
    CommandHome,
    clear_home,
    copy_git_settings,
    find_home,
    list_homes,
    open_home,
    remove_unused,
)
from agentcli.sandbox.paths import SandboxScope, survey_paths
from tests.support.terminal import until

USE_AND_WAIT = """
import sys
from pathlib import Path
from agentcli.sandbox.homes import open_home
home = open_home(Path(sys.argv[1]), Path(sys.argv[2]))
print(home.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    return tmp_path / "homes"


@pytest.fixture
def opened(homes: Path, workspace: Path) -> Iterator[CommandHome]:
    made = open_home(homes, workspace)
    yield made
    made.close()


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")


def list_files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def age(homes: Path, workspace: Path, days: float) -> None:
    stored = find_home(homes, workspace)
    assert stored is not None
    at = time.time() - days * 24 * 60 * 60
    os.utime(stored.directory / "lock", (at, at))


def test_caches_last_and_settings_do_not(homes: Path, workspace: Path) -> None:
    caches = {
        *(".cache/pip/http/1", ".cache/uv/wheels/2", ".npm/_cacache/3", ".cargo/registry/4"),
        *("go/pkg/mod/5", ".local/share/uv/python/6"),
    }
    settings = {
        *(".gitconfig", ".bashrc", ".npmrc", ".config/pip/pip.conf", ".cargo/config.toml"),
        *(".local/bin/git", ".local/lib/python3/site-packages/x.pth", "go/bin/tool", "notes"),
    }
    first = open_home(homes, workspace)
    fill(first.path, *caches, *settings)
    first.close()

    second = open_home(homes, workspace)
    assert second.path == first.path
    assert list_files(second.path) == caches
    second.close()


def test_workspaces_have_homes_of_their_own(
    homes: Path, workspace: Path, tmp_path: Path, opened: CommandHome
) -> None:
    other = open_home(homes, tmp_path)
    assert other.path != opened.path
    assert {one.workspace for one in list_homes(homes)} == {workspace, tmp_path}
    other.close()


def test_only_the_user_can_enter_it(opened: CommandHome) -> None:
    assert opened.path.stat().st_mode & 0o077 == 0


def test_links_that_a_command_left_lead_nowhere(
    homes: Path, workspace: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "mine", "registry/letter", "diary")
    first = open_home(homes, workspace)
    for name in (".cargo", ".cache", "elsewhere"):
        (first.path / name).symlink_to(tmp_path / "mine")
    first.close()

    second = open_home(homes, workspace)
    assert list(second.path.iterdir()) == []
    assert list_files(tmp_path / "mine") == {"registry/letter", "diary"}
    second.close()


def test_session_beside_another_changes_nothing_of_it(
    homes: Path, workspace: Path, opened: CommandHome
) -> None:
    fill(opened.path, ".gitconfig", ".cache/x")
    second = open_home(homes, workspace)
    assert list_files(second.path) == {".gitconfig", ".cache/x"}
    second.close()


def test_settings_are_not_written_through_a_link_of_another_session(
    tmp_path: Path, workspace: Path, opened: CommandHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    fill(config, "git/ignore")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    (tmp_path / "private").mkdir()
    (tmp_path / "mine").mkdir()
    (opened.path / ".gitconfig").symlink_to(tmp_path / "mine/planted")
    (opened.path / ".config").symlink_to(tmp_path / "mine")
    scope = SandboxScope(workspace=workspace, private=tmp_path / "private", home=opened.path)

    paths = survey_paths(scope, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})

    assert paths.variables["HOME"] == str(opened.path)
    assert list((tmp_path / "mine").iterdir()) == []


def test_home_in_use_is_not_cleared(homes: Path, workspace: Path, opened: CommandHome) -> None:
    fill(opened.path, ".cache/x")
    stored = find_home(homes, workspace)
    assert stored is not None
    assert not clear_home(stored)
    opened.close()
    assert clear_home(stored)
    assert list_homes(homes) == ()
    assert list(homes.iterdir()) == []


def test_read_only_directories_are_cleared(
    homes: Path, workspace: Path, opened: CommandHome
) -> None:
    fill(opened.path, "go/pkg/mod/module/file.go")
    for path in (opened.path / "go/pkg/mod/module", opened.path / "go/pkg/mod"):
        path.chmod(0o555)
    opened.close()
    stored = find_home(homes, workspace)
    assert stored is not None
    assert clear_home(stored)
    assert not stored.directory.exists()


def test_killed_session_releases_its_home(homes: Path, workspace: Path) -> None:
    words = [sys.executable, "-c", USE_AND_WAIT, str(homes), str(workspace)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        home = Path(user.stdout.readline().strip())
        fill(home, ".cache/x", ".gitconfig")
        stored = find_home(homes, workspace)
        assert stored is not None
        assert not clear_home(stored)
        user.send_signal(signal.SIGKILL)
        user.wait()

    opened = open_home(homes, workspace)
    assert list_files(opened.path) == {".cache/x"}
    opened.close()
    assert clear_home(stored)


def until_removed(homes: Path, *, kept: list[Path]) -> None:
    """Remove again if need be: a process that another thread just starts holds all locks."""

    def is_done() -> bool:
        remove_unused(homes)
        return [one.workspace for one in list_homes(homes)] == kept

    until(is_done, "unused homes are removed")


def test_homes_that_nobody_used_for_long_are_removed(
    homes: Path, workspace: Path, tmp_path: Path
) -> None:
    for each in (workspace, tmp_path):
        open_home(homes, each).close()
    age(homes, workspace, UNUSED_DAYS + 1)
    age(homes, tmp_path, UNUSED_DAYS - 1)
    until_removed(homes, kept=[tmp_path])


def test_old_home_in_use_stays(homes: Path, workspace: Path, opened: CommandHome) -> None:
    age(homes, workspace, UNUSED_DAYS + 1)
    remove_unused(homes)
    assert opened.path.is_dir()


def test_home_of_a_workspace_that_is_gone_is_removed(homes: Path, workspace: Path) -> None:
    open_home(homes, workspace).close()
    workspace.rmdir()
    until_removed(homes, kept=[])


def test_size_counts_files_with_two_names_once_and_follows_no_link(
    homes: Path, workspace: Path, opened: CommandHome
) -> None:
    stored = find_home(homes, workspace)
    assert stored is not None
    before = stored.measure_bytes()
    big = opened.path / "big"
    big.write_bytes(b"x" * 1_000_000)
    (opened.path / "other").hardlink_to(big)
    (opened.path / "link").symlink_to("/usr")
    assert 1_000_000 <= stored.measure_bytes() - before < 1_100_000


@pytest.mark.parametrize(
    "variables, file",
    [
        ({}, "user/.gitconfig"),
        ({}, "user/.config/git/config"),
        ({"XDG_CONFIG_HOME": "config"}, "config/git/config"),
        ({"GIT_CONFIG_GLOBAL": "chosen"}, "chosen"),
    ],
)
def test_git_settings_are_copied_from_each_file_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], file: str
) -> None:
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "user"} | variables).items():
        monkeypatch.setenv(name, str(tmp_path / value))
    for directory in ("workspace", "without", "with"):
        (tmp_path / directory).mkdir()
    copy = partial(copy_git_settings, user_home=tmp_path / "user", workspace=tmp_path / "workspace")
    copy(tmp_path / "without")
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("[user]\n\tname = Ada\n")
    copy(tmp_path / "with")
    assert "Ada" not in (tmp_path / "without/.gitconfig").read_text()
    assert "Ada" in (tmp_path / "with/.gitconfig").read_text()
