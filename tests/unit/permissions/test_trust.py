import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.permissions.project_files import (
    ProjectFiles,
    TrustStore,
    describe_files,
    read_project,
    summarize_files,
)
from agentcli.types.errors import SettingsError

HOOKS = (
    '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./scripts/check.sh -q"}]}]}}'
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "demo").resolve()
    (root / ".agentcli/commands").mkdir(parents=True)
    (root / ".agentcli/hooks.json").write_text(HOOKS)
    (root / ".agentcli/settings.toml").write_text('model = "opus"\n')
    (root / ".agentcli/commands/fix.md").write_text("Fix it.")
    (root / "scripts").mkdir()
    (root / "scripts/check.sh").write_text("true\n")
    return root


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state/trust")


def _read(root: Path) -> ProjectFiles:
    files = read_project(root)
    assert files is not None
    return files


def test_project_is_what_executes_or_redirects(root: Path) -> None:
    (root / ".agentcli/rules.toml").write_text("# none")
    (root / ".agentcli/skills").mkdir()
    (root / ".agentcli/skills/SKILL.md").write_text("how to")
    files = _read(root)

    assert sorted(files.files) == ["commands/fix.md", "hooks.json", "settings.toml"]
    assert files.rules == b"# none"
    assert list(files.scripts) == ["scripts/check.sh"]
    assert summarize_files(files) == "settings.toml, 1 hook and 1 command"
    assert list(describe_files(files)) == [
        "setting   model = opus",
        "hook      Stop: ./scripts/check.sh -q",
        "command   commands/fix.md",
        "script    scripts/check.sh",
    ]


def test_all_that_would_run_is_shown_whole(root: Path) -> None:
    command = f"echo ok {' ' * 9_000}; touch end"
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    (root / ".agentcli/hooks.json").write_text(json.dumps(hooks))
    (root / ".agentcli/settings.toml").write_text(f'verify = "{command}"\n')
    servers = {"mcpServers": {"one": {"command": "node", "args": ["x" * 9_000, "touch end"]}}}
    (root / ".agentcli/mcp.json").write_text(json.dumps(servers))
    shown = [line for line in describe_files(_read(root)) if "touch end" in line]
    assert [line.split()[0] for line in shown] == ["setting", "hook", "server"]


@pytest.mark.parametrize(
    "command",
    [
        "scripts/check.sh",
        "sh -c 'cd x; exec ./scripts/check.sh'",
        "env A=scripts/check.sh python3 run",
        '"$CLAUDE_PROJECT_DIR"/scripts/check.sh',
        "${AGENTCLI_PROJECT_DIR}/scripts/check.sh && true",
        "cat<scripts/check.sh",
        "echo 'unclosed; scripts/check.sh",
    ],
)
def test_script_is_found_wherever_a_command_names_it(command: str, root: Path) -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    (root / ".agentcli/hooks.json").write_text(json.dumps(hooks))

    assert list(_read(root).scripts) == ["scripts/check.sh"]


def test_data_that_a_command_names_is_no_script(root: Path, store: TrustStore) -> None:
    commands = ["touch done", "./scripts/check.sh >> hooks.log", "jq -r .name package.json"]
    hooks = {"Stop": [{"hooks": [{"command": command} for command in commands]}]}
    (root / ".agentcli/hooks.json").write_text(json.dumps(hooks))
    store.trust(_read(root))

    for name in ("done", "hooks.log", "package.json"):
        (root / name).write_text("{}")

    assert store.find_standing(_read(root)) == "trusted"


@pytest.mark.parametrize(
    ("command", "content", "mode"),
    [
        ("sh -e tools/check", "true", 0o644),
        ("/usr/bin/python3 tools/check", "pass", 0o644),
        ("tools/check", "true", 0o755),
        ("env tools/check", "#!/bin/sh", 0o644),
        (". tools/check", "true", 0o644),
    ],
)
def test_script_is_known_by_what_runs_it_or_by_itself(
    command: str, content: str, mode: int, root: Path
) -> None:
    (root / "tools").mkdir()
    (root / "tools/check").write_text(content)
    (root / "tools/check").chmod(mode)
    servers = {"mcpServers": {"a": {"command": command.split()[0], "args": command.split()[1:]}}}
    (root / ".agentcli/hooks.json").unlink()
    (root / ".agentcli/mcp.json").write_text(json.dumps(servers))
    by_server = list(_read(root).scripts)
    (root / ".agentcli/mcp.json").write_text(json.dumps({"a": {"command": command}}))

    assert (by_server, list(_read(root).scripts)) == (["tools/check"], ["tools/check"])


def test_trust_is_for_what_was_read(root: Path, store: TrustStore) -> None:
    files = _read(root)
    assert store.find_standing(files) == "unknown"

    (root / ".agentcli/hooks.json").write_text(HOOKS.replace("-q", "-v"))
    store.trust(files)

    assert store.find_standing(files) == "trusted"
    assert store.find_standing(_read(root)) == "changed"


@pytest.mark.parametrize(
    "changed",
    [
        ".agentcli/hooks.json",
        ".agentcli/settings.toml",
        ".agentcli/mcp.json",
        "scripts/check.sh",
        ".agentcli/commands/other.md",
        ".agentcli/hooks/run.py",
    ],
)
def test_change_of_anything_that_runs_ends_trust(
    changed: str, root: Path, store: TrustStore
) -> None:
    store.trust(_read(root))
    (root / changed).parent.mkdir(exist_ok=True)

    with (root / changed).open("a") as file:
        file.write(" ")

    assert store.find_standing(_read(root)) == "changed"


@pytest.mark.parametrize("changed", [".agentcli/rules.toml", ".agentcli/notes.txt", "src.py"])
def test_change_of_what_cannot_run_keeps_trust(changed: str, root: Path, store: TrustStore) -> None:
    store.trust(_read(root))

    (root / changed).write_text("x")

    assert store.find_standing(_read(root)) == "trusted"


def test_same_files_elsewhere_are_not_trusted(root: Path, store: TrustStore) -> None:
    store.trust(_read(root))
    other = root.rename(root.with_name("moved"))

    assert store.find_standing(_read(other)) == "unknown"


def test_hashes_do_not_run_into_each_other(root: Path) -> None:
    files = _read(root)
    split = replace(files, files={"commands/a.md": b"", "commands/b.md": b"x"})
    joined = replace(files, files={"commands/a.md": b"x", "commands/b.md": b""})

    assert split.fingerprint != joined.fingerprint


@pytest.mark.parametrize("name", ["", "/hooks.json", "/commands/fix.md", "/rules.toml"])
def test_link_is_not_followed_and_cannot_be_trusted(
    name: str, root: Path, store: TrustStore, tmp_path: Path
) -> None:
    place = root / f".agentcli{name}"
    elsewhere = tmp_path / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.write_text("")
    place.symlink_to(elsewhere)

    files = _read(root)

    assert store.find_standing(files) == "unusable"
    assert files.problems[0].startswith(f".agentcli{name} is a link")
    with pytest.raises(SettingsError, match="cannot be trusted"):
        store.trust(files)


def test_special_and_large_files_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / ".agentcli/mcp.json")
    (root / ".agentcli/commands/big.md").write_bytes(b"x" * 1_000_001)

    assert _read(root).problems == (
        ".agentcli/commands/big.md is larger than 1000000 bytes",
        ".agentcli/mcp.json is a link or not a regular file",
    )


def test_too_many_files_are_refused(root: Path) -> None:
    for number in range(600):
        (root / f".agentcli/commands/{number}.md").touch()
    (root / ".agentcli/hooks" / "/".join("x" * 300)).mkdir(parents=True)

    assert _read(root).problems == (
        ".agentcli/commands/ has too many files or is nested too deeply",
        f".agentcli/hooks/{'x/' * 8} has too many files or is nested too deeply",
    )


def test_store_is_private_and_a_forged_record_counts_for_nothing(
    root: Path, store: TrustStore, tmp_path: Path
) -> None:
    files = _read(root)
    store.trust(files)
    (record,) = (tmp_path / "state/trust").glob("*.json")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700

    good = json.loads(record.read_text())
    for forged in ("", "[]", "{}", json.dumps(good | {"v": 2}), json.dumps(good | {"root": "/"})):
        record.write_text(forged)
        assert store.find_standing(files) == "unknown"


def test_revoked_trust_is_gone(root: Path, store: TrustStore) -> None:
    store.trust(_read(root))
    assert [one.root for one in store.list_trusted()] == [root]

    store.revoke(root)

    assert store.list_trusted() == []
    assert store.find_standing(_read(root)) == "unknown"


def test_answers_stored_at_once_are_all_kept(tmp_path: Path, store: TrustStore) -> None:
    roots = []
    for number in range(8):
        root = tmp_path / f"p{number}"
        (root / ".agentcli").mkdir(parents=True)
        (root / ".agentcli/settings.toml").write_text(f"max_turns = {number + 1}")
        roots.append(root.resolve())
    code = (
        "import sys; from pathlib import Path;"
        " from agentcli.permissions.project_files import read_project;"
        " from agentcli.permissions.project_files import TrustStore;"
        " [TrustStore(Path(sys.argv[1])).trust(read_project(Path(sys.argv[2]))) for _ in range(20)]"
    )
    directory = tmp_path / "state/trust"
    running = [
        subprocess.Popen([sys.executable, "-c", code, directory, root]) for root in [*roots, *roots]
    ]

    assert [process.wait() for process in running] == [0] * 16
    assert [one.root for one in store.list_trusted()] == roots
    assert [path.suffix for path in directory.iterdir()] == [".json"] * 8


def test_nothing_is_no_project(tmp_path: Path) -> None:
    assert read_project(tmp_path) is None
