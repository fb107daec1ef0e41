from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.permissions.denied_paths import MOST_PATHS, DeniedPaths
from agentcli.permissions.path_patterns import PathPattern
from agentcli.permissions.rules import PermissionRule, When, parse_rule
from agentcli.types.errors import SettingsError

FILES = (".env", "sub/.env.local", "src/a.py", "src/b.py", "node_modules/p/.env", "db/1.sql")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path.resolve()


def _deny(text: str, when: When = "always") -> PermissionRule:
    return replace(parse_rule(text, "deny", source="user"), when=when)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (".env", {".env"}),
        ("**/.env*", {".env", "sub/.env.local"}),
        ("db/**", {"db"}),
        ("db/", {"db"}),
        ("src/*.py", {"src/a.py", "src/b.py"}),
        ("*.SQL", {"db/1.sql"}),
        ("src", {"src"}),
        ("./missing.txt", {"missing.txt"}),
        ("node_modules/p/.env", {"node_modules/p/.env"}),
    ],
)
def test_patterns_become_paths(root: Path, pattern: str, found: set[str]) -> None:
    denied = DeniedPaths([_deny(f"read({pattern})"), _deny(f"edit({pattern})")], root)
    expected = {root / name for name in found}
    assert set(denied.find_below(root, "edit")) == expected
    assert set(denied.find_unreadable()) == expected


def test_reading_and_editing_are_apart(root: Path) -> None:
    denied = DeniedPaths([_deny("read(db/**)"), _deny("edit(src/**)")], root)
    assert denied.find_unreadable() == (root / "db",)
    assert denied.find_below(root, "edit") == (root / "src",)


def test_absolute_pattern_is_found_where_it_is(root: Path, tmp_path: Path) -> None:
    denied = DeniedPaths([_deny(f"read({root}/s*/a.py)")], root)
    assert denied.find_unreadable() == (root / "src" / "a.py",)


@pytest.mark.parametrize(
    "rule",
    [
        parse_rule("read(.env)", "ask", source="user"),
        parse_rule("read(.env)", "allow", source="user"),
        _deny("bash(cat .env)"),
        _deny("read(.env)", when="untrusted"),
        _deny("grep(.env)"),
    ],
)
def test_other_rules_hold_no_path(root: Path, rule: PermissionRule) -> None:
    assert DeniedPaths([rule], root).find_unreadable() == ()


def test_too_many_paths_are_refused(root: Path) -> None:
    for number in range(MOST_PATHS + 1):
        (root / f"{number}.pem").touch()
    with pytest.raises(SettingsError, match="too many"):
        DeniedPaths([_deny("read(*.pem)")], root).find_unreadable()
    with pytest.raises(SettingsError, match="too many"):
        DeniedPaths([_deny("edit(*.pem)")], root).find_below(root, "edit")


def test_many_paths_of_one_action_do_not_hide_those_of_the_other(root: Path) -> None:
    for number in range(MOST_PATHS + 1):
        (root / f"{number}.pem").touch()
    denied = DeniedPaths([_deny("read(*.pem)"), _deny("edit(*.sql)")], root)
    assert denied.find_below(root, "edit") == (root / "db" / "1.sql",)


@pytest.mark.parametrize(
    ("glob", "moved"),
    [
        ("/old/a/secrets/**", "/new/a/secrets/**"),
        ("/old/a.txt", "/new/a.txt"),
        ("/old/*.pem", "/new/*.pem"),
        ("/old/a/*/b", "/new/a/*/b"),
        ("/old/**/x", "/new/**/x"),
        ("/old/**", None),
        ("/old", None),
        ("/older/a", None),
        ("/elsewhere/*", None),
        ("a/**", None),
        ("**/a", None),
    ],
)
def test_pattern_is_moved_to_a_copy_of_what_it_is_about(glob: str, moved: str | None) -> None:
    pattern = PathPattern(glob).move(Path("/old"), Path("/new"))
    assert (pattern and pattern.glob) == moved
