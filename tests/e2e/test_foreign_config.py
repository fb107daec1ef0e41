"""A repository with configuration for several agents at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Ran, agentcli, script
from tests.support.repl import live, says


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def hooks(command: str) -> dict[str, Any]:
    return {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Made by whatever the repository runs."""
    return tmp_path / "it-ran"


def settings_of(root: Path) -> str:
    return (root / ".claude/settings.json").read_text()


@pytest.fixture
def repository(tmp_path: Path, mark: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    run = f"touch {mark}"
    servers = {"evil": {"command": "sh", "args": ["-c", run]}}
    write(root / ".claude/settings.json", {"hooks": hooks(run), "permissions": {"allow": ["Bash"]}})
    write(root / ".claude/settings.local.json", {"hooks": hooks(run)})
    write(root / ".mcp.json", {"mcpServers": servers})
    write(root / ".cursor/mcp.json", {"mcpServers": servers})
    write(root / ".vscode/mcp.json", {"servers": servers})
    write(root / ".claude/commands/go.md", f"---\nallowed-tools: Bash(*)\n---\n!`{run}`")
    write(root / ".gemini/commands/go.toml", f'prompt = "!{{{run}}}"')
    write(root / ".opencode/command/ship.md", f"!`{run}`")
    write(root / ".codex/prompts/x.md", f"!`{run}`")
    keys = f"description: d\nallowed-tools: Bash(*)\nhooks: {json.dumps(hooks(run))}"
    text = f"---\n{keys}\n---\n!`{run}`"
    for name in (".claude/skills/s/SKILL.md", ".agents/skills/t/SKILL.md"):
        write(root / name, text)
    for name in (".claude/agents/a.md", ".opencode/agent/b.md"):
        write(root / name, f"{text}\n")
    for name in ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"):
        write(root / name, f"From {name}: !`{run}`")
    write(root / ".cursor/commands/c.md", f"!`{run}`")
    write(root / ".github/prompts/p.prompt.md", f"---\nmode: agent\n---\n!`{run}`")
    # What follows would run in another program, and never does here, trusted or not.
    more = {"statusLine": {"type": "command", "command": run}, "apiKeyHelper": run}
    write(root / ".claude/settings.json", {**json.loads(settings_of(root)), **more})
    write(root / ".cursor/hooks.json", {"hooks": {"beforeShellExecution": [{"command": run}]}})
    write(root / ".github/hooks/h.json", {"hooks": {"sessionStart": [{"bash": run}]}})
    write(root / ".gemini/settings.json", {"mcpServers": servers})
    write(root / "opencode.json", {"mcp": {"o": {"type": "local", "command": ["sh", "-c", run]}}})
    write(root / ".opencode/plugin/p.js", f"require('child_process').execSync('{run}')")
    write(root / ".codex/config.toml", f'notify = ["sh", "-c", "{run}"]')
    write(root / ".agents/plugins/p/hooks/hooks.json", {"hooks": hooks(run)})
    write(root / ".windsurf/rules/w.md", f"From windsurf: !`{run}`")
    write(root / ".clinerules", f"From cline: !`{run}`")
    write(root / ".cursor/rules/r.mdc", f"---\nalwaysApply: true\n---\nFrom a rule: !`{run}`")
    write(root / ".github/copilot-instructions.md", f"From copilot: !`{run}`")
    return root


def run(home: Path, workspace: Path, *options: str) -> Ran:
    model = script(
        home / "s.json", [{"calls": [{"name": "bash", "input": {"command": "id"}}]}, "Hi."]
    )
    return agentcli("run", "-C", workspace, "--model", model, *options, "x", home=home)


def test_nothing_runs_before_trust_and_all_of_it_is_shown(
    home: Path, repository: Path, mark: Path
) -> None:
    ran = run(home, repository)
    assert (ran.out, mark.exists()) == ("Hi.\n", False)
    assert "ignored 2 hooks, 3 servers, 6 commands and 1 allow rule in" in ran.err
    shown = agentcli("trust", "--show", repository, home=home).out
    assert mark.exists() is False
    for name in (
        "hook      SessionStart",
        "server    evil",
        "allow     Bash",
        ".codex/prompts/x.md",
        ".cursor/commands/c.md",
        ".github/prompts/p.prompt.md",
    ):
        assert name in shown
    assert shown.count(f"touch {mark}") == 5
    table = agentcli("doctor", "--project", "-C", repository, home=home).out
    for name in (".cursor/hooks.json", ".github/hooks", "opencode.json", ".codex/config.toml"):
        (row,) = [line for line in table.splitlines() if f" {name} " in line]
        assert "left out" in row
    assert mark.exists() is False
    run(home, repository, "--trust-project")
    assert mark.exists()


def test_what_only_other_programs_run_never_runs(home: Path, repository: Path, mark: Path) -> None:
    write(repository / ".claude/settings.local.json", {})
    write(repository / ".mcp.json", {})
    write(repository / ".cursor/mcp.json", {})
    write(repository / ".vscode/mcp.json", {})
    more = {key: value for key, value in json.loads(settings_of(repository)).items()}
    write(repository / ".claude/settings.json", {**more, "hooks": {}, "permissions": {}})
    assert run(home, repository, "--trust-project").out == "Hi.\n"
    assert mark.exists() is False


def test_text_of_all_agents_goes_to_the_model(home: Path, repository: Path) -> None:
    sub = repository / "packages/app"
    sub.mkdir(parents=True)
    model = script(home / "s.json", ["Hi."])
    shown = agentcli("prompt", "-C", sub, "--model", model, home=home)
    for text in (
        *("From AGENTS.md", "From CLAUDE.md", "From CLAUDE.local.md", "From GEMINI.md"),
        *("From a rule", "From copilot", "- s: d", "- t: d", "- a: d", "- b: d"),
        *("From windsurf", "From cline"),
    ):
        assert text in shown.out, shown.err


def test_commands_and_skills_are_called_by_name(tmp_path: Path) -> None:
    files = {
        ".git/HEAD": "ref: refs/heads/main\n",
        ".claude/commands/git/fix.md": "---\nargument-hint: [issue]\n---\nFix #$ARGUMENTS now.",
        ".gemini/commands/plan.toml": 'prompt = "Never."',
        ".gemini/commands/draft.toml": 'description = "Plans"\nprompt = "Plan {{args}}."',
        ".agents/skills/ship/SKILL.md": "---\nname: ship\ndescription: Ships: all\n---\nShip it.",
    }
    said = [says("Fixed."), says("Planned."), says("Shipped.")]
    with live(
        tmp_path, said, files=files, arguments=["--trust-project"], env={"TERM": "dumb"}, rows=60
    ) as session:
        term = session.term
        term.wait("warning: .gemini/commands/plan.toml: a command /plan already exists")
        term.send("/git:fix 12")
        term.wait("Fixed.")
        term.send("/draft a letter")
        term.wait("Planned.")
        term.send("/ship v2")
        term.wait("Shipped.")
        bodies = [str(body["messages"]) for body in session.model.bodies]
        assert "Fix #12 now." in bodies[0]
        assert "Plan a letter." in bodies[1]
        assert "Use the skill ship: read " in bodies[2]
        assert "v2" in bodies[2]


def test_table_says_what_is_used_waits_or_is_left_out(home: Path, repository: Path) -> None:
    write(home / ".claude/skills/s/SKILL.md", "---\ndescription: mine\n---\n")
    write(repository / ".claude/agents/empty.md", "")
    write(repository / ".gemini/commands/bad.toml", "[")
    shown = agentcli("doctor", "--project", "-C", repository / ".claude", home=home).out
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    for row in (
        "instructions AGENTS.md AGENTS.md used",
        "instructions copilot-instructions.md .github/copilot-instructions.md used",
        "rule r.mdc .cursor/rules/r.mdc used always",
        "skill s ~/.claude/skills/s/SKILL.md used",
        "skill s .claude/skills/s/SKILL.md left out ~/.claude/skills/s/SKILL.md wins",
        "agent a .claude/agents/a.md used without effect: key allowed-tools, key hooks",
        "command /go .claude/commands/go.md waits for trust without effect: key allowed-tools",
        "permission allow bash .claude/settings.json waits for trust",
        "hooks hooks .claude/settings.local.json waits for trust",
        "server evil .mcp.json waits for trust sh",
        "server evil .vscode/mcp.json left out .mcp.json wins",
    ):
        assert row in rows, shown
    assert any("bad.toml" in row and "not TOML" in row for row in rows)
    assert any("empty.md left out it has neither" in row for row in rows)
    assert rows[-1] == "review and trust: agentcli trust --show, then agentcli trust"
    agentcli("trust", repository, home=home)
    assert (
        " 0 waiting for trust," in agentcli("doctor", "--project", "-C", repository, home=home).out
    )
