"""Paths that rules deny, held from commands in both Linux layers."""

import os
from pathlib import Path

import pytest

from tests.support.confined import LAYERS, Confined, confined
from tests.support.program import agentcli, script, session_log

pytestmark = pytest.mark.parametrize("layer", LAYERS)

CHANGES = {
    "copy": "/bin/cp other.txt kept/a.txt",
    "redirect": "echo evil > kept/a.txt",
    "append through a link": "ln -s kept/a.txt alias; echo evil >> alias",
    "rename over": "mv other.txt kept/a.txt",
    "remove": "rm -f kept/a.txt",
    "remove the directory": "rm -rf kept",
    "rename the directory": "mv kept gone; mkdir kept; echo evil > kept/a.txt",
    "hard link": "ln kept/a.txt twin; echo evil > twin",
    "python": "python3 -c \"open('kept/a.txt', 'w').write('evil')\"",
    "create beside it": "echo evil > kept/new.txt",
}
READS = {
    "cat": "cat .env",
    "grep": "grep -r . --include=.env .",
    "copy": "cp .env copy; cat copy",
    "link": "ln -s .env alias; cat alias",
    "hard link": "ln .env twin; cat twin",
    "rename": "mv .env moved; cat moved",
    "through /proc": "cat /proc/self/cwd/.env",
    "python": "python3 -c \"print(open('.env').read())\"",
    "mode": "chmod 666 .env; cat .env",
    "in a directory": "cat keys/k.pem; ls keys",
    "renamed directory": "mv keys open; cat open/k.pem",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_rule_denies_to_change_stays_as_it_is(
    layer: str, change: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "kept").mkdir(parents=True)
    (workspace / "kept" / "a.txt").write_text("mine")
    (workspace / "other.txt").write_text("evil")
    with confined(layer, tmp_path, unwritable=["kept"]) as place:
        place.run(CHANGES[change])
        assert (workspace / "kept" / "a.txt").read_text() == "mine"
        assert [one.name for one in (workspace / "kept").iterdir()] == ["a.txt"]


def test_single_file_is_kept_and_its_neighbours_can_change(layer: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "kept").mkdir(parents=True)
    (workspace / "kept" / "a.txt").write_text("mine")
    with confined(layer, tmp_path, unwritable=["kept/a.txt"]) as place:
        ran = place.run("echo x > kept/b.txt; echo evil > kept/a.txt")
        assert (workspace / "kept" / "a.txt").read_text() == "mine"
        assert (workspace / "kept" / "b.txt").read_text() == "x\n"
        assert "Read-only" in ran.output or "rules deny" in ran.told[0]


def test_missing_file_that_a_rule_denies_is_not_created(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path, unwritable=["conftest.py"]) as place:
        ran = place.run("echo evil > conftest.py; echo mine > other.py")
        assert not (place.workspace / "conftest.py").exists()
        assert (place.workspace / "other.py").exists()
        assert "conftest.py was made by the command, and has been removed" in ran.told[0]


@pytest.mark.parametrize("read", READS)
def test_what_a_rule_denies_to_read_is_not_read(layer: str, read: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "keys").mkdir(parents=True)
    (workspace / ".env").write_text("THE-SECRET")
    (workspace / "keys" / "k.pem").write_text("THE-SECRET")
    with confined(layer, tmp_path, unreadable=[".env", "keys"]) as place:
        if _shows_denied(place):
            pytest.skip("Landlock cannot hide part of the workspace unless root mounts it")
        ran = place.run(READS[read])
        assert "THE-SECRET" not in ran.output
        assert (workspace / ".env").read_text() == "THE-SECRET"
        assert (workspace / "keys" / "k.pem").read_text() == "THE-SECRET"


def test_denied_file_is_an_error_and_not_empty(layer: str, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / ".env").write_text("THE-SECRET")
    with confined(layer, tmp_path, unreadable=[".env"]) as place:
        if _shows_denied(place):
            pytest.skip("Landlock cannot hide part of the workspace unless root mounts it")
        ran = place.run("git init -q . && git add -A; cat .env")
        assert "Permission denied" in ran.output
        assert ran.code != 0


def test_path_denied_in_a_denied_directory_does_no_harm(layer: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "keys").mkdir(parents=True)
    (workspace / "keys" / "k.pem").write_text("THE-SECRET")
    with confined(
        layer, tmp_path, unreadable=["keys", "keys/k.pem"], unwritable=["keys/k.pem", "keys"]
    ) as place:
        assert place.run("echo works").output == "works\n"


def test_rules_bind_commands_as_they_bind_tools(layer: str, home: Path, workspace: Path) -> None:
    (workspace / ".env").write_text("WORD=harmless-but-denied\n")
    (workspace / "tests").mkdir()
    (workspace / "tests" / "test_a.py").write_text("mine")
    commands = (
        "/bin/cat ????",
        "cp /etc/hostname tests/test_a.py",
        "python3 -c \"open('conf' + 'test.py', 'w').write('evil')\"",
        "echo fine > result.txt",
    )
    calls = [{"calls": [{"name": "bash", "input": {"command": one}}]} for one in commands]
    model = script(home / "s.json", [*calls, "Done."])
    denied = ("--deny", "read(.env*)", "--deny", "edit(tests/*.py)", "--deny", "edit(conf*.py)")
    options = ("--mode", "auto", "--sandbox", layer, "--allow", "bash", *denied)
    agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert (workspace / "tests" / "test_a.py").read_text() == "mine"
    assert not (workspace / "conftest.py").exists()
    assert (workspace / "result.txt").read_text() == "fine\n"
    log = session_log(home).read_text()
    if layer == "landlock" and os.geteuid() != 0:
        assert "Commands can read what rules deny to read" in log
    else:
        assert "harmless-but-denied" not in log
    assert "conftest.py was made by the command, and has been removed" in log


def test_rule_with_a_wildcard_above_the_workspace_binds_commands(
    layer: str, home: Path, workspace: Path
) -> None:
    (workspace / "kept.txt").write_text("mine")
    (workspace / "try.py").write_text("open('kept.txt', 'w').write('evil')")
    above = f"edit({workspace.parent}/{workspace.name[0]}*/**)"
    model = script(
        home / "s.json",
        [{"calls": [{"name": "bash", "input": {"command": "python3 try.py"}}]}, "Done."],
    )
    options = ("--mode", "auto", "--sandbox", layer, "--allow", "bash", "--deny", above)
    agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert (workspace / "kept.txt").read_text() == "mine"


def _shows_denied(place: Confined) -> bool:
    return bool(getattr(place.sandbox, "can_read_denied", False))
