import json
from pathlib import Path

import pytest

from tests.support.program import agentcli, script


@pytest.fixture
def home(home: Path) -> Path:
    (home / ".config/agentcli").mkdir(parents=True)
    return home


def test_explanation_names_rule_file_line_and_parts(home: Path, workspace: Path) -> None:
    rules = home / ".config/agentcli/rules.toml"
    rules.write_text('# mine\n[[rule]]\ndecision = "deny"\nrule = "bash(git push:*)"\n')

    ran = agentcli("policy", "explain", "-C", workspace, "bash: ls && git push", home=home)

    assert (ran.code, ran.err) == (0, "")
    assert "would be denied" in ran.out
    assert f"deny bash(git push:*), at {rules}:2" in ran.out
    assert "part        ls: read-only" in ran.out


def test_explanation_as_json_tells_what_would_allow_it(home: Path, workspace: Path) -> None:
    query = 'bash: {"command": "git status | head; make -j4"}'
    ran = agentcli("policy", "explain", "-C", workspace, "-o", "json", query, home=home)

    told = json.loads(ran.out)
    assert (ran.code, told["decision"], told["by"]) == (0, "ask", "mode")
    assert [(part["command"], part["reads"]) for part in told["parts"]] == [
        ("git status", True),
        ("head", True),
        ("make -j4", False),
    ]
    assert told["to_allow"] == ["bash(make -j4)"] or told["to_allow"] == ["bash(make -j4:*)"]
    options = [part for rule in told["to_allow"] for part in ("--allow", rule)]
    again = agentcli("policy", "explain", "-C", workspace, "-o", "json", *options, query, home=home)
    assert json.loads(again.out)["decision"] == "allow"


OUTSIDE = {
    "read_file: {}/notes": "ask",
    "grep: {}": "ask",
    "find_files: ..": "ask",
    "read_file: {}/.ssh/id_rsa": "deny",
    "read_file: {}/missing": "deny",
    "read_file: a.txt": "allow",
}


@pytest.mark.parametrize("query", OUTSIDE)
def test_explanation_knows_what_tools_do_not_reach(query: str, home: Path, workspace: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/id_rsa").write_text("key")
    (home / "notes").write_text("x")
    command = ("policy", "explain", "-C", workspace, "-o", "json", query.format(home))
    told = json.loads(agentcli(*command, home=home).out)
    assert told["decision"] == OUTSIDE[query]
    if told["decision"] != "allow":
        assert "is outside the workspace" in told["reason"]
    if told["decision"] == "ask":
        options = [part for rule in told["to_allow"] for part in ("--allow", rule)]
        assert json.loads(agentcli(*command, *options, home=home).out)["decision"] == "allow"


def test_explanation_and_run_name_the_same_option(home: Path, workspace: Path) -> None:
    query = ("policy", "explain", "-C", workspace, "bash: cat ~/x")
    assert "  to allow    --allow bash\n" in agentcli(*query, home=home).out
    assert "would be allowed" in agentcli(*query, "--allow", "bash", home=home).out
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "cat ~/x"}}]}, "ok"])
    ran = agentcli("run", "-C", workspace, "--model", model, "x", home=home)
    assert "  fix: --allow bash\n" in ran.err


def test_explanation_gives_only_directories_that_a_command_gets(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    given, missing = tmp_path / "given", tmp_path / "missing"
    given.mkdir()
    (home / ".config/agentcli/rules.toml").write_text(
        f'{GIVES}writable = ["{given}", "{missing}"]\n'
    )
    told = agentcli("policy", "explain", "-C", workspace, "bash: touch a", home=home).out
    assert f"can also write {given}\n" in told
    assert f"  not given   {missing}: it does not exist" in told


@pytest.mark.parametrize("query", ["git push", "bash: {not json", "frob: x", "bash:"])
def test_query_that_is_no_call_is_a_usage_error(query: str, home: Path, workspace: Path) -> None:
    ran = agentcli("policy", "explain", "-C", workspace, query, home=home)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert "  fix: " in ran.err


def test_past_calls_are_put_before_changed_rules(home: Path, workspace: Path) -> None:
    calls = [{"bash": {"command": line}} for line in ("echo 1 > a", "touch x", "touch x y", "ls")]
    model = script(home / "s.json", [{"calls": calls}, "ok"])
    agentcli("run", "-C", workspace, "--mode", "auto", "--model", model, "x", home=home)

    same = agentcli("policy", "test", "--runs", "30d", home=home)
    assert (same.code, same.out) == (0, "Checked 4 calls of 1 session: 0 would differ.\n")

    rules = home / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\nrule = "bash(touch:*)"\n')
    ran = agentcli("policy", "test", "--policy", rules, "-o", "json", home=home)
    told = json.loads(ran.out)
    assert ran.code == 7
    assert [
        (one["input"]["command"], one["was"], one["would_be"]) for one in told["differences"]
    ] == [
        ("echo 1 > a", "allow", "ask"),
        ("touch x", "allow", "deny"),
        ("touch x y", "allow", "deny"),
    ]

    asked = agentcli("policy", "test", "--mode", "ask", "-o", "json", home=home)
    told = json.loads(asked.out)
    assert (told["calls"], told["questions"]) == (4, 3)
    assert told["suggestions"] == [
        {"allow": ["bash(touch x y)"], "questions": 1},
        {"allow": ["bash(touch x)"], "questions": 1},
    ]


def test_broken_log_is_named_and_the_rest_is_read(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "ls"}}]}, "ok"])
    for _ in range(2):
        agentcli("run", "-C", workspace, "--model", model, "x", home=home)
    log = min(home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
    log.write_bytes(log.read_bytes().replace(b'"ls"', b'"rm"', 1))

    ran = agentcli("policy", "test", home=home)

    assert ran.code == 0
    assert str(log) in ran.err
    assert "of 2 sessions: 0 would differ" in ran.out
    assert agentcli("policy", "test", "--runs", "soon", home=home).code == 2


GIVES = '[[rule]]\ndecision = "allow"\nrule = "bash(touch:*)"\n'


def test_grants_are_explained_recorded_and_put_before_changed_rules(
    home: Path, workspace: Path
) -> None:
    rules = home / ".config/agentcli/rules.toml"
    rules.write_text(f'{GIVES}network = ["docs.example.org"]\ncredentials = ["git"]\n')
    explained = agentcli("policy", "explain", "-C", workspace, "bash: touch a", home=home)
    assert "network: docs.example.org, credentials: git" in explained.out
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "touch a"}}]}, "ok"])
    agentcli("run", "-C", workspace, "--model", model, "x", home=home)

    rules.write_text(f'{GIVES}network = ["other.example.net"]\n')
    changed = agentcli("policy", "test", "--runs", "30d", home=home)

    assert "1 would differ" in changed.out
    assert "docs.example.org" in changed.out
    assert "other.example.net" in changed.out


def test_presets_are_listed_and_can_be_named(home: Path, workspace: Path) -> None:
    listed = agentcli("policy", "presets", home=home)
    assert listed.code == 0
    rows = dict(line.split(maxsplit=1) for line in listed.out.splitlines() if line.strip())
    assert {"python", "node", "rust", "go", "git"} <= set(rows)
    assert "pypi.org" in rows["python"]
    options = ("--network", "python", "--allow", "bash(touch:*)")
    ran = agentcli("policy", "explain", "-C", workspace, *options, "bash: touch a", home=home)
    assert "pypi.org files.pythonhosted.org" in ran.out
    without = agentcli("policy", "explain", "-C", workspace, "bash: touch a", home=home)
    assert "pypi.org" not in without.out
