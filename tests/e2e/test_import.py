import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agentcli


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def home(home: Path) -> Path:
    permissions = {"allow": ["Bash(make:*)"], "deny": ["Read(.env)", "TodoWrite"]}
    hook = [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]
    claude = {"permissions": permissions, "hooks": {"PreToolUse": hook}, "model": "opus"}
    write(home / ".claude/settings.json", claude)
    write(home / ".claude/commands/go.md", "Go.")
    write(home / ".claude.json", {"mcpServers": {"db": {"command": "db", "args": ["-x"]}}})
    write(
        home / ".codex/config.toml",
        'model = "x"\n[mcp_servers.docs]\ncommand = "docs"\n[mcp_servers.db]\ncommand = "other"\n',
    )
    write(home / ".gemini/settings.json", {"mcpServers": {"web": {"httpUrl": "https://x.example"}}})
    opencode = {
        "mcp": {"local": {"type": "local", "command": ["npx", "y"], "environment": {"A": "b"}}},
        "permission": {"edit": "ask", "bash": {"git push *": "deny", "*": "ask"}},
    }
    write(home / ".config/opencode/opencode.jsonc", "// mine\n" + json.dumps(opencode))
    write(home / ".cursor/mcp.json", "{ broken")
    write(home / ".cursor/cli-config.json", {"permissions": {"deny": ["Shell(rm)"], "allow": []}})
    return home


def test_map_says_what_becomes_of_each_part_and_writes_nothing(home: Path) -> None:
    ran = agentcli("import", "--dry-run", home=home)
    lines = ran.out.splitlines()
    for line in (
        "~/.claude/commands  1 file  -> read where it is",
        "~/.claude/settings.json  permission deny read(.env)  -> rules.toml: deny read(.env)",
        "~/.claude/settings.json  deny TodoWrite  not carried over: there is no such tool here",
        "~/.claude/settings.json  PreToolUse hook  -> hooks.json: PreToolUse",
        "~/.claude.json  server db  -> mcp.json: db",
        "~/.codex/config.toml  server db  not carried over: there is a server of that name already",
        "~/.gemini/settings.json  server web  -> mcp.json: web",
        "~/.cursor/cli-config.json  permission deny bash(rm)  -> rules.toml: deny bash(rm)",
        "nothing was written",
    ):
        assert line in lines, ran.out
    assert any(".cursor/mcp.json  all of it  not carried over" in line for line in lines)
    assert not (home / ".config/agentcli").exists()
    assert "to write it: agentcli import --yes" in agentcli("import", home=home).out


def test_import_adds_to_the_own_files_once(home: Path) -> None:
    own = home / ".config/agentcli"
    write(own / "mcp.json", {"mcpServers": {"web": {"command": "mine"}}})
    ran = agentcli("import", "--yes", home=home)
    assert ran.code == 0, ran.err
    servers = json.loads((own / "mcp.json").read_text())["mcpServers"]
    assert sorted(servers) == ["db", "docs", "local", "web"]
    assert servers["web"] == {"command": "mine"}
    assert servers["local"] == {"command": "npx", "args": ["y"], "env": {"A": "b"}}
    assert (own / "mcp.json").stat().st_mode & 0o077 == 0
    rules = (own / "rules.toml").read_text()
    for rule in ("read(.env)", "bash(make:*)", "bash(git push:*)", "bash(rm)"):
        assert json.dumps(rule) in rules
    assert json.loads((own / "hooks.json").read_text())["hooks"]["PreToolUse"]
    again = agentcli("import", "--yes", home=home)
    assert again.out.splitlines()[-1] == "nothing to write"


def test_only_one_agent_and_an_unknown_one(home: Path) -> None:
    assert ".codex" not in agentcli("import", "--from", "gemini", "--dry-run", home=home).out
    ran = agentcli("import", "--from", "nobody", home=home)
    assert (ran.code, "no agent nobody" in ran.err) == (2, True)
