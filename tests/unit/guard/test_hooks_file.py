import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.guard.hooks import Hook
from agentcli.guard.hooks_file import parse_hooks
from agentcli.types.errors import SettingsError

PATH = Path("/home/me/hooks.json")


def _text(events: Any) -> str:
    return json.dumps({"hooks": events}, indent=1)


def test_file_in_the_common_form_is_understood() -> None:
    text = _text(
        {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "a", "timeout": 5}]},
                {"hooks": [{"command": "b"}, {"type": "command", "command": "c"}]},
            ],
            "SessionEnd": [{"hooks": [{"command": "d"}]}],
        }
    )

    assert parse_hooks(text, PATH) == (
        Hook(event="PreToolUse", command="a", matcher="Bash", timeout_s=5, where=f"{PATH}:9"),
        Hook(event="PreToolUse", command="b", where=f"{PATH}:17"),
        Hook(event="PreToolUse", command="c", where=f"{PATH}:21"),
        Hook(event="SessionEnd", command="d", timeout_s=5, where=f"{PATH}:30"),
    )


def test_events_may_stand_at_the_top() -> None:
    text = '{"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}'

    assert parse_hooks(text, PATH, project=Path("/p")) == (
        Hook(event="Stop", command="a", where=f"{PATH}:1", project=Path("/p")),
    )


@pytest.mark.parametrize("text", ["{}", '{"hooks": {}}', '{"hooks": {"Stop": []}}'])
def test_file_without_hooks_has_none(text: str) -> None:
    assert parse_hooks(text, PATH) == ()


def _one(**fields: Any) -> Any:
    return {"Stop": [{"hooks": [{"type": "command", "command": "a", **fields}]}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hooks": {\n"Stop": [', ":2 is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", ":1: the file must be one object"),
        ('{"hooks": 3}', "hooks must be an object"),
        ('{"hooks": {},\n "permissions": {}}', ":2: a hooks file has no permissions"),
        (_text({"PreToolUs": []}), ":3: there is no hook event PreToolUs. Did you mean PreToolUse"),
        (_text({"Notification": []}), ":3: there is no hook event Notification. The events are"),
        (_text({"Stop": {}}), ":3: Stop must be a list"),
        (_text({"Stop": [3]}), ":3: Stop must be a list"),
        (_text({"Stop": [{}]}), ":3: Stop must be a list"),
        (_text({"Stop": [{"hooks": [3]}]}), ":3: Stop must be a list"),
        (_text({"Stop": [{"matchers": "", "hooks": []}]}), "Did you mean matcher"),
        (_text({"Stop": [{"matcher": 3, "hooks": []}]}), ":5: the matcher of Stop must be a text"),
        (_text({"Stop": [{"matcher": "(", "hooks": [{"command": "a"}]}]}), "no regular expression"),
        (_text(_one(timeot=3)), "a hook of Stop has no timeot. Did you mean timeout"),
        (_text(_one(type="prompt")), ":7: a hook of Stop has the type 'prompt', not command"),
        (_text(_one(command="")), "a hook of Stop has no command"),
        (_text(_one(command=["a"])), "a hook of Stop has no command"),
        (_text(_one(timeout="5")), ":9: the timeout of a hook of Stop must be seconds"),
        (_text(_one(timeout=0)), "above 0"),
        (_text(_one(timeout=True)), "not true"),
        (_text(_one(timeout=1e9)), "at most 3600"),
    ],
)
def test_broken_file_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_hooks(text, PATH)

    assert str(PATH) in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.hint
