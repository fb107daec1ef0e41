import json
import subprocess
from pathlib import Path

import pytest

from agentcli.log.reader import read_log
from agentcli.types.events import CallJudged, ContextNote, HookRan, Warned
from tests.support.program import Ran, agentcli, environment, script, write_fork_command

MARK = '{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch %s"}]}]}}'


@pytest.fixture
def ran_mark(tmp_path: Path) -> Path:
    """Made by the project's hook, when it runs."""
    return tmp_path / "the-hook-ran"


@pytest.fixture
def repository(tmp_path: Path, ran_mark: Path) -> Path:
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / ".agentcli").mkdir()
    (repository / ".agentcli/hooks.json").write_text(MARK % ran_mark)
    return repository


def run(home: Path, workspace: Path, *options: str, **env: str) -> Ran:
    model = script(home / "s.json", ["Hi."])
    arguments = ("run", "-C", str(workspace), "--model", model, *options, "x")
    return agentcli(*arguments, home=home, env=env)


def warnings(home: Path) -> list[str]:
    logs = sorted(home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
    facts = [entry.fact for entry in read_log(logs[-1]).entries]
    return [fact.code for fact in facts if isinstance(fact, Warned)]


def test_nothing_of_a_repository_runs_before_it_is_trusted(
    home: Path, repository: Path, ran_mark: Path
) -> None:
    ran = run(home, repository)
    assert (ran.code, ran.out, ran_mark.exists()) == (0, "Hi.\n", False)
    (warning,) = [line for line in ran.err.splitlines() if "warning" in line]
    assert "ignored 1 hook in" in warning
    assert f"agentcli trust {repository}" in warning
    assert warnings(home) == ["project.untrusted"]

    assert agentcli("trust", cwd=repository, home=home).code == 0
    ran = run(home, repository)
    assert (ran.code, ran_mark.exists(), "warning" in ran.err) == (0, True, False)


def test_text_of_a_repository_is_told_before_it_is_trusted_and_runs_nothing(
    home: Path, repository: Path, ran_mark: Path
) -> None:
    (repository / "AGENTS.md").write_text("Indent with tabs.")
    for path, name in (("skills/release/SKILL.md", "release"), ("agents/critic.md", "critic")):
        file = repository / ".agentcli" / path
        file.parent.mkdir(parents=True)
        file.write_text(f"---\nname: {name}\ndescription: From the repository.\n---\n")
    run(home, repository)
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    told = "\n".join(e.fact.text for e in read_log(log).entries if isinstance(e.fact, ContextNote))
    assert "Instructions of this project, from AGENTS.md" in told
    assert "- release: From the repository." in told
    assert "- critic: From the repository." in told
    assert not ran_mark.exists()


def test_flag_trusts_one_run_and_stores_nothing(
    home: Path, repository: Path, ran_mark: Path
) -> None:
    assert run(home, repository, "--trust-project").code == 0
    assert ran_mark.exists()
    listed = agentcli("trust", "--list", home=home)
    assert (listed.out, listed.err) == ("", "no trusted repositories\n")


def test_ci_needs_the_flag_whatever_is_stored(home: Path, repository: Path, ran_mark: Path) -> None:
    agentcli("trust", repository, home=home)
    run(home, repository, CI="true")
    assert not ran_mark.exists()
    run(home, repository, "--trust-project", CI="true")
    assert ran_mark.exists()


def test_change_ends_trust(home: Path, repository: Path, ran_mark: Path) -> None:
    agentcli("trust", repository, home=home)
    hooks = repository / ".agentcli/hooks.json"
    hooks.write_text(hooks.read_text() + "\n")
    ran = run(home, repository)
    assert not ran_mark.exists()
    assert "changed since it was trusted" in ran.err


def test_script_that_changes_during_the_session_is_not_run(
    home: Path, repository: Path, ran_mark: Path
) -> None:
    checks = repository / "check.sh"
    change = f"echo touch {ran_mark} > {checks}"
    checks.write_text("exit 0\n")
    project = {"matcher": "read_file", "hooks": [{"command": "sh ./check.sh"}]}
    (repository / ".agentcli/hooks.json").write_text(json.dumps({"PreToolUse": [project]}))
    own = {"matcher": "bash", "hooks": [{"command": change}]}
    (home / ".config/agentcli").mkdir(parents=True)
    (home / ".config/agentcli/hooks.json").write_text(json.dumps({"PreToolUse": [own]}))
    read_it = {"read_file": {"path": "check.sh"}}
    steps = [{"calls": [call]} for call in (read_it, {"bash": {"command": "ls"}}, read_it)]
    model = script(home / "s.json", [*steps, "Hi."])
    ran = agentcli("run", "-C", repository, "--model", model, "--trust-project", "x", home=home)
    assert ran.code == 5
    assert not ran_mark.exists()
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    facts = [entry.fact for entry in read_log(log).entries]
    ran_hooks = [fact.decision for fact in facts if isinstance(fact, HookRan)]
    assert ran_hooks == ["observed", "observed", "failed"]
    assert "changed since you trusted them" in ran.err


def test_tools_cannot_write_what_a_trusted_hook_runs(home: Path, repository: Path) -> None:
    checks = repository / "check.sh"
    checks.write_text("exit 0\n")
    hooks = {"Stop": [{"hooks": [{"command": "sh ./check.sh"}]}]}
    (repository / ".agentcli/hooks.json").write_text(json.dumps(hooks))
    calls = [
        {"write_file": {"path": "check.sh", "content": "exit 1"}},
        {"bash": {"command": "echo exit 1 > check.sh; mv check.sh other; rm -f check.sh; true"}},
    ]
    model = script(home / "s.json", [{"calls": calls}, "Hi."])
    arguments = ("run", "-C", repository, "--mode", "auto", "--model", model)
    agentcli(*arguments, "--trust-project", "x", home=home)
    assert checks.read_text() == "exit 0\n"
    agentcli(*arguments, "x", home=home)
    assert not checks.exists()


def test_nested_repository_and_outer_directory_stand_for_themselves(
    home: Path, repository: Path, ran_mark: Path
) -> None:
    agentcli("trust", repository, home=home)
    nested = repository / "vendor/nested"
    (nested / ".git").mkdir(parents=True)
    run(home, nested)
    assert not ran_mark.exists()  # what is around it does not reach in

    (nested / ".agentcli").mkdir()
    (nested / ".agentcli/hooks.json").write_text(MARK % ran_mark)
    assert "ignored 1 hook" in run(home, nested).err
    assert not ran_mark.exists()  # and does not vouch for it

    (repository / "src").mkdir()
    run(home, repository / "src")
    assert ran_mark.exists()  # but a directory of the repository is the repository


def test_directory_outside_of_any_repository_takes_nothing_from_above(
    home: Path, repository: Path, ran_mark: Path
) -> None:
    (repository / ".git").rmdir()
    (repository / "src").mkdir()
    agentcli("trust", repository, home=home)
    run(home, repository / "src")
    assert not ran_mark.exists()


def test_link_as_the_project_directory_stops_the_program(
    home: Path, repository: Path, ran_mark: Path, tmp_path: Path
) -> None:
    (repository / ".agentcli").rename(tmp_path / "elsewhere")
    (repository / ".agentcli").symlink_to(tmp_path / "elsewhere")
    ran = run(home, repository, "--trust-project")
    error, fix = ran.err.splitlines()
    assert (ran.code, ran_mark.exists()) == (3, False)
    assert ".agentcli is a link" in error
    assert fix.startswith("  fix: ")
    assert agentcli("trust", repository, home=home).code == 3


def test_link_in_the_project_directory_is_ignored_with_a_warning(
    home: Path, repository: Path, ran_mark: Path, tmp_path: Path
) -> None:
    (repository / ".agentcli/hooks.json").rename(tmp_path / "hooks.json")
    (repository / ".agentcli/hooks.json").symlink_to(tmp_path / "hooks.json")
    ran = run(home, repository, "--trust-project")
    assert (ran.code, ran_mark.exists()) == (0, False)
    assert ".agentcli/hooks.json is a link" in ran.err


def test_rules_of_a_project_refuse_without_trust_and_can_do_no_more(
    home: Path, repository: Path
) -> None:
    rules = repository / ".agentcli/rules.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\nrule = "edit(migrations/**)"\n')
    calls = [
        {"write_file": {"path": "migrations/1.sql", "content": "x"}},
        {"write_file": {"path": "a.sql", "content": "x"}},
    ]
    model = script(home / "s.json", [{"calls": calls}, "Hi."])
    arguments = ("run", "-C", repository, "--mode", "auto", "--model", model, "x")
    assert agentcli(*arguments, home=home).code == 0
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    facts = [entry.fact for entry in read_log(log).entries]
    judged = [fact.verdict for fact in facts if isinstance(fact, CallJudged)]
    assert [(one.decision, one.by) for one in judged] == [("deny", "rule"), ("allow", "mode")]
    assert f"{rules}:1" in judged[0].reason

    rules.write_text('\n[[rule]]\ndecision = "allow"\nrule = "bash"\n')
    ran = agentcli(*arguments, "--trust-project", home=home)
    assert ran.code == 3
    assert f"{rules}:2: a project may only add ask and deny rules" in ran.err


def test_project_settings_choose_and_tighten(home: Path, repository: Path) -> None:
    (repository / ".agentcli/settings.toml").write_text('mode = "plan"\n')
    write = {"write_file": {"path": "a", "content": "x"}}
    model = script(home / "s.json", [{"calls": [write]}, "Hi."])
    arguments = ("run", "-C", repository, "--model", model, "--trust-project", "x")
    (home / ".config/agentcli").mkdir(parents=True)
    (home / ".config/agentcli/settings.toml").write_text('mode = "auto"\n')
    agentcli(*arguments, home=home)
    assert not (repository / "a").exists()
    agentcli(*arguments, "--mode", "auto", home=home)
    assert (repository / "a").exists()


def test_project_settings_that_are_not_a_projects_are_refused_with_their_line(
    home: Path, repository: Path
) -> None:
    file = repository / ".agentcli/settings.toml"
    file.write_text('effort = "low"\nsandbox = "off"\n')
    ran = run(home, repository, "--trust-project")
    error, fix = ran.err.splitlines()
    assert (ran.code, ran.out) == (3, "")
    assert f"{file}:2: a project may not set sandbox" in error
    assert fix.startswith("  fix: ")
    assert run(home, repository).code == 0


def test_project_that_would_stop_every_session_is_not_trusted(home: Path, repository: Path) -> None:
    (repository / ".agentcli/settings.toml").write_text('max_turns = "x"\n')
    refused = agentcli("trust", repository, home=home)
    assert refused.code == 3
    assert "max_turns must be a whole number above 0" in refused.err
    assert agentcli("trust", "--list", home=home).out == ""


def test_trust_command_shows_lists_and_revokes(
    home: Path, repository: Path, ran_mark: Path
) -> None:
    shown = agentcli("trust", "--show", repository, home=home)
    assert shown.out.splitlines() == [
        f"hook      SessionStart: touch {ran_mark}",
        f"{repository}: not trusted",
    ]
    trusted = agentcli("trust", repository, home=home)
    assert trusted.out.splitlines()[-1] == f"Trusted {repository}"
    assert str(repository) in agentcli("trust", "--list", home=home).out
    revoked = agentcli("trust", "--revoke", cwd=repository, home=home)
    assert revoked.out == f"{repository} is no longer trusted\n"
    assert agentcli("trust", "--list", home=home).out == ""
    assert agentcli("trust", "--revoke", repository, home=home).code == 2


def test_what_is_shown_cannot_act_on_the_terminal(home: Path, repository: Path) -> None:
    evil = json.dumps({"Stop": [{"hooks": [{"command": "rm x\x1b[2K\x1b]0;t\x07\u202esafe"}]}]})
    (repository / ".agentcli/hooks.json").write_text(evil)
    shown = agentcli("trust", "--show", repository, home=home).out
    assert "rm x" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_sessions_that_trust_at_once_lose_nothing(home: Path, tmp_path: Path) -> None:
    roots = [tmp_path / f"p{number}" for number in range(4)]
    for root in roots:
        (root / ".agentcli").mkdir(parents=True)
        (root / ".agentcli/hooks.json").write_text(MARK % "x")
    started = [
        subprocess.Popen(
            [write_fork_command(), "trust", root], env=environment(home), stdout=subprocess.DEVNULL
        )
        for root in [*roots, *roots]
    ]
    assert [process.wait(timeout=60) for process in started] == [0] * 8
    listed = agentcli("trust", "--list", home=home).out
    assert [line.split()[-1] for line in listed.splitlines()] == [str(root) for root in roots]


def test_tools_cannot_write_what_would_be_trusted(home: Path, repository: Path) -> None:
    calls = [
        {"write_file": {"path": ".agentcli/hooks.json", "content": "{}"}},
        {"bash": {"command": "echo x > .agentcli/hooks.json; echo y > .agentcli/mcp.json"}},
    ]
    before = (repository / ".agentcli/hooks.json").read_text()
    model = script(home / "s.json", [{"calls": calls}, "Hi."])
    agentcli("run", "-C", repository, "--mode", "auto", "--model", model, "x", home=home)
    assert (repository / ".agentcli/hooks.json").read_text() == before
    assert not (repository / ".agentcli/mcp.json").exists()


def test_tools_cannot_write_our_own_settings_where_home_is_the_workspace(home: Path) -> None:
    (home / ".config/agentcli").mkdir(parents=True)
    places = (".config/agentcli/hooks.json", ".local/state/agentcli/trust/x.json")
    calls = [
        *({"write_file": {"path": place, "content": "{}"}} for place in places),
        *(
            {"bash": {"command": f"mkdir -p $(dirname {place}); echo > {place}"}}
            for place in places
        ),
    ]
    model = script(home / "s.json", [{"calls": calls}, "Hi."])
    agentcli("run", "-C", home, "--mode", "auto", "--model", model, "x", home=home)
    assert [place for place in places if (home / place).exists()] == []
