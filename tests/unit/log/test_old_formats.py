import pytest

from agentcli.log.old_formats import upgrade_fact
from agentcli.types.messages import Json


@pytest.mark.parametrize(
    ("verdict", "field", "value"),
    [
        (
            {"decision": "allow", "by": "user", "reason": "approved for this session"},
            "lasts",
            "session",
        ),
        (
            {"decision": "deny", "by": "user", "reason": "the user denied it, and said: a: b"},
            "instead",
            "a: b",
        ),
        (
            {"decision": "deny", "by": "person", "reason": "the person said no, and: a"},
            "instead",
            "a",
        ),
        ({"decision": "deny", "by": "user", "reason": "the user denied it"}, "instead", ""),
        ({"decision": "deny", "by": "user", "reason": "x: y", "instead": "z"}, "instead", "z"),
        ({"decision": "deny", "by": "rule", "reason": "x, and said: y"}, "instead", None),
    ],
)
def test_what_only_the_reason_said_is_a_field_today(
    verdict: dict[str, Json], field: str, value: Json
) -> None:
    upgraded = upgrade_fact({"type": "call_judged", "verdict": verdict})
    assert upgraded["verdict"].get(field) == value
    assert upgraded["verdict"]["reason"] == verdict["reason"]
