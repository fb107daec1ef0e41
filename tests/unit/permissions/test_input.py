from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import parse_rule
from agentcli.permissions.subject import SubjectFactory
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, Verdict

NETWORK = Grants(network=True)
HOST = Grants(hosts=("docs.example.org",))


def judge(
    root: Path,
    text: str,
    *,
    mode: Mode = "auto",
    held: Grants = NO_GRANTS,
    confined: bool = True,
    allow: str = "",
) -> Verdict:
    rules = [parse_rule(allow, "allow", source="user")] if allow else []
    prover = ReadProver(
        workspace=root, resolve=lambda name: Path("/usr/bin") / name, cwd=lambda: root
    )
    decider = PolicyDecider(
        rules=rules,
        find_conditions=lambda: CommandConditions(
            prover=prover, is_confined=confined, has_sandbox=confined
        ),
    )
    subjects = SubjectFactory(workspace=root, cwd=lambda: root)
    args = SimpleNamespace(input=text, command="python3 -q", grants=held)
    subject = subjects.build("write_stdin", args, effect=Effect.EXECUTE)
    return decider.decide(subject, mode=mode)


@pytest.mark.parametrize(
    ("verdict", "case"),
    [
        ("allow", {}),
        ("ask", {"mode": "ask"}),
        ("ask", {"mode": "auto-edit"}),
        ("deny", {"mode": "plan"}),
        ("ask", {"held": NETWORK}),
        ("ask", {"held": HOST}),
        ("allow", {"held": HOST, "allow": "network(docs.example.org)"}),
        ("allow", {"held": NETWORK, "allow": "write_stdin"}),
        ("allow", {"mode": "ask", "allow": "bash"}),
        ("ask", {"mode": "ask", "allow": "bash(cat:*)"}),
        ("ask", {"confined": False}),
        ("ask", {"confined": False, "allow": "write_stdin"}),
    ],
)
def test_input_is_an_act_and_has_the_reach_of_its_command(
    tmp_path: Path, verdict: str, case: dict[str, Any]
) -> None:
    found = judge(tmp_path, "cat notes.txt\n", **case)
    assert found.decision == verdict
    assert found.grants == NO_GRANTS


@pytest.mark.parametrize("mode", ["plan", "ask", "auto"])
def test_waiting_for_output_needs_no_approval(tmp_path: Path, mode: Mode) -> None:
    assert judge(tmp_path, "", mode=mode, held=NETWORK).decision == "allow"
