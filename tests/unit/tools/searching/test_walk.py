from pathlib import Path

from agentcli.machine.folder import Folder
from agentcli.tools.searching.ignore import rules_of
from agentcli.tools.searching.walk import Walk
from tests.support.searching import plant


def walked(root: Path, walk: Walk) -> list[str]:
    with Folder.open(root) as folder:
        return [found.path.decode() for found in walk.files(folder)]


def test_files_come_in_path_order(tmp_path: Path) -> None:
    plant(tmp_path, {name: "" for name in ("b", "a/z", "a/b/c", "a-", ".h", "Z")})
    assert walked(tmp_path, Walk()) == [".h", "Z", "a/b/c", "a/z", "a-", "b"]


def test_deeper_rules_have_the_last_word(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.log", "a/.gitignore": "!x.log", "a/x.log": "", "y.log": ""})
    assert walked(tmp_path, Walk()) == [".gitignore", "a/.gitignore", "a/x.log"]


def test_kinds_of_rules_have_an_order(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "a", ".ignore": "!a\nb", ".rgignore": "!b", "a": "", "b": ""})
    assert walked(tmp_path, Walk())[-2:] == ["a", "b"]


def test_rules_of_git_do_not_reach_into_another_repository(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.log", "inner/.git/HEAD": "", "inner/a.log": "", "b.log": ""})
    excluded = rules_of(".git")
    assert walked(tmp_path, Walk(excluded=excluded)) == [".gitignore", "inner/a.log"]


def test_given_rules_come_last_and_exclusions_first(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "!a\n!b", "a": "", "b": "", "c": "", "d": ""})
    walk = Walk(excluded=rules_of("b"), rules=[*rules_of("a"), *rules_of("c")])
    assert walked(tmp_path, walk) == [".gitignore", "a", "d"]
