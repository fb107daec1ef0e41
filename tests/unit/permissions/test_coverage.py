from pathlib import Path

import pytest

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.policy import load_rules
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.subject import SubjectFactory
from agentcli.types.errors import SettingsError
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Verdict

RULES = """
[[rule]]
decision = "allow"
rule = "bash(npm:*)"

[[rule]]
decision = "allow"
rule = "bash(npm install:*)"
network = true
writable = ["/cache", "/more"]

[[rule]]
decision = "allow"
rule = "bash(pip install:*)"
network = true
writable = ["/more"]

[[rule]]
decision = "ask"
rule = "bash(git push:*)"
network = true

[[rule]]
decision = "allow"
rule = "bash(git push origin:*)"
network = true
"""


@pytest.fixture
def decide(tmp_path: Path) -> "Decide":
    return Decide(tmp_path)


class Decide:
    def __init__(self, root: Path) -> None:
        (root / "rules.toml").write_text(RULES)
        self.looked_up: list[str] = []
        self.prover = ReadProver(workspace=root, resolve=self._resolve, cwd=lambda: root)
        rules = load_rules(root / "rules.toml", source="user")
        self._decider = PolicyDecider(
            rules=rules,
            find_conditions=lambda: CommandConditions(prover=self.prover, is_confined=True),
        )
        self._subjects = SubjectFactory(workspace=root, cwd=lambda: root)

    def __call__(self, command: str) -> Verdict:
        subject = self._subjects.build("bash", {"command": command}, effect=Effect.EXECUTE)
        return self._decider.decide(subject, mode="ask")

    def _resolve(self, name: str) -> Path:
        self.looked_up.append(name)
        return Path("/usr/bin", name)


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("npm test", NO_GRANTS),
        ("npm install", Grants(network=True, writable=(Path("/cache"), Path("/more")))),
        (
            "npm install | tail -3",
            Grants(network=True, writable=(Path("/cache"), Path("/more"))),
        ),
        ("npm install && pip install x", Grants(network=True, writable=(Path("/more"),))),
        ("npm install && npm test", NO_GRANTS),
        ("ls", NO_GRANTS),
    ],
)
def test_line_gets_only_what_all_its_parts_are_given(
    command: str, given: Grants, decide: Decide
) -> None:
    verdict = decide(command)

    assert (verdict.decision, verdict.grants) == ("allow", given)


def test_question_says_what_a_yes_would_give(decide: Decide) -> None:
    verdict = decide("git push origin main")

    assert (verdict.decision, verdict.grants) == ("ask", Grants(network=True))


def test_line_is_proven_to_only_read_once_for_its_verdict(decide: Decide) -> None:
    assert decide.prover.reads("ls src | head")
    once = [*decide.looked_up]
    decide.looked_up.clear()

    assert decide("ls src | head").decision == "allow"
    assert decide.looked_up == once


@pytest.mark.parametrize(
    ("decision", "rule", "source"),
    [
        ("deny", "bash(npm:*)", "user"),
        ("allow", "edit(src/**)", "user"),
        ("ask", "bash", "project"),
    ],
)
def test_only_rules_of_a_person_about_commands_give_anything(
    decision: str, rule: str, source: str, tmp_path: Path
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'[[rule]]\ndecision = "{decision}"\nrule = "{rule}"\nnetwork = true\n')

    with pytest.raises(SettingsError, match=r"rules\.toml:1: "):
        load_rules(path, source="project" if source == "project" else "user")
