import os
from pathlib import Path

import pytest

from agentcli.system.workspace import Workspace
from agentcli.tools.search.scope import SearchScope, build_scope
from agentcli.types.errors import ToolError
from tests.support.searching import plant


def scope(root: Path, path: str = ".", glob: str | None = None) -> SearchScope:
    return build_scope(Workspace(root), path=path, glob=glob)


def test_workspace_is_searched_from_its_root(tmp_path: Path) -> None:
    found = scope(tmp_path)
    assert (found.where, found.cwd, found.target) == ("the workspace", tmp_path.resolve(), ".")
    assert found.display(b"./src/a.py") == "src/a.py"


def test_file_is_searched_from_its_directory(tmp_path: Path) -> None:
    plant(tmp_path, {"src/a.py": ""})
    found = scope(tmp_path, "src/a.py", "*.md")
    assert (found.where, found.cwd, found.target) == (
        "src/a.py",
        tmp_path.resolve() / "src",
        "./a.py",
    )
    assert found.display(b"./a.py") == "src/a.py"
    assert found.admits(b"./a.py")


@pytest.mark.parametrize(
    ("glob", "below", "arguments"),
    [
        ("*.py", "", ["--type-add=wanted:*.py", "--type=wanted"]),
        ("src/lib/*.py", "src/lib", ["--type-add=wanted:*.py", "--type=wanted"]),
        ("src/**", "src", []),
        ("src/*/a?.{py,js}", "src", ["--type-add=wanted:a*.py", "--type-add=wanted:a*.js"]),
        ("!*.{md,txt}", "", ["--glob=!*.md", "--glob=!*.txt"]),
        ("gone/*.py", "", ["--type-add=wanted:*.py", "--type=wanted"]),
        ("include:x", "", []),
    ],
)
def test_glob_becomes_a_directory_and_a_filter(
    tmp_path: Path, glob: str, below: str, arguments: list[str]
) -> None:
    plant(tmp_path, {"src/lib/a.py": ""})
    found = scope(tmp_path, ".", glob)
    assert found.cwd == tmp_path.resolve() / below
    assert list(found.arguments[: len(arguments)]) == arguments


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("path", ["locked", "locked.txt"])
def test_what_may_not_be_read_is_refused(tmp_path: Path, path: str) -> None:
    plant(tmp_path, {"locked/a": "", "locked.txt": ""})
    (tmp_path / path).chmod(0)
    with pytest.raises(ToolError, match="permission denied"):
        scope(tmp_path, path)


def test_directory_that_is_ignored_is_searched_without_rules(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "build\n*.log\n", "build/a": "", "src/a": ""})
    assert scope(tmp_path, "build").arguments == ("--no-ignore",)
    assert scope(tmp_path, "build").rules == ()
    assert scope(tmp_path, "src").arguments == ()
    assert scope(tmp_path, "src").rules[-2:] == ("/**/build", "/**/*.log")


def test_rules_of_the_person_and_of_a_worktree_count_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(
        tmp_path,
        {
            "home/.config/git/ignore": "*.swp\n",
            "repository/.git/info/exclude": "*.orig\n",
            "repository/.git/worktrees/one/commondir": "../..\n",
            "worktree/.git": f"gitdir: {tmp_path}/repository/.git/worktrees/one\n",
        },
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert scope(tmp_path / "worktree").rules == ("/**/*.swp", "/**/*.orig")
