import pytest

from agentcli.log.decode import upgrade_fact
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
        ({"decision": "allow", "by": "mode", "reason": "auto mode allows it"}, "mode", "auto"),
        ({"decision": "allow", "by": "mode", "reason": "ask mode allows reading"}, "mode", None),
        ({"decision": "allow", "by": "mode", "reason": "the mode allows it"}, "mode", None),
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


@pytest.mark.parametrize(
    ("why", "text", "added"),
    [
        ("plan_mode", "Plan mode: read.", {}),
        ("plan_mode", "Plan mode is over: go on.", {"why": "plan_mode_over"}),
        ("plan_mode", "Steps of the plan that are done: 1 of 2.", {"why": "plan_steps"}),
        ("plan_mode_over", "Go on.", {}),
        (
            "instructions",
            "Instructions of this project, from docs/A.md; follow them.\n\nUse tabs.\n",
            {"loaded": "docs/A.md (1 line)"},
        ),
        ("instructions", "Skills: read one.\n- a: x\n- b: y", {"loaded": "2 skills"}),
        ("instructions", "The user added to AGENTS.md: x", {"loaded": ""}),
        (
            "background",
            "[background pid 12 ended after 1.5 s: exit code 3, output in /o]",
            {"pid": 12, "exit_code": 3},
        ),
        ("background", "[Agent 1 did not finish: it was killed.]", {}),
    ],
)
@pytest.mark.parametrize("kind", ["told", "context_note"])
def test_what_only_the_text_of_a_note_said_is_a_field_today(
    kind: str, why: str, text: str, added: dict[str, Json]
) -> None:
    note = {"type": "context_note", "why": why, "text": text}
    assert upgrade_fact({**note, "type": kind}) == {**note, **added}
