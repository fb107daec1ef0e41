from pathlib import Path

import pytest

from agentcli.tools.search.ignore import (
    inherit_rules,
    judge_path,
    parse_rules,
    read_git_excludes,
    read_global_rules,
)
from tests.support.searching import plant


def leaves_out(lines: str, path: str, *, is_dir: bool = False) -> bool | None:
    rules = [rule for line in lines.split("\n") for rule in parse_rules(line)]
    return judge_path(rules, path.encode(), is_dir=is_dir)


@pytest.mark.parametrize(
    ("lines", "path", "left_out"),
    [
        ("*.log", "a/b.log", True),
        ("/a", "a", True),
        ("/a", "b/a", None),
        ("a/b", "a/b", True),
        ("a/b", "x/a/b", None),
        ("**/b", "x/y/b", True),
        ("a/**", "a/b", True),
        ("a/**", "a", None),
        ("*.log\n!keep.log", "keep.log", False),
        ("!keep.log\n*.log", "keep.log", True),
        ("a/", "a", None),
        ("# a", "# a", None),
        (r"\#a", "#a", True),
        (r"\!a", "!a", True),
        ("a  ", "a", True),
        (r"a\ ", "a ", True),
        ("*.{py,js}", "x.js", True),
        ("{a", "{a", None),
        ("[", "[", None),
        ("/", "a", None),
        ("", "a", None),
    ],
)
def test_last_rule_that_matches_decides(lines: str, path: str, left_out: bool | None) -> None:
    assert leaves_out(lines, path) is left_out


def test_rule_with_a_slash_at_its_end_is_for_directories() -> None:
    assert leaves_out("a/", "x/a", is_dir=True) is True
    assert leaves_out("a/", "x/a", is_dir=False) is None


@pytest.mark.parametrize(
    ("line", "inside"),
    [
        ("/src/foo", ["/foo"]),
        ("*.log", ["/**/*.log"]),
        ("s*/x/", ["/x/"]),
        ("!src/**/keep", ["!/**/keep"]),
        ("src/**", ["/**/*"]),
        ("**/src/x", ["/**/src/x", "/x"]),
        ("lib/x", []),
        ("src", ["/**/src"]),
        ("/src", []),
    ],
)
def test_rule_is_carried_into_a_directory(line: str, inside: list[str]) -> None:
    (rule,) = parse_rules(line)
    assert [rest.line for rest in rule.iter_inner_rules(b"src")] == inside


def test_rules_of_all_directories_above_are_inherited(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.tmp\n/ws/src/gen\n", "ws/.ignore": "!src/a.tmp\n"})
    plant(tmp_path, {"ws/src/x": ""})
    outer = inherit_rules(tmp_path / "ws/src", workspace=tmp_path / "ws")
    assert not outer.ignored
    assert [rule.line for rule in outer.rules][-3:] == ["/**/*.tmp", "/gen", "!/a.tmp"]


def test_rules_of_git_end_at_their_repository(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.tmp\n", ".ignore": "*.bak\n", "ws/.git/info/exclude": "/b"})
    plant(tmp_path, {"ws/src/x": ""})
    outer = inherit_rules(tmp_path / "ws/src", workspace=tmp_path / "ws")
    assert [rule.line for rule in outer.rules][-1:] == ["/**/*.bak"]
    assert "/**/*.tmp" not in [rule.line for rule in outer.rules]


def test_directory_in_an_ignored_one_is_ignored(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "build/\n", "build/deep/x": "", "src/x": ""})
    assert inherit_rules(tmp_path / "build/deep", workspace=tmp_path).ignored
    assert not inherit_rules(tmp_path / "src", workspace=tmp_path).ignored


def test_rules_outside_cannot_ignore_the_workspace(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*\n", "ws/src/x": ""})
    outer = inherit_rules(tmp_path / "ws/src", workspace=tmp_path / "ws")
    assert not outer.ignored
    assert outer.rules == ()


def test_exclude_file_is_found_from_a_worktree(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "main/.git/info/exclude": "*.tmp\n",
            "main/.git/worktrees/w/commondir": "../..\n",
            "w/.git": f"gitdir: {tmp_path}/main/.git/worktrees/w\n",
        },
    )
    assert [rule.line for rule in read_git_excludes(tmp_path / "w")] == ["/**/*.tmp"]


def test_rules_for_all_repositories_are_where_git_has_them(tmp_path: Path) -> None:
    plant(tmp_path, {"home/.config/git/ignore": "*.swp\n", "home/mine": ".idea\n"})
    home = tmp_path / "home"
    assert [rule.line for rule in read_global_rules(home, home / ".config")] == ["/**/*.swp"]
    plant(home, {".gitconfig": '[core]\n\texcludesFile = "~/mine"\n'})
    assert [rule.line for rule in read_global_rules(home, home / ".config")] == ["/**/.idea"]
