import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest

from agentcli.permissions.hook_answer import HookResult
from agentcli.permissions.hook_events import HookEvent
from agentcli.permissions.hooks import Hook, HookContext, HookRunner, HookVerdict
from agentcli.types.errors import SettingsError
from agentcli.types.messages import Json, Text
from agentcli.types.tools import Command, Output, PreparedCall
from agentcli.types.verdicts import Reaction
from tests.unit.permissions.court import prepare

PATH = {"PATH": "/usr/bin:/bin"}


def _python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import json, os, sys, time; {code}")


def _hook(
    code: str, *, event: HookEvent = "PreToolUse", matcher: str = "", timeout_s: float = 20
) -> Hook:
    return Hook(event=event, command=_python(code), matcher=matcher, timeout_s=timeout_s)


def _hooks(tmp_path: Path, *hooks: Hook, told: list[HookResult] | None = None) -> HookRunner:
    tell = told.append if told is not None else lambda result: None
    ground = HookContext(session_id="s1", cwd=tmp_path, env=PATH, mode=lambda: "ask")
    return HookRunner(hooks, ground, emit=tell)


def _before(tmp_path: Path, *hooks: Hook) -> HookVerdict:
    return asyncio.run(_hooks(tmp_path, *hooks).run_before(prepare(command="ls")))


def _after(hooks: HookRunner, call: PreparedCall, output: Output) -> list[Reaction | None]:
    async def react() -> list[Reaction | None]:
        return [await step(call, output) for step in hooks.build_after()]

    return asyncio.run(react())


def test_hook_is_told_the_call_on_standard_input(tmp_path: Path) -> None:
    hook = _hook("open('told', 'w').write(sys.stdin.read())")

    assert _before(tmp_path, hook) == HookVerdict()
    assert json.loads((tmp_path / "told").read_text()) == {
        "session_id": "s1",
        "transcript_path": "",
        "cwd": str(tmp_path),
        "permission_mode": "default",
        "agentcli_mode": "ask",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "call_id": "c1",
        "agentcli_tool": "bash",
        "agentcli_input": {"command": "ls"},
    }


def test_hook_after_a_call_is_told_the_response(tmp_path: Path) -> None:
    told: list[HookResult] = []
    hook = _hook(
        "r = json.load(sys.stdin)['tool_response']; sys.stderr.write(json.dumps(r)); sys.exit(2)",
        event="PostToolUse",
    )
    output = Output.of("said", details=Command(command="ls", cwd="/", exit_code=3))

    (reaction,) = _after(_hooks(tmp_path, hook, told=told), prepare(command="ls"), output)

    assert reaction is not None
    assert reaction.decision == "rejected"
    assert json.loads(reaction.reason) == {
        "content": "said",
        "is_error": False,
        "success": True,
        "stdout": "said",
        "stderr": "",
        "exit_code": 3,
        "interrupted": False,
    }
    assert [(one.decision, one.call_id) for one in told] == [("deny", "c1")]


@pytest.mark.parametrize(
    ("answer", "decision", "content"),
    [
        ({}, "observed", ["said"]),
        ({"updatedToolOutput": "other"}, "transformed", ["other"]),
        ({"updatedToolOutput": {"content": "other"}}, "transformed", ["other"]),
        ({"updatedMCPToolOutput": "other"}, "transformed", ["other"]),
        ({"additionalContext": "known"}, "transformed", ["said", "[hook: known]"]),
        ({"decision": "block", "reason": "no"}, "rejected", ["said"]),
        ({"continue": False, "stopReason": "no"}, "rejected", ["said"]),
    ],
)
def test_hook_after_a_call_may_transform_or_reject(
    answer: dict[str, Json], decision: str, content: list[str], tmp_path: Path
) -> None:
    hook = _hook(f"print({json.dumps({'hookSpecificOutput': answer})!r})", event="PostToolUse")
    output = Output.of("said")

    (reaction,) = _after(_hooks(tmp_path, hook), prepare(), output)

    assert reaction is not None
    texts = [one.text for one in (reaction.output or output).content if isinstance(one, Text)]
    assert (reaction.decision, texts) == (decision, content)


@pytest.mark.parametrize(
    ("code", "decision"),
    [
        ("sys.exit(1)", "failed"),
        ("print('{')", "rejected"),
        ("print('x' * 2000000)", "rejected"),
        ("time.sleep(60)", "rejected"),
    ],
)
def test_result_that_a_broken_hook_could_not_look_at_is_withheld(
    code: str, decision: str, tmp_path: Path
) -> None:
    hook = _hook(code, event="PostToolUse", timeout_s=1 if "sleep" in code else 60)

    (reaction,) = _after(_hooks(tmp_path, hook), prepare(), Output.of("said"))

    assert reaction is not None
    assert (reaction.decision, reaction.output) == (decision, None)


def test_hook_after_a_call_looks_only_at_tools_it_means(tmp_path: Path) -> None:
    hook = _hook("sys.exit(2)", event="PostToolUse", matcher="grep")

    assert _after(_hooks(tmp_path, hook), prepare(), Output.of("said")) == [None]


def test_hook_may_be_a_shell_line(tmp_path: Path) -> None:
    hook = Hook(event="PreToolUse", command="cat >/dev/null; echo no >&2; exit 2")

    said = _before(tmp_path, hook)

    assert (said.decision, said.reason) == ("deny", "no")


@pytest.mark.parametrize(
    ("answer", "decision", "reason"),
    [
        ({"decision": "deny", "reason": "why"}, "deny", "why"),
        ({"decision": "block", "reason": "why"}, "deny", "why"),
        ({"decision": "approve"}, "allow", ""),
        ({"decision": "allow"}, "allow", ""),
        ({"decision": "ask", "reason": "hm"}, "ask", "hm"),
        (
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "why",
                }
            },
            "deny",
            "why",
        ),
        ({}, "none", ""),
    ],
)
def test_answers_in_json_are_understood(
    answer: dict[str, str], decision: str, reason: str, tmp_path: Path
) -> None:
    said = _before(tmp_path, _hook(f"print({json.dumps(answer)!r})"))

    assert (said.decision, said.reason) == (decision, reason)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("sys.exit(1)", "the hook ended with exit code 1"),
        ("sys.exit('oops')", "the hook ended with exit code 1 oops"),
        ("os.kill(os.getpid(), 9)", "the hook ended with exit code -9"),
        ("print('{')", "the hook printed an object that is not JSON"),
        (
            """print('{"updatedInput": {"limit": 1e400}}')""",
            "the hook printed an object that is not JSON (the number 1e400 is too large)",
        ),
        ("print(json.dumps({'decision': 'maybe'}))", "'maybe', which is not allow, ask or deny"),
        ("print(json.dumps({'decision': ['allow']}))", "which is not allow, ask or deny"),
        ("print(json.dumps({'updatedInput': 'x'}))", "updatedInput that is not an object"),
        ("print(json.dumps({'hookSpecificOutput': 'x'}))", "is not an object"),
        ("print('x' * 2000000)", "printed more than 1000000 bytes"),
    ],
)
def test_hook_that_fails_says_how(code: str, reason: str, tmp_path: Path) -> None:
    told: list[HookResult] = []
    hooks = _hooks(tmp_path, _hook(code), told=told)

    said = asyncio.run(hooks.run_before(prepare()))

    assert said.decision == told[0].decision == "failed"
    assert reason in said.reason


def test_hook_that_cannot_start_has_failed(tmp_path: Path) -> None:
    said = _before(tmp_path, Hook(event="PreToolUse", command=("/nothing/here",)))

    assert (said.decision, "could not be started" in said.reason) == ("failed", True)


def test_hook_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    line = "sleep 60 & echo $$ $! > pids; sleep 60"
    began = time.monotonic()

    said = _before(tmp_path, Hook(event="PreToolUse", command=line, timeout_s=4))

    assert said.decision == "failed"
    assert said.reason == "the hook did not end within 4 s and was killed"
    assert time.monotonic() - began < 30
    for pid in (tmp_path / "pids").read_text().split():
        _wait_until_gone(int(pid))


def test_cancelled_hook_is_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    hook = _hook("open('fifo', 'w').write(str(os.getpid())); time.sleep(60)")

    async def cancel() -> int:
        running = asyncio.create_task(_hooks(tmp_path, hook).run_before(prepare()))
        pid = await asyncio.to_thread(fifo.read_text)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return int(pid)

    _wait_until_gone(asyncio.run(cancel()))


def _wait_until_gone(pid: int) -> None:
    """Gone, or dead and not yet buried by whoever adopted it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def test_nobody_waits_for_a_grandchild_that_keeps_the_streams(tmp_path: Path) -> None:
    hook = Hook(event="PreToolUse", command='sleep 30 & echo \'{"decision": "allow"}\'')
    began = time.monotonic()

    said = _before(tmp_path, hook)

    assert (said.decision, time.monotonic() - began < 20) == ("allow", True)


def test_hook_that_reads_nothing_of_a_large_input_blocks_nothing(tmp_path: Path) -> None:
    hooks = _hooks(tmp_path, _hook("pass"))

    assert asyncio.run(hooks.run_before(prepare(command="x" * 3_000_000))) == HookVerdict()


def test_each_hook_sees_what_the_one_before_made_of_the_arguments(tmp_path: Path) -> None:
    add = "c = json.load(sys.stdin)['tool_input']['command'];"
    change = f"{add} print(json.dumps({{'updatedInput': {{'command': c + '!'}}}}))"

    said = _before(tmp_path, _hook(change), _hook(change))

    assert (said.decision, said.input) == ("none", {"command": "ls!!"})


def test_strictest_hook_decides_and_a_denial_ends_it(tmp_path: Path) -> None:
    allow = _hook("print(json.dumps({'decision': 'allow'}))")
    ask = _hook("print(json.dumps({'decision': 'ask'}))")
    deny = _hook("sys.exit(2)")
    mark = _hook("open('ran', 'w')")

    assert _before(tmp_path, allow, ask).decision == "ask"
    assert _before(tmp_path, ask, allow).decision == "ask"
    assert _before(tmp_path, allow, deny, mark).decision == "deny"
    assert not (tmp_path / "ran").exists()


def test_hook_of_a_project_can_refuse_but_not_allow(tmp_path: Path) -> None:
    allow = Hook(event="PreToolUse", command="""echo '{"decision": "allow"}'""", project=tmp_path)
    deny = Hook(event="PreToolUse", command="exit 2", project=tmp_path)

    assert _before(tmp_path, allow).decision == "none"
    assert _before(tmp_path, allow, deny).decision == "deny"


def test_matcher_of_words_is_about_whole_tool_names(tmp_path: Path) -> None:
    deny = _hook("sys.exit(2)", matcher="edit_file|write_file")
    hooks = _hooks(tmp_path, deny)

    def decision(tool: str) -> str:
        return asyncio.run(hooks.run_before(prepare(tool))).decision

    assert [decision(tool) for tool in ("edit_file", "write_file", "edit_files", "bash")] == [
        *["deny", "deny"],
        *["none", "none"],
    ]


@pytest.mark.parametrize(
    ("matcher", "tool", "given", "told_name", "told"),
    [
        ("Bash", "bash", {"command": "ls"}, "Bash", {"command": "ls"}),
        ("bash", "bash", {"command": "ls"}, "bash", {"command": "ls"}),
        ("Edit|Write", "write_file", {"path": "a"}, "Write", {"file_path": "/w/a"}),
        (
            "Edit",
            "edit_file",
            {"path": "/w/a", "old_text": "x", "new_text": "y"},
            "Edit",
            {"file_path": "/w/a", "old_string": "x", "new_string": "y"},
        ),
        (
            "MultiEdit",
            "edit_file",
            {"path": "a", "old_text": "x", "new_text": "y"},
            "MultiEdit",
            {"file_path": "/w/a", "edits": [{"old_string": "x", "new_string": "y"}]},
        ),
        ("Read", "read_file", {"path": "b/../a"}, "Read", {"file_path": "/w/a"}),
        ("Glob", "find_files", {"glob": "*.py"}, "Glob", {"pattern": "*.py"}),
        (
            "Grep",
            "grep",
            {"pattern": "x", "path": "src", "mode": "files"},
            "Grep",
            {"pattern": "x", "path": "/w/src", "output_mode": "files_with_matches"},
        ),
        ("Task", "delegate", {"task": "x"}, "Task", {"prompt": "x"}),
        ("Agent", "delegate", {"task": "x"}, "Agent", {"prompt": "x"}),
        ("Bash|bash", "bash", {"command": "ls"}, "Bash", {"command": "ls"}),
        ("*", "read_file", {"path": "a"}, "Read", {"file_path": "/w/a"}),
        (".*", "read_file", {"path": "a"}, "Read", {"file_path": "/w/a"}),
        ("^read", "read_file", {"path": "a"}, "read_file", {"path": "a"}),
        ("read_file, Grep", "read_file", {"path": "a"}, "read_file", {"path": "a"}),
        ("", "run_program", {"program": "x"}, "run_program", {"program": "x"}),
    ],
)
def test_hook_is_told_in_the_words_of_its_matcher(
    matcher: str,
    tool: str,
    given: dict[str, Json],
    told_name: str,
    told: dict[str, Json],
    tmp_path: Path,
) -> None:
    code = (
        "t = json.load(sys.stdin);"
        " sys.exit(json.dumps([t['tool_name'], t['tool_input']]).replace(os.getcwd(), '/w'))"
    )
    given = {key: str(value).replace("/w", str(tmp_path)) for key, value in given.items()}
    hooks = _hooks(tmp_path.resolve(), _hook(code, matcher=matcher))

    said = asyncio.run(hooks.run_before(prepare(tool, **given)))

    assert json.loads(said.reason.partition("code 1 ")[2]) == [told_name, told]


def test_changes_of_a_hook_with_other_words_come_back_in_ours(tmp_path: Path) -> None:
    code = (
        "i = json.load(sys.stdin)['tool_input']; i['new_string'] = 'z';"
        " print(json.dumps({'updatedInput': i}))"
    )
    hooks = _hooks(tmp_path, _hook(code, matcher="Edit"))

    said = asyncio.run(hooks.run_before(prepare("edit_file", path="a", old_text="x", new_text="y")))

    assert said.input == {"path": "a", "old_text": "x", "new_text": "z"}


def test_patch_is_shown_to_a_hook_for_edits_file_by_file(tmp_path: Path) -> None:
    code = "p = json.load(sys.stdin)['tool_input']['file_path']; sys.exit(2 * p.endswith('/b'))"
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: b\n+x\n*** End Patch"
    hooks = _hooks(tmp_path, _hook(code, matcher="Write"))

    def decision(text: str) -> str:
        return asyncio.run(hooks.run_before(prepare("apply_patch", patch=text))).decision

    assert decision(patch) == "deny"
    assert decision(patch.replace("b\n", "c\n")) == "none"


def test_hook_that_may_not_run_any_more_has_failed(tmp_path: Path) -> None:
    ground = HookContext(session_id="s", cwd=tmp_path, env=PATH, why_not=lambda hook: "it changed")
    mark = _hook("open('ran', 'w')")

    said = asyncio.run(HookRunner([mark], ground).run_before(prepare()))

    assert (said.decision, said.reason) == ("failed", "the hook was not run: it changed")
    assert not (tmp_path / "ran").exists()


def test_words_of_a_hook_are_bounded_and_without_control_sequences(tmp_path: Path) -> None:
    hook = _hook("sys.stderr.write('\\x1b]0;title\\x07no ' + 'x' * 9000); sys.exit(2)")

    said = _before(tmp_path, hook)

    assert said.reason.startswith("no xxx")
    assert len(said.reason) < 5000


def test_other_events_run_their_own_hooks_with_their_details(tmp_path: Path) -> None:
    told = _hook("print(json.load(sys.stdin)['prompt'])", event="UserPromptSubmit")
    hooks = _hooks(tmp_path, told, _hook("sys.exit(2)"))

    results = asyncio.run(hooks.run_event("UserPromptSubmit", prompt="hello"))

    assert [(one.decision, one.context) for one in results] == [("none", "hello")]
    assert asyncio.run(hooks.run_event("SessionStart")) == []


def test_hook_gets_only_the_environment_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "x")
    hook = Hook(event="SessionStart", command="echo [$SOME_TOKEN]")

    results = asyncio.run(_hooks(tmp_path, hook).run_event("SessionStart"))

    assert results[0].context == "[]"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"event": "Whenever", "command": "x"}, "unknown hook event"),
        ({"event": "PreToolUse", "command": ""}, "needs a command"),
        ({"event": "PreToolUse", "command": "x", "timeout_s": 0}, "positive time limit"),
        ({"event": "PreToolUse", "command": "x", "matcher": "("}, "not a regular expression"),
    ],
)
def test_hook_that_means_nothing_is_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Hook(**fields)  # type: ignore[arg-type]


def test_hooks_of_an_event_run_at_the_same_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    hooks = _hooks(
        tmp_path,
        _hook("open('pipe').read()", event="Stop"),
        _hook("open('pipe', 'w').write('x')", event="Stop"),
    )

    results = asyncio.run(hooks.run_event("Stop"))

    assert [one.decision for one in results] == ["none", "none"]


@pytest.mark.parametrize(
    ("answer", "decision", "reason"),
    [
        ({"decision": {"behavior": "allow"}}, "allow", ""),
        ({"decision": {"behavior": "deny", "message": "no"}}, "deny", "no"),
        ({"decision": {"behavior": "allow", "updatedInput": {}}}, "failed", "the hook allowed"),
        ({}, "none", ""),
    ],
)
def test_request_for_permission_is_answered_by_a_behavior(
    answer: Json, decision: str, reason: str, tmp_path: Path
) -> None:
    said = json.dumps({"hookSpecificOutput": answer})
    hook = _hook(f"print({said!r})", event="PermissionRequest", matcher="Bash")
    hooks = _hooks(tmp_path, hook)

    found = asyncio.run(hooks.run_permission_request(prepare(command="ls")))

    assert found.decision == decision
    assert found.reason.startswith(reason)


def test_hook_with_a_problem_fails(tmp_path: Path) -> None:
    found = _before(tmp_path, Hook(event="PreToolUse", problem="its type prompt cannot run here"))

    assert found.decision == "failed"
    assert found.reason == "the hook was not run: its type prompt cannot run here"
