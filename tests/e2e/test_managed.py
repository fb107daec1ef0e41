import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentcli.session.configuration import (
    apply_managed,
    describe_managed,
    load_managed_hooks,
    load_managed_rules,
    require_permitted_model,
)
from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings
from tests.support.program import PROGRAM, agentcli, environment, read_facts, script


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


def test_the_stricter_value_holds_and_other_values_are_fixed(tmp_path: Path, policy: Path) -> None:
    (policy / "settings.toml").write_text(
        'mode = "ask"\nmax_cost = 5.0\nmax_turns = 50\nsandbox = "auto"\nmodel = "opus"\n'
    )
    own = Settings(
        workspace=tmp_path, mode="auto", max_cost=9.0, max_turns=10, sandbox="off", model="haiku"
    )
    made = apply_managed(own, policy)
    assert (made.mode, made.max_cost, made.max_turns) == ("ask", 5.0, 10)
    assert (made.sandbox, made.model) == ("auto", "opus")
    assert {"mode", "model", "sandbox"} <= made.explicit_keys & set(dict(made.managed))
    strict = Settings(workspace=tmp_path, mode="plan", sandbox="landlock")
    assert apply_managed(strict, policy).mode == "plan"
    assert apply_managed(strict, policy).sandbox == "landlock"


def test_without_a_policy_nothing_changes(tmp_path: Path, policy: Path) -> None:
    own = Settings(workspace=tmp_path)
    assert apply_managed(own, policy) is own
    assert (load_managed_rules(policy), load_managed_hooks(policy)) == ((), ())
    assert describe_managed(policy) == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.toml", "mode = "),
        ("settings.toml", 'mode = "wild"'),
        ("settings.toml", "no_such = 1"),
        ("rules.toml", "x = 1"),
        ("hooks.json", "{"),
    ],
)
def test_a_policy_that_is_not_understood_stops_the_program(
    name: str, text: str, policy: Path
) -> None:
    (policy / name).write_text(text)
    with pytest.raises(SettingsError, match=str(policy / name)):
        describe_managed(policy)


def test_rules_and_hooks_are_described(policy: Path) -> None:
    (policy / "rules.toml").write_text('[[rule]]\ndecision = "deny"\nrule = "bash(curl:*)"\n')
    hooks = '{"hooks": {"PreToolUse": [{"hooks": [{"command": "/opt/check"}]}]}}'
    (policy / "hooks.json").write_text(hooks)
    assert describe_managed(policy) == (f"{policy}: deny bash(curl:*); PreToolUse hook /opt/check")


def mounts_over_etc(tmp_path: Path) -> bool:
    """Whether this user may put a directory over /etc, for one process."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(_over_etc(tmp_path, "true"), capture_output=True).returncode == 0


def _over_etc(tmp_path: Path, *command: str | Path) -> list[str]:
    work = tmp_path / "overlay"
    (work / "work").mkdir(parents=True, exist_ok=True)
    (work / "up").mkdir(exist_ok=True)
    copy = f"mkdir {work}/up {work}/work && cp -r {tmp_path}/etc {work}/up/agentcli"
    mount = f"mount -t tmpfs t {work} && {copy}"
    overlay = f"lowerdir=/etc,upperdir={work}/up,workdir={work}/work"
    line = f'{mount} && mount -t overlay o -o {overlay} /etc && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", line, "sh", *map(str, command)]


class Machine:
    """One with a policy, and a user who has everything that could loosen it."""

    def __init__(self, tmp_path: Path) -> None:
        if not mounts_over_etc(tmp_path):
            pytest.skip("no mount over /etc without root and overlayfs")
        self._path = tmp_path
        self.home = tmp_path / "home"
        self.home.mkdir()

    def write(self, name: str, content: Any) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def run(self, *command: str | Path, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            _over_etc(self._path, *command),
            cwd=self.home,
            env=environment(self.home, **env),
            capture_output=True,
            text=True,
        )


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "input": given}]}


STEPS = [
    call("bash", command="echo hi > one"),
    call("bash", command="touch two"),
    call("write_file", path="three", content="x"),
    call("bash", command="touch ../four", needs=["outside", "reason:test"]),
    "Done.",
]


def test_no_file_of_the_user_or_the_project_loosens_the_policy(
    tmp_path: Path, policy: Path
) -> None:
    machine = Machine(tmp_path)
    (policy / "settings.toml").write_text('mode = "ask"\nsandbox = "auto"\nmax_turns = 9\n')
    (policy / "rules.toml").write_text('[[rule]]\ndecision = "deny"\nrule = "bash(echo:*)"\n')
    mark = tmp_path / "refused"
    check = {"type": "command", "command": f"touch {mark}; exit 2"}
    (policy / "hooks.json").write_text(
        json.dumps({"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [check]}]}})
    )
    allow = 'echo \'{"hookSpecificOutput": {"permissionDecision": "allow"}}\''
    allowing = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": allow}]}]}}
    config = ".config/agentcli"
    machine.write(f"{config}/settings.toml", 'mode = "auto"\nsandbox = "off"\nmax_turns = 99\n')
    rules = '[[rule]]\ndecision = "allow"\nrule = "bash(echo:*)"\n'
    outside = '[[rule]]\ndecision = "allow"\nrule = "bash(touch:*)"\noutside = true\n'
    machine.write(f"{config}/rules.toml", rules + outside)
    machine.write(f"{config}/hooks.json", allowing)
    machine.write(".agentcli/settings.toml", 'mode = "auto-edit"\nmax_turns = 50\n')
    machine.write(".claude/settings.json", {"permissions": {"allow": ["Bash(echo:*)", "Write"]}})
    machine.write("plugin/.claude-plugin/plugin.json", {"name": "loose"})
    machine.write("plugin/hooks/hooks.json", allowing)
    machine.write(".claude.json", {"mcpServers": {}})
    machine.run(PROGRAM, "plugins", "install", "plugin", "--yes")
    machine.run(PROGRAM, "import", "--yes")
    model = script(machine.home / "s.json", STEPS)
    loose = ("--mode", "auto", "--sandbox", "off", "--max-turns", "99", "--trust-project")
    ran = machine.run(
        *(PROGRAM, "run", *loose, "--allow", "bash(echo:*)", "--allow", "write_file"),
        *("--model", model, "x"),
        AGENTCLI_MODE="auto",
        AGENTCLI_SANDBOX="off",
    )
    assert "deny bash(echo:*) (/etc/agentcli/rules.toml:1)" in ran.stderr
    assert mark.exists(), ran.stderr
    left = {name for name in ("one", "three", "../four") if (machine.home / name).exists()}
    assert left == set()
    (log,) = machine.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    facts = read_facts(log)
    assert next(fact["mode"] for fact in facts if fact["type"] == "session_started") == "ask"
    reasons = [fact["verdict"]["reason"] for fact in facts if fact["type"] == "call_judged"]
    assert "the policy of this machine keeps commands in the sandbox" in reasons


EDITOR = """
import asyncio, sys
from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

class Editor:
    async def session_update(self, session_id, update, **_): pass
    def on_connect(self, conn): pass
    async def request_permission(self, session_id, tool_call, options, **_):
        chosen = AllowedOutcome(outcome="selected", option_id="always")
        return RequestPermissionResponse(outcome=chosen)

async def main(program, model, cwd):
    async with spawn_agent_process(Editor(), program, "acp", "--model", model) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        opened = await agent.new_session(cwd=cwd, mcp_servers=[])
        print([mode.id for mode in opened.modes.available_modes])
        await agent.set_session_mode(session_id=opened.session_id, mode_id="auto")
        await agent.prompt(session_id=opened.session_id, prompt=[text_block("x")])

asyncio.run(main(*sys.argv[1:]))
"""
PROGRAM_OF_THE_USER = """
import sys
from agentcli import Session
model, cwd = sys.argv[1:]
allow = ["bash(echo:*)", "bash(touch:*)", "write_file"]
with Session(cwd, model=model, mode="auto", sandbox="off", allow=allow) as session:
    print(session.run("x").answer)
"""


def test_neither_editors_nor_programs_nor_servers_loosen_the_policy(
    tmp_path: Path, policy: Path
) -> None:
    machine = Machine(tmp_path)
    (policy / "settings.toml").write_text('mode = "ask"\nsandbox = "auto"\n')
    (policy / "rules.toml").write_text('[[rule]]\ndecision = "deny"\nrule = "bash(echo:*)"\n')
    model = script(machine.home / "s.json", [STEPS[0], STEPS[3], "Done."])
    work = tmp_path / "work"
    work.mkdir()
    said = machine.run(sys.executable, "-c", EDITOR, PROGRAM, model, work)
    assert said.stdout.strip() == "['plan', 'ask']", said.stderr
    said = machine.run(sys.executable, "-c", PROGRAM_OF_THE_USER, model, work)
    assert said.stdout == "Done.\n", said.stderr
    assert not (work / "one").exists()
    assert not (tmp_path / "four").exists()
    server = "import os, sys; open(sys.argv[1], 'w').write(os.environ['HOME'])"
    entry = {"command": sys.executable, "args": ["-c", server, str(tmp_path / "five")]}
    machine.write(".config/agentcli/mcp.json", {"mcpServers": {"x": {**entry, "sandbox": False}}})
    machine.run(PROGRAM, "mcp", "test", "x")
    assert not (tmp_path / "five").exists()


def test_no_replay_runs_what_the_policy_keeps_in_the_sandbox(tmp_path: Path, policy: Path) -> None:
    machine = Machine(tmp_path)
    escaped = tmp_path / "escaped"
    steps = [call("bash", command=f"touch {escaped}"), "Done."]
    model = script(machine.home / "s.json", steps)
    # Recorded before there was a policy, by a user who had the right to do so.
    loose = ("--mode", "auto", "--sandbox", "off", "--allow", "bash")
    ran = agentcli("run", *loose, "--model", model, "x", home=machine.home)
    assert escaped.exists(), ran.err
    escaped.unlink()
    (policy / "settings.toml").write_text('mode = "ask"\nsandbox = "auto"\n')
    machine.write("loose.toml", '[[rule]]\ndecision = "allow"\nrule = "bash"\noutside = true\n')
    machine.write(".config/agentcli/settings.toml", 'mode = "auto"\nsandbox = "off"\n')
    for more in ((), ("--judge", "current"), ("--policy", "loose.toml")):
        again = machine.run(PROGRAM, "replay", "--sandbox", "off", *more, AGENTCLI_SANDBOX="off")
        assert not escaped.exists(), (more, again.stdout, again.stderr)
        assert "Traceback" not in again.stderr


@pytest.mark.parametrize("kind", ["isolation: worktree", "background: true", ""])
def test_no_agent_of_the_user_has_another_model_than_the_policy_sets(
    kind: str, tmp_path: Path, policy: Path
) -> None:
    machine = Machine(tmp_path)
    commit = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty")
    for words in (("init", "-q"), commit):
        subprocess.run(["git", *words], cwd=machine.home, check=True)
    own = script(tmp_path / "own.json", [call("delegate", agent="other", task="x"), "Done."])
    other = script(tmp_path / "other.json", [call("write_file", path="x", content="y"), "Other."])
    (policy / "settings.toml").write_text(f'model = "{own}"\n')
    header = f"---\nname: other\ndescription: d\nmodel: {other}\n{kind}\n---\nWork."
    machine.write(".config/agentcli/agents/other.md", header)
    machine.write(".config/agentcli/settings.toml", f'model = "{other}"\n')
    ran = machine.run(PROGRAM, "run", "--mode", "auto", "--model", other, "x")
    logs = machine.home.glob(".local/state/agentcli/sessions/**/*.jsonl")
    text = "".join(log.read_text() for log in logs)
    assert '"Other."' not in text and '"text":"Done."' in text, ran.stderr
    assert f"the policy of this machine sets the model: {own}" in text


def test_policy_that_sets_the_model_sets_it_for_all_agents(tmp_path: Path) -> None:
    managed = (("model", "opus"), ("small_model", "haiku"))
    settings = Settings(workspace=tmp_path, model="opus", managed=managed)
    for name in ("opus", "haiku"):
        require_permitted_model(settings, name)
    for name in ("sonnet", "openai/x", ""):
        with pytest.raises(SettingsError, match="the policy of this machine sets the model: opus"):
            require_permitted_model(settings, name)
    require_permitted_model(Settings(workspace=tmp_path), "sonnet")


def test_nothing_loosens_the_policy_of_a_machine(tmp_path: Path, policy: Path) -> None:
    if not mounts_over_etc(tmp_path):
        pytest.skip("no mount over /etc without root and overlayfs")
    (policy / "settings.toml").write_text('mode = "ask"\n')
    (policy / "rules.toml").write_text('[[rule]]\ndecision = "deny"\nrule = "bash(echo:*)"\n')
    home = tmp_path / "home"
    home.mkdir()
    calls = [{"name": "bash", "input": {"command": "echo hi"}}]
    writes = [{"name": "write_file", "input": {"path": "x", "content": "y"}}]
    model = script(home / "s.json", [{"calls": calls}, {"calls": writes}, "Done."])

    def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        line = _over_etc(tmp_path, PROGRAM, *arguments)
        return subprocess.run(line, cwd=home, env=environment(home), capture_output=True, text=True)

    ran = run("run", "--mode", "auto", "--allow", "bash(echo:*)", "--model", model, "x")
    assert "deny bash(echo:*) (/etc/agentcli/rules.toml:1)" in ran.stderr
    assert not (home / "x").exists()
    assert "managed by /etc/agentcli: mode = ask; deny bash(echo:*)" in run("doctor").stdout
    explained = run("policy", "explain", "--mode", "auto", "bash: echo hi").stdout
    assert "/etc/agentcli/rules.toml:1" in explained
