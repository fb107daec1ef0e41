import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.session.managed import (
    apply_managed,
    describe_managed,
    load_managed_hooks,
    load_managed_rules,
)
from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings
from tests.support.program import PROGRAM, environment, script


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
