"""Between the look at a path and the search in it a command may put a link there."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.tools.search.ripgrep import Ripgrep
from tests.support.searching import CAN_HOLD, find, grep, installed, plant

HELD = installed() if CAN_HOLD else []

NO_MATCHES = "No matches for secret|mine"

Search = Callable[..., str]


def swapped(engine: Ripgrep, path: Path, outside: Path) -> Ripgrep:
    """One that finds a link to elsewhere where the search was to begin."""

    def start(argv: Any, **given: Any) -> Any:
        if not path.is_symlink():
            path.rename(path.with_name("moved"))
            path.symlink_to(outside)
        return engine.start(argv, **given)

    return replace(engine, start=start)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    plant(tmp_path, {"outside/secret.txt": "a secret\n", "workspace/dir/secret.txt": "mine\n"})
    return tmp_path / "workspace"


@pytest.mark.parametrize("engine", HELD, ids=lambda engine: engine.command[0])
@pytest.mark.parametrize(
    ("search", "arguments", "nothing"),
    [
        (grep, {"pattern": "secret|mine"}, NO_MATCHES),
        (grep, {"pattern": "secret|mine", "mode": "count"}, NO_MATCHES),
        (grep, {"pattern": "secret|mine", "mode": "files"}, NO_MATCHES),
        (find, {"glob": "*"}, "No files match *"),
    ],
)
def test_directory_that_became_a_link_is_not_searched(
    workspace: Path, engine: Ripgrep, search: Search, arguments: dict[str, Any], nothing: str
) -> None:
    racing = swapped(engine, workspace / "dir", workspace.parent / "outside")
    assert search(workspace, racing, path="dir", **arguments) == f"{nothing} in dir."


@pytest.mark.parametrize("engine", HELD, ids=lambda engine: engine.command[0])
def test_file_that_became_a_link_is_not_searched(workspace: Path, engine: Ripgrep) -> None:
    file = workspace / "dir/secret.txt"
    racing = swapped(engine, file, workspace.parent / "outside/secret.txt")
    answer = grep(workspace, racing, pattern="secret|mine", path="dir/secret.txt")
    assert answer == f"{NO_MATCHES} in dir/secret.txt."


@pytest.mark.parametrize("engine", HELD, ids=lambda engine: engine.command[0])
def test_ripgrep_that_follows_a_link_gets_nowhere(workspace: Path, engine: Ripgrep) -> None:
    (workspace / "link").symlink_to(workspace.parent / "outside")
    (workspace / "link.txt").symlink_to(workspace.parent / "outside/secret.txt")
    misled = replace(engine, command=(*engine.command, "--follow"))
    assert grep(workspace, misled, pattern="secret|mine") == "dir/secret.txt\n  1: mine"
    assert find(workspace, misled, glob="secret*") == "dir/secret.txt"
