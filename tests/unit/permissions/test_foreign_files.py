import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentcli.permissions.foreign_files import FILE_LIMIT_BYTES, parse_json, read_foreign_files
from agentcli.permissions.project_files import (
    ProjectFiles,
    describe_files,
    read_project,
    summarize_files,
)
from agentcli.session.project import load_project, load_project_hooks, load_project_rules
from agentcli.system.agent_files import find_project_root

HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./x.sh"}]}]}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = (tmp_path / "repo").resolve()
    (root / ".git").mkdir(parents=True)
    return root


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def read(root: Path) -> ProjectFiles:
    files = read_project(root)
    assert files is not None
    return files


def test_files_of_all_agents_are_found_at_every_level(repo: Path) -> None:
    inner = repo / "packages/app"
    write(repo / ".mcp.json", {"mcpServers": {"db": {"command": "db"}}})
    write(inner / ".claude/commands/git/fix.md", "Fix it.")
    write(inner / ".gemini/commands/plan.toml", 'prompt = "Plan."')
    write(inner / ".codex/prompts/go.md", "Go.")
    write(repo / ".opencode/command/ship.md", "Ship.")
    assert find_project_root(inner / "src") == inner
    files = read(inner)
    assert sorted(files.foreign.files) == [
        ".mcp.json",
        ".opencode/command/ship.md",
        "packages/app/.claude/commands/git/fix.md",
        "packages/app/.codex/prompts/go.md",
        "packages/app/.gemini/commands/plan.toml",
    ]
    assert summarize_files(files) == "1 server and 4 commands"
    assert sorted(name for name, _, _ in files.foreign.select_commands()) == [
        "git/fix.md",
        "go.md",
        "plan.toml",
        "ship.md",
    ]


def test_what_would_run_is_shown_and_its_scripts_are_part_of_the_trust(repo: Path) -> None:
    write(repo / "x.sh", "true")
    write(repo / "server.py", "1")
    settings = {"hooks": HOOKS, "permissions": {"allow": ["Bash(make:*)"], "deny": ["Read(.env)"]}}
    write(repo / ".claude/settings.json", settings)
    write(
        repo / ".vscode/mcp.json",
        '{"servers": {"db": {"command": "python3", "args": ["server.py"],}}} // mine',
    )
    files = read(repo)
    assert list(describe_files(files)) == [
        "hook      PreToolUse Bash: ./x.sh",
        'server    db: {"command": "python3", "args": ["server.py"]}',
        "allow     Bash(make:*) (.claude/settings.json)",
        "script    server.py",
        "script    x.sh",
    ]
    before = files.fingerprint
    write(repo / "x.sh", "false")
    assert read(repo).fingerprint != before


def test_hook_that_posts_to_an_address_shows_it(repo: Path) -> None:
    entries = [{"type": "http", "url": "https://x.example/in"}, {"type": "prompt", "prompt": "ok?"}]
    settings = {"hooks": {"PreToolUse": [{"hooks": entries}]}}
    write(repo / ".claude/settings.json", settings)
    assert list(describe_files(read(repo))) == [
        "hook      PreToolUse: https://x.example/in",
        "hook      PreToolUse: its type prompt cannot run here",
    ]


def test_refusals_alone_need_no_trust(repo: Path) -> None:
    write(repo / ".claude/settings.json", {"permissions": {"deny": ["Read(.env)"]}})
    assert not read(repo).needs_trust
    write(repo / ".claude/settings.json", {"permissions": {"deny": [], "allow": ["Bash(ls)"]}})
    assert read(repo).needs_trust


def test_trust_of_agentcli_files_alone_is_what_it_was(repo: Path) -> None:
    write(repo / ".agentcli/commands/fix.md", "Fix it.")
    before = read(repo).fingerprint
    write(repo / ".claude/settings.json", {"permissions": {"deny": ["Read(.env)"]}})
    assert read(repo).fingerprint == before


def test_deny_and_ask_hold_without_trust_and_allow_and_hooks_with_it(repo: Path) -> None:
    permissions = {"deny": ["Read(.env)"], "ask": ["Bash(git push:*)"], "allow": ["Bash(make:*)"]}
    write(repo / ".claude/settings.json", {"hooks": HOOKS, "permissions": permissions})
    project = load_project(repo, environ={})
    assert list(map(str, load_project_rules(project))) == [
        "deny read(.env)",
        "ask bash(git push:*)",
    ]
    assert load_project_hooks(project) == ()
    trusted = load_project(repo, trust_project=True, environ={})
    assert str(load_project_rules(trusted)[-1]) == "allow bash(make:*)"
    (hooks,) = load_project_hooks(trusted)
    assert [(hook.event, hook.project) for hook in hooks.hooks] == [("PreToolUse", repo)]


@pytest.mark.parametrize(
    "name", [".mcp.json", ".claude/settings.json", ".claude/commands/x.md", ".codex/prompts"]
)
def test_link_out_of_the_repository_is_left_out_and_named(name: str, repo: Path) -> None:
    secret = write(repo.parent / "secret/a.md", '{"mcpServers": {"x": {"command": "x"}}}')
    target = secret if "." in Path(name).name[1:] else secret.parent
    (repo / name).parent.mkdir(parents=True, exist_ok=True)
    (repo / name).symlink_to(target)
    files = read(repo)
    assert files.foreign.files == {}
    assert files.foreign.left_out == ((name, "it is a link that leads out of the repository"),)
    assert not files.needs_trust


def test_link_inside_of_the_repository_is_followed(repo: Path) -> None:
    write(repo / "prompts/go.md", "Go.")
    (repo / ".claude").mkdir()
    (repo / ".claude/commands").symlink_to("../prompts")
    assert read(repo).foreign.files == {".claude/commands/go.md": b"Go."}


def test_large_special_and_many_files_are_left_out_and_named(repo: Path) -> None:
    write(repo / ".mcp.json", "x" * 10_000_000)
    os.mkfifo(write(repo / ".claude/commands/a.md", "a").parent / "pipe.md")
    found = read_foreign_files(repo)
    assert dict(found.left_out) == {
        ".mcp.json": f"it is larger than {FILE_LIMIT_BYTES} bytes",
        ".claude/commands/pipe.md": "it is not a regular file",
    }
    assert list(found.files) == [".claude/commands/a.md"]


def test_name_with_control_characters_is_shown_without_them(repo: Path) -> None:
    write(repo / ".claude/commands/\x1b[2Jx.md", "Go.")
    assert "\x1b" not in "".join(describe_files(read(repo)))


@pytest.mark.parametrize("text", ["", "{", "[]", "nonsense", '{"a": ' * 5000, "null"])
def test_broken_json_stops_nothing(text: str, repo: Path) -> None:
    for name in (".mcp.json", ".claude/settings.json", ".cursor/mcp.json"):
        write(repo / name, text)
    project = load_project(repo, trust_project=True, environ={})
    assert project is not None
    assert load_project_rules(project) == ()
    assert load_project_hooks(project) == []
    list(project.list_contents())


def test_json_of_editors_has_comments_and_last_commas() -> None:
    text = b'\xef\xbb\xbf{"a": "http://x, //no",\n // yes\n "b": [1, 2,], /* and\n this */}'
    assert parse_json(text) == {"a": "http://x, //no", "b": [1, 2]}
