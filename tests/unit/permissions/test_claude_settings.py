import json
from pathlib import Path

import pytest

from agentcli.permissions.claude_settings import ClaudeSettings, parse_claude_settings


def parse(*, workspace: Path = Path("/repo"), **permissions: list[str]) -> ClaudeSettings:
    data = json.dumps({"permissions": permissions}).encode()
    return parse_claude_settings(data, Path("/repo/.claude/settings.json"), workspace=workspace)


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("Bash", ["deny bash"]),
        ("Bash(*)", ["deny bash"]),
        ("Bash(git push:*)", ["deny bash(git push:*)"]),
        ("Bash(git push *)", ["deny bash(git push:*)"]),
        ("Bash(make lint)", ["deny bash(make lint)"]),
        ("Bash(curl*)", ["deny bash(curl:*)"]),
        ("Read(.env)", ["deny read(.env)"]),
        ("Read(./.env)", ["deny read(./.env)"]),
        ("Read(/secrets/**)", ["deny read(./secrets/**)"]),
        ("Read(//etc/**)", ["deny read(/etc/**)"]),
        ("Read(~/.ssh/**)", ["deny read(~/.ssh/**)"]),
        ("Read(**/*.{pem,key})", ["deny read(**/*.pem)", "deny read(**/*.key)"]),
        ("Write(dist/**)", ["deny edit(./dist/**)"]),
        ("Edit", ["deny edit"]),
        ("WebFetch(domain:example.org)", ["deny network(example.org)"]),
        ("mcp__github", ["deny mcp(github)"]),
        ("mcp__github__create_issue", ["deny mcp(github:create_issue)"]),
        ("Task(Explore)", ["deny delegate"]),
    ],
)
def test_rules_of_another_agent_are_ours(written: str, ours: list[str]) -> None:
    found = parse(deny=[written])
    assert list(map(str, found.rules)) == ours
    assert found.left_out == ()


def test_paths_of_a_file_above_the_workspace_begin_there() -> None:
    found = parse(workspace=Path("/repo/app"), deny=["Read(secrets/**)", "Read(.env)"])
    assert list(map(str, found.rules)) == ["deny read(/repo/secrets/**)", "deny read(.env)"]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("TodoWrite", "there is no such tool here"),
        ("Bash(ls && rm x)", "one rule for each command"),
        ("Read(../x)", "cannot contain .."),
        ("not a rule!", "it is not a rule"),
        ("x" * 5000, "it is not a rule"),
        ("Read({a,b}{c,d}{e,f}{g,h}{i,j})", "cannot contain braces"),
    ],
)
def test_rule_without_a_meaning_here_is_named(written: str, why: str) -> None:
    found = parse(deny=[written])
    assert found.rules == ()
    assert why in found.left_out[0]


def test_refusal_that_cannot_be_expressed_asks_about_more() -> None:
    found = parse(deny=["Bash(git push * --force)"], allow=["Bash(git * main)", "Bash(np*)"])
    assert list(map(str, found.rules)) == ["ask bash(git push:*)"]
    assert found.allows == ()
    assert len(found.left_out) == 3


def test_allow_is_kept_apart_and_other_keys_are_named() -> None:
    data = (
        b'{"permissions": {"allow": ["Bash(make:*)"], "defaultMode": "x"}, "env": {}, "model": 1}'
    )
    found = parse_claude_settings(data, Path("/r/.claude/settings.json"), workspace=Path("/r"))
    assert (found.rules, list(map(str, found.allows))) == ((), ["allow bash(make:*)"])
    assert found.left_out == ("env", "model", "permissions.defaultMode")


@pytest.mark.parametrize("data", [b"{", b"[1]", b"\xff\xfe\x00", b'{"permissions": 5}'])
def test_broken_file_has_no_rules(data: bytes) -> None:
    found = parse_claude_settings(data, Path("/r/.claude/settings.json"), workspace=Path("/r"))
    assert (found.rules, found.allows, found.hooks_text) == ((), (), "")
