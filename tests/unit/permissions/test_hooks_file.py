import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.permissions.hooks import Hook
from agentcli.permissions.hooks_file import HooksFile, parse_hooks
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

    assert parse_hooks(text, PATH).hooks == (
        Hook(event="PreToolUse", command="a", matcher="Bash", timeout_s=5, where=f"{PATH}:9"),
        Hook(event="PreToolUse", command="b", where=f"{PATH}:17"),
        Hook(event="PreToolUse", command="c", where=f"{PATH}:21"),
        Hook(event="SessionEnd", command="d", timeout_s=5, where=f"{PATH}:30"),
    )


def test_events_may_stand_at_the_top() -> None:
    text = '{"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}'

    assert parse_hooks(text, PATH, project=Path("/p")).hooks == (
        Hook(event="Stop", command="a", where=f"{PATH}:1", project=Path("/p")),
    )


@pytest.mark.parametrize("text", ["{}", '{"hooks": {}}', '{"hooks": {"Stop": []}}'])
def test_file_without_hooks_has_none(text: str) -> None:
    assert parse_hooks(text, PATH) == HooksFile()


def _one(**fields: Any) -> Any:
    return {"Stop": [{"hooks": [{"type": "command", "command": "a", **fields}]}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hooks": {\n"Stop": [', ":2 is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", ":1: the file must be one JSON object"),
        ('{"hooks": 3}', "hooks must be an object"),
        (_text({"PreToolUs": []}), ":3: unknown hook event PreToolUs. Did you mean PreToolUse"),
        (_text({"pre_tool_use": []}), "Did you mean PreToolUse"),
        (_text({"Stop": {}}), ":3: Stop must be a list"),
        (_text({"Stop": [3]}), ":3: Stop must be a list"),
        (_text({"Stop": [{}]}), ":3: Stop must be a list"),
        (_text({"Stop": [{"hooks": [3]}]}), ":3: Stop must be a list"),
        (_text({"PreToolUse": [{"matcher": 3, "hooks": []}]}), ":5: the matcher of PreToolUse"),
        (_text({"PreToolUse": [{"matcher": "(", "hooks": []}]}), "not a regular expression"),
        (_text({"PreToolUse": [{"matcher": "(?:|){60}(?=x)", "hooks": [3]}]}), "a list of objects"),
        (_text(_one(type="comand")), ":7: a hook of Stop has the type 'comand', but only command"),
        (_text(_one(type="http", url="ftp://x")), "a hook of Stop has no http:// or https:// url"),
        (_text(_one(type="http", url="http://x", headers={"A": 1})), "headers of a hook of Stop"),
        (_text(_one(command="")), "a hook of Stop has no command"),
        (_text(_one(command=["a"])), "a hook of Stop has no command"),
        (_text(_one(command="a\0b")), "a hook of Stop has no command"),
        (
            _text(_one(shell="powershell")),
            ":9: a hook of Stop is not a command line for sh or bash",
        ),
        (_text(_one(args="x")), ":9: a hook of Stop is not a command line for sh or bash"),
    ],
)
def test_file_that_would_lose_a_check_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_hooks(text, PATH)

    assert str(PATH) in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.hint


def _last(**fields: Any) -> Any:
    return {"SessionEnd": [{"hooks": [{"command": "a", **fields}]}]}


@pytest.mark.parametrize(
    ("text", "warning", "count"),
    [
        ('{"hooks": {},\n "permissions": {}}', ":2: a hooks file has permissions, which has no", 0),
        (_text({"Notification": 3}), ":3: Notification must be a list", 0),
        (_text({"SubagentStart": []}), ":3: unknown hook event SubagentStart", 0),
        (_text({"BeforeModel": []}), ":3: unknown hook event BeforeModel", 0),
        (_text(_one(type="prompt")), ":7: a hook of Stop has the type 'prompt', but only", 0),
        (_text(_one(type="wasm")), ":7: a hook of Stop has the type 'wasm', but only", 0),
        (_text({"Stop": [{"matchers": "", "hooks": []}]}), "did you mean matcher?", 0),
        (_text(_one(timeot=3)), "a hook of Stop has timeot, which has no effect here; did", 1),
        (_text(_one(**{"if": "Bash(rm *)"})), "if has no effect on a hook of Stop", 1),
        (_text(_one(**{"async": True})), "a hook of Stop has async", 1),
        (_text(_one(timeout="5")), ":9: the timeout of a hook of Stop must be seconds", 1),
        (_text(_one(timeout=0)), "using 60", 1),
        (_text(_one(timeout=True)), "not true; using 60", 1),
        (_text(_one(timeout=60000)), "using 3600", 1),
        (_text(_last(type="prompt")), "has the type 'prompt'", 0),
        (_text(_last(command=3)), "a hook of SessionEnd has no command", 0),
        (_text({"SessionEnd": 3}), "SessionEnd must be a list", 0),
        (
            _text({"SessionStart": [{"matcher": "(", "hooks": [{"command": "a"}]}]}),
            "not a regular",
            0,
        ),
    ],
)
def test_what_loses_no_check_is_a_warning_with_its_line(
    text: str, warning: str, count: int
) -> None:
    found = parse_hooks(text, PATH)

    (said,) = found.warnings
    assert said.startswith(f"{PATH}:")
    assert warning in said
    assert len(found.hooks) == count


def test_matcher_of_an_event_without_one_means_nothing() -> None:
    text = _text({"Stop": [{"matcher": "(", "hooks": [{"command": "a"}]}]})

    (hook,) = parse_hooks(text, PATH).hooks
    assert hook.is_about("Stop", "")


def test_line_for_bash_is_run_by_it() -> None:
    (hook,) = parse_hooks(_text(_one(shell="bash")), PATH).hooks

    assert hook.command == ("bash", "-c", "a")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"type": "prompt", "prompt": "ok?"}, "its type prompt cannot run here"),
        ({"type": "wasm", "module": "x"}, "its type wasm cannot run here"),
        ({"command": "x", "shell": "powershell"}, "it cannot run here"),
    ],
)
def test_check_that_cannot_run_is_one_that_fails(entry: dict[str, str], problem: str) -> None:
    text = _text({"PreToolUse": [{"matcher": "Bash", "hooks": [entry]}]})
    found = parse_hooks(text, PATH)

    assert [hook.problem for hook in found.hooks] == [problem]
    assert "you are asked about the calls that it would check" in found.warnings[0]


def test_hook_that_posts_gets_only_the_variables_it_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", "t1")
    monkeypatch.setenv("OTHER", "o1")
    entry = {
        "type": "http",
        "url": "https://hooks.example:8443/x?y=1",
        "headers": {"Authorization": "Bearer $TOKEN", "X": "${OTHER}"},
        "allowedEnvVars": ["TOKEN"],
    }
    (hook,) = parse_hooks(_text({"Stop": [{"hooks": [entry]}]}), PATH).hooks

    assert hook.url == entry["url"]
    assert hook.headers == (("Authorization", "Bearer t1"), ("X", ""))


@pytest.mark.parametrize(("written", "kept"), [("Bash(git *)", True), ("Nonsense(", False)])
def test_condition_without_a_meaning_holds_for_all(written: str, kept: bool) -> None:
    entry = {"command": "a", "if": written}
    found = parse_hooks(_text({"PreToolUse": [{"hooks": [entry]}]}), PATH)

    assert [hook.condition for hook in found.hooks] == [written if kept else ""]
    assert bool(found.warnings) is not kept


def test_settings_of_another_agent_have_hooks_among_other_keys() -> None:
    text = '{"model": "x", /* old */ "hooks": {"Stop": [{"hooks": [{"command": "a"}]}]},}'
    found = parse_hooks(text, PATH, is_settings=True)

    assert [hook.command for hook in found.hooks] == ["a"]
    assert found.warnings == ()
