from pathlib import Path
from types import SimpleNamespace

import pytest

from agentcli.permissions.rules import RuleError, parse_rule
from agentcli.permissions.subject import CallSubject, SubjectFactory
from agentcli.types.tools import Effect


def subject(tool: str, server_tool: str, *, server: str = "hub") -> CallSubject:
    subjects = SubjectFactory(workspace=Path("/w"), cwd=lambda: Path("/w"))
    args = SimpleNamespace(server_tool=server_tool)
    return subjects.build(tool, args, effect=Effect.EXECUTE, source=f"mcp {server}")


@pytest.mark.parametrize(
    ("rule", "is_meant"),
    [
        ("mcp", True),
        ("mcp(hub)", True),
        ("mcp(hub:*)", True),
        ("mcp(hub:get.user)", True),
        ("mcp(hub:get_user_ab12cd)", True),
        ("hub__get_user_ab12cd", True),
        ("mcp__hub__get_user_ab12cd", True),
        ("mcp(hub:get)", False),
        ("mcp(other)", False),
        ("other__get_user_ab12cd", False),
    ],
)
def test_rule_knows_a_foreign_tool_by_either_name(rule: str, is_meant: bool) -> None:
    parsed = parse_rule(rule, "allow", source="user")
    assert parsed.permits_call(subject("hub__get_user_ab12cd", "get.user")) is is_meant


def test_rule_for_a_tool_of_ours_says_nothing_of_a_servers() -> None:
    parsed = parse_rule("bash", "allow", source="user")
    assert not parsed.permits_call(subject("hub__bash", "bash"))


@pytest.mark.parametrize("rule", ["mcp(:x)", "mcp(hub:)", "hub__", "__x"])
def test_rule_without_a_server_or_a_tool_is_refused(rule: str) -> None:
    with pytest.raises(RuleError, match="write mcp"):
        parse_rule(rule, "deny", source="user")
