"""Plugins from directories and repositories: what they bring, and what asks first."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import certificates
from tests.support.program import Ran, agentcli, script
from tests.support.registries import CODE, serve_registries
from tests.support.repl import live, says
from tests.support.ssh import run_agent, serve_ssh
from tests.support.terminal import PyteTerm

SCHEMA = "https://agent-plugins.org/schemas/1.0.0"
SERVER = """
import json, os, pathlib, sys
said = "\\n".join([os.getcwd(), *sys.argv[1:]])
pathlib.Path(os.environ["PLUGIN_DATA"], "started").write_text(said)
for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}},
                      "serverInfo": {"name": "notes", "version": "1"}}
        case "tools/list":
            schema = {"type": "object"}
            result = {"tools": [{"name": "note", "description": "N.", "inputSchema": schema}]}
        case _:
            result = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def plugins(home: Path, *arguments: str | Path) -> Ran:
    return agentcli("plugins", *arguments, home=home)


def copies(home: Path) -> list[Path]:
    config = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
    return sorted((config / "agentcli/plugins").glob("*/*/"))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Made by whatever a plugin runs."""
    return tmp_path / "it-ran"


@pytest.fixture
def claude(tmp_path: Path, mark: Path) -> Path:
    root = tmp_path / "review-tools"
    manifest = {"name": "Review Tools", "version": "1.2.0", "agents": "./more/judge.md"}
    write(root / ".claude-plugin/plugin.json", {**manifest, "lspServers": {"x": {}}})
    write(root / "commands/git/fix.md", "Fix #$1 with ${CLAUDE_PLUGIN_ROOT}/scripts/check.sh")
    write(root / "agents/critic.md", "---\ndescription: Criticizes\n---\nBe critical.")
    write(root / "more/judge.md", "---\ndescription: Judges\n---\nJudge.")
    write(root / "skills/ship/SKILL.md", "---\ndescription: Ships it\n---\nShip.")
    command = "'${CLAUDE_PLUGIN_ROOT}/scripts/check.sh'"
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}
    write(root / "hooks/hooks.json", {"hooks": {"PreToolUse": [hook]}})
    check = f'#!/bin/sh\necho "$CLAUDE_PLUGIN_ROOT" > {mark}\necho not today >&2\nexit 2\n'
    write(root / "scripts/check.sh", check)
    (root / "scripts/check.sh").chmod(0o755)
    (root / "passwords").symlink_to("/etc/passwd")
    return root


def call_bash(home: Path, workspace: Path, tmp_path: Path) -> Ran:
    calls = [{"calls": [{"bash": {"command": "true"}}]}, "Done."]
    model = script(tmp_path / "s.json", calls)
    options = ("--model", model, "--allow", "bash", "-o", "stream-json", "go")
    return agentcli("run", *options, home=home, cwd=workspace)


def test_what_executes_is_shown_and_asks_before_anything_is_kept(
    home: Path, workspace: Path, claude: Path, mark: Path, tmp_path: Path
) -> None:
    shown = plugins(home, "install", claude)
    assert shown.code == 0
    lines = {" ".join(line.split()) for line in shown.out.splitlines()}
    assert {
        "plugin review-tools 1.2.0 (Claude Code)",
        "hook PreToolUse Bash: '${CLAUDE_PLUGIN_ROOT}/scripts/check.sh'",
        "skill review-tools:ship",
        "agent review-tools:judge",
        "command /review-tools:git:fix",
        "left out lspServers of the manifest: it has no effect here",
        "left out passwords: it leads out of the plugin",
        "nothing was changed; to agree to it: --yes",
    } <= lines
    assert copies(home) == []
    call_bash(home, workspace, tmp_path)
    assert not mark.exists()


def test_installed_plugin_is_used_until_it_is_disabled(
    home: Path, workspace: Path, claude: Path, mark: Path, tmp_path: Path
) -> None:
    assert plugins(home, "install", claude, "--yes").out.endswith("installed review-tools\n")
    ran = call_bash(home, workspace, tmp_path)
    (finished,) = [event for event in ran.events if event["type"] == "tool.finished"]
    assert "not today" in finished["model_text"]
    (copy,) = copies(home)
    assert mark.read_text().strip() == str(copy)
    prompt = agentcli("prompt", "x", home=home, cwd=workspace).out
    assert "review-tools:ship: Ships it" in prompt
    assert "review-tools:critic: Criticizes" in prompt
    table = agentcli("doctor", "--project", home=home, cwd=workspace).out
    for name in ("/review-tools:git:fix", "review-tools:judge", "review-tools:ship", "PreToolUse"):
        (row,) = [line for line in table.splitlines() if name in line]
        assert "used" in row
    mark.unlink()
    assert plugins(home, "disable", "review-tools").code == 0
    assert "disabled" in plugins(home, "list").out
    call_bash(home, workspace, tmp_path)
    assert not mark.exists()
    assert "not today" not in plugins(home, "enable", "review-tools").out
    assert "disabled" in plugins(home, "list").out
    assert plugins(home, "enable", "review-tools", "--yes").code == 0
    assert "enabled" in plugins(home, "list").out
    assert plugins(home, "remove", "review-tools").out == "removed review-tools\n"
    assert (plugins(home, "list").out, copies(home)) == ("", [])


def test_command_of_a_plugin_is_called_by_its_full_name(
    home: Path, claude: Path, tmp_path: Path
) -> None:
    plugins(home, "install", claude, "--yes")
    (copy,) = copies(home)
    with live(tmp_path, [says("Fixed.")], env={"TERM": "dumb"}) as session:
        session.term.send("/review-tools:git:fix 12")
        session.term.wait("Fixed.")
        assert f"Fix #12 with {copy}/scripts/check.sh" in str(session.model.bodies[0]["messages"])


def test_changed_content_is_not_used_until_it_is_agreed_to(
    home: Path, workspace: Path, claude: Path, mark: Path, tmp_path: Path
) -> None:
    plugins(home, "install", claude, "--yes")
    (copy,) = copies(home)
    write(copy / "scripts/check.sh", f"#!/bin/sh\ntouch {mark}\n")
    ran = call_bash(home, workspace, tmp_path)
    warned = [event["message"] for event in ran.events if event["type"] == "warning"]
    assert any("plugin review-tools is not used: it changed" in one for one in warned)
    assert not mark.exists()
    assert "it changed since you agreed to it" in plugins(home, "list").out
    assert plugins(home, "update").out == "review-tools is up to date\n"
    call_bash(home, workspace, tmp_path)
    assert mark.exists()
    before = plugins(home, "list").out
    write(claude / "scripts/check.sh", "#!/bin/sh\nexit 0\n")
    asked = plugins(home, "update", "review-tools")
    assert "nothing was changed" in asked.out
    assert plugins(home, "list").out == before
    assert "updated review-tools" in plugins(home, "update", "--yes").out
    assert (len(copies(home)), plugins(home, "list").out == before) == (1, False)
    shutil.rmtree(claude)
    gone = plugins(home, "update")
    assert (gone.code, "review-tools could not be updated" in gone.out) == (3, True)


def test_hook_of_a_plugin_that_changes_during_a_session_runs_no_more(
    home: Path, workspace: Path, claude: Path, mark: Path, tmp_path: Path
) -> None:
    write(claude / "scripts/check.sh", f'#!/bin/sh\necho "# more" >> "$0"\necho ran >> {mark}\n')
    plugins(home, "install", claude, "--yes")
    bash = {"calls": [{"bash": {"command": "true"}}]}
    model = script(tmp_path / "s.json", [bash, bash, "Done."])
    options = ("--model", model, "--allow", "bash", "-o", "stream-json", "go")
    ran = agentcli("run", *options, home=home, cwd=workspace)
    assert mark.read_text() == "ran\n"
    assert "its plugin changed since you agreed to it" in ran.out
    assert ran.code == 5


def test_portable_plugin_brings_skills_and_a_server_with_its_own_data(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    root = tmp_path / "notes"
    write(root / "plugin.json", {"$schema": f"{SCHEMA}/plugin.schema.json", "name": "notes.x"})
    write(root / "skills/keep/SKILL.md", "---\nname: keep\ndescription: Keeps notes\n---\nKeep.")
    write(root / "skills/keep/deeper/no/SKILL.md", "---\ndescription: Too deep\n---\nNo.")
    write(root / "server.py", SERVER)
    good = {
        "type": "stdio",
        "command": "python3",
        "args": ["${PLUGIN_ROOT}/server.py", "${PLUGIN_DATA}", "${HOME}", "${CLAUDE_PLUGIN_ROOT}"],
    }
    bad = {
        "out": {"type": "stdio", "command": "../bin/x"},
        "shell": {"type": "stdio", "command": "sh", "shell": True},
        "old": {"type": "sse", "url": "https://x.example/sse"},
        "plain": {"type": "streamable-http", "url": "http://x.example/mcp"},
        "loose": {"type": "stdio", "command": "sh", "sandbox": False},
        "away": {"type": "stdio", "command": "sh", "cwd": "${PLUGIN_DATA}/../.."},
    }
    servers = {"$schema": f"{SCHEMA}/mcp.schema.json", "mcpServers": {"notes": good, **bad}}
    write(root / "mcp.json", servers)
    installed = plugins(home, "install", root, "--yes")
    for name in bad:
        assert f"left out   server {name}: " in installed.out
    assert "keep: Keeps notes" in agentcli("prompt", "x", home=home, cwd=workspace).out
    tried = agentcli("mcp", "test", "notes", home=home, cwd=workspace)
    (data,) = [path.parent for path in home.rglob("started")]
    (copy,) = copies(home)
    started = (data / "started").read_text().splitlines()
    assert started == [str(copy), str(data), "${HOME}", "${CLAUDE_PLUGIN_ROOT}"]
    assert "notes: 1 tool" in tried.out
    assert plugins(home, "remove", "notes.x").code == 0
    assert not data.exists()


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"README.md": "x"}, "is not a plugin"),
        ({"plugin.json": "{"}, "plugin.json is not JSON"),
        ({"plugin.json": {"name": "x"}}, 'plugin.json has no "$schema"'),
        (
            {"plugin.json": {"$schema": f"{SCHEMA[:-5]}2.0.0/plugin.schema.json", "name": "x"}},
            "is of version '2.0.0', and 1.0.0 is known",
        ),
        (
            {"plugin.json": {"$schema": f"{SCHEMA}/plugin.schema.json", "name": "a--b"}},
            "name must be",
        ),
        ({".claude-plugin/plugin.json": {"version": "1"}}, "has no name"),
        (
            {".claude-plugin/marketplace.json": {"plugins": [{"source": "./plugins/one"}]}},
            "install one of them: --path ./plugins/one",
        ),
        (
            {
                ".claude-plugin/plugin.json": {"name": "x"},
                "hooks/hooks.json": {"hooks": {"PreToolUse": [{"hooks": [{"type": "command"}]}]}},
            },
            "the plugin x cannot be used",
        ),
    ],
)
def test_directory_that_cannot_be_used_says_why(
    files: dict[str, Any], why: str, home: Path, tmp_path: Path
) -> None:
    for name, content in files.items():
        write(tmp_path / "bad" / name, content)
    ran = plugins(home, "install", tmp_path / "bad", "--yes")
    assert (ran.code, copies(home)) == (3, [])
    assert why in ran.err


def test_what_cannot_be_installed_has_the_name_that_the_user_knows(
    home: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = agentcli("plugins", "install", ".", home=home, cwd=empty)
    assert ran.err.startswith(f"error: {empty} is not a plugin: ")
    url = f"file://{tmp_path}/none"
    ran = plugins(home, "install", url)
    assert (ran.code, ran.err.splitlines()[-1]) == (3, f"  fix: git ls-remote {url}")


def git(root: Path, *arguments: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *own, *arguments], cwd=root, check=True, capture_output=True)


def test_repository_is_installed_by_its_address_and_runs_nothing(
    home: Path, claude: Path, mark: Path, tmp_path: Path
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    repository = tmp_path / "many"
    shutil.copytree(claude, repository / "plugins/one", symlinks=True)
    write(repository / ".gitattributes", "* filter=evil\n")
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "one")
    git(repository, "tag", "v1")
    # A hostile setting of the user's machine must not be picked by the repository's attributes.
    write(home / ".gitconfig", f'[filter "evil"]\n\tsmudge = touch {mark}; cat\n')
    write(repository / "plugins/one/skills/ship/SKILL.md", "---\ndescription: New\n---\nNew.")
    git(repository, "commit", "-qam", "two")
    url = f"file://{repository}"
    installed = plugins(home, "install", url, "--path", "plugins/one", "--ref", "v1", "--yes")
    assert "installed review-tools" in installed.out, installed.err
    assert not mark.exists()
    commit = subprocess.run(
        ["git", "rev-parse", "v1"], cwd=repository, capture_output=True, text=True
    ).stdout
    assert f"{url} plugins/one at {commit[:12]}" in plugins(home, "list").out
    (copy,) = copies(home)
    assert "Ships it" in (copy / "skills/ship/SKILL.md").read_text()
    assert not (copy / ".git").exists()
    for address in ("ext::touch x", "git://127.0.0.1/x", f"file://{tmp_path}/none", "-u"):
        refused = plugins(home, "install", "--yes", "--", address)
        assert (refused.code in (2, 3), "Traceback" in refused.err) == (True, False)


@pytest.fixture
def served(tmp_path: Path, claude: Path) -> Path:
    """A bare repository of the plugin, with a tag before its last commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    git(claude, "init", "-q", "-b", "main")
    git(claude, "add", "-A")
    git(claude, "commit", "-qm", "one")
    git(claude, "tag", "v1")
    write(claude / "skills/ship/SKILL.md", "---\ndescription: New\n---\nNew.")
    git(claude, "commit", "-qam", "two")
    bare = tmp_path / "repositories/tools.git"
    git(claude, "clone", "-q", "--bare", ".", str(bare))
    return bare


def check_install(home: Path, url: str, env: dict[str, str]) -> None:
    install = ("plugins", "install", url, "--yes", "--ref")
    ran = agentcli(*install, "v1", home=home, env=env)
    assert "installed review-tools" in ran.out, ran.err
    (copy,) = copies(home)
    assert "Ships it" in (copy / "skills/ship/SKILL.md").read_text()
    missing = agentcli(*install, "v9", home=home, env=env)
    assert (missing.code, "Traceback" in missing.err) == (3, False)
    assert "git fetch failed" in missing.err


def test_repository_is_installed_over_https_by_the_users_own_settings(
    home: Path, served: Path, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate = certificates.made_in(tmp_path, CODE)
    with serve_registries(served.parent) as registries:
        registries.tls = certificate.server_context()
        url = f"https://{CODE}/tools.git"
        unknown = agentcli(
            *("plugins", "install", url, "--yes"), home=home, env=registries.environment
        )
        assert (unknown.code, copies(home)) == (3, [])
        assert "certificate" in unknown.err
        write(home / ".gitconfig", f"[http]\n\tsslCAInfo = {certificate.path}\n")
        check_install(home, url, registries.environment)


def test_repository_is_installed_over_ssh_by_the_users_own_settings(
    home: Path, served: Path, tmp_path: Path
) -> None:
    with (
        run_agent(tmp_path / "agent") as agent,
        serve_ssh(tmp_path / "sshd", authorized=agent.key) as server,
    ):
        url = server.url(served)
        stranger = (
            "ssh -o BatchMode=yes -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"
        )
        write(home / ".gitconfig", f"[core]\n\tsshCommand = {stranger}\n")
        unknown = agentcli(*("plugins", "install", url, "--yes"), home=home, env=agent.environment)
        assert (unknown.code, copies(home)) == (3, [])
        write(tmp_path / "known", server.known_hosts)
        command = f"ssh -o BatchMode=yes -o UserKnownHostsFile={tmp_path}/known"
        write(home / ".gitconfig", f"[core]\n\tsshCommand = {command}\n")
        check_install(home, url, agent.environment)


def test_user_agrees_in_a_terminal(home: Path, claude: Path, tmp_path: Path) -> None:
    for answer, state in (("n", "nothing was changed"), ("y", "installed review-tools")):
        words = ["plugins", "install", str(claude)]
        term = PyteTerm(words, home=home, cwd=tmp_path, env={}, rows=40)
        try:
            term.wait("Install this plugin? [y/N]")
            term.send(answer)
            term.wait(state)
        finally:
            term.close()
    assert len(copies(home)) == 1


def test_kill_in_the_middle_of_an_update_leaves_one_of_both_versions(
    home: Path, claude: Path
) -> None:
    plugins(home, "install", claude, "--yes")
    (copy,) = copies(home)
    # The new content is copied beside the old before the record changes.
    shutil.copytree(copy, copy.with_name("0123456789abcdef"), symlinks=True)
    os.truncate(copy.with_name("0123456789abcdef") / "scripts/check.sh", 3)
    assert "enabled" in plugins(home, "list").out
    assert plugins(home, "update").out == "review-tools is up to date\n"
    assert copies(home) == [copy]
