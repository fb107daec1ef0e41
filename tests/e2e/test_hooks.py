import json
import os
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentcli.agent.children import CHILD_INSTRUCTIONS
from agentcli.log.reader import read_log
from agentcli.types.events import CallFinished, CallJudged, ContextNote, HookRan, TurnEnded, Warned
from tests.support import anthropic_streams as anthropic
from tests.support.processes import running, unique_seconds
from tests.support.program import (
    Ran,
    agentcli,
    environment,
    script,
    session_log,
    write_fork_command,
)
from tests.support.provider import Provider, Recorded, Reply
from tests.support.repl import live, runs, says
from tests.support.serving import serve

KEY = "sk-ant-api03-0123456789abcdef0123456789"


@pytest.fixture
def home(home: Path) -> Path:
    (home / ".config/agentcli").mkdir(parents=True)
    return home


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\ntwo\n")
    return workspace


def hook(home: Path, event: str, code: str, *, matcher: str = "", **more: Any) -> None:
    """Adds a shell script to the person's own hooks."""
    file = home / ".config/agentcli/hooks.json"
    document = json.loads(file.read_text()) if file.exists() else {"hooks": {}}
    groups = document["hooks"].setdefault(event, [])
    program = home / f"hook-{event}-{len(groups)}.sh"
    program.write_text(f"#!/bin/sh\n{code}\n")
    program.chmod(0o755)
    entry = {"type": "command", "command": str(program), **more}
    groups.append({"matcher": matcher, "hooks": [entry]})
    file.write_text(json.dumps(document, indent=2))


def run(home: Path, workspace: Path, *calls: Any, replies: int = 1, **env: str) -> Ran:
    steps = [{"calls": list(calls)}] if calls else []
    model = script(home / "s.json", [*steps, *(f"Done {n}." for n in range(1, replies + 1))])
    return agentcli(
        *("run", "-C", workspace, "--mode", "auto", "--model", model, "the prompt"),
        home=home,
        env=env,
    )


def facts(home: Path) -> list[Any]:
    return [entry.fact for entry in read_log(session_log(home)).entries]


def of(home: Path, kind: type[Any]) -> list[Any]:
    return [fact for fact in facts(home) if isinstance(fact, kind)]


WRITE = {"write_file": {"path": "new.txt", "content": "x"}}


def test_hook_refuses_a_call_with_its_reason(home: Path, workspace: Path) -> None:
    hook(home, "PreToolUse", "echo 'not today' >&2; exit 2", matcher="Write|Edit")
    ran = run(home, workspace, WRITE, {"read_file": {"path": "a.txt"}})
    assert (ran.code, ran.out) == (0, "Done 1.\n")
    assert not (workspace / "new.txt").exists()
    judged = [(one.call.name, one.verdict.decision, one.verdict.by) for one in of(home, CallJudged)]
    assert judged == [("write_file", "deny", "hook"), ("read_file", "allow", "mode")]
    (hook_ran,) = of(home, HookRan)
    assert (hook_ran.event, hook_ran.decision, hook_ran.reason) == (
        "PreToolUse",
        "rejected",
        "not today",
    )
    assert "not today" in of(home, CallFinished)[0].result.text


def test_hook_rewrites_a_call_and_the_model_is_told(home: Path, workspace: Path) -> None:
    code = """python3 -c '
import json, sys
told = json.load(sys.stdin)
told["tool_input"]["content"] = "safe"
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",
    "permissionDecision": "allow", "updatedInput": told["tool_input"]}}))'"""
    hook(home, "PreToolUse", code, matcher="Write")
    ran = run(home, workspace, WRITE)
    assert (ran.code, (workspace / "new.txt").read_text()) == (0, "safe")
    (judged,) = of(home, CallJudged)
    assert judged.verdict.decision == "modify"
    assert judged.call.input == {"path": "new.txt", "content": "safe"}
    assert of(home, CallFinished)[0].result.text.startswith("[The input was changed before it ran")


def test_rewritten_call_meets_the_rules_again(home: Path, workspace: Path) -> None:
    changed = '{"updatedInput": {"command": "git push"}}'
    hook(home, "PreToolUse", f"echo '{changed}'", matcher="bash")
    (home / ".config/agentcli/rules.toml").write_text(
        '[[rule]]\ndecision = "deny"\nrule = "bash(git push:*)"\n'
    )
    run(home, workspace, {"bash": {"command": "touch made"}})
    assert [one.verdict.decision for one in of(home, CallJudged)] == ["deny"]
    assert not (workspace / "made").exists()


def test_hook_cannot_lift_a_deny(home: Path, workspace: Path) -> None:
    hook(home, "PreToolUse", """echo '{"decision": "approve"}'""")
    (home / ".config/agentcli/rules.toml").write_text(
        '[[rule]]\ndecision = "deny"\nrule = "edit"\n'
    )
    run(home, workspace, WRITE)
    (judged,) = of(home, CallJudged)
    assert (judged.verdict.decision, judged.verdict.by) == ("deny", "rule")
    assert not (workspace / "new.txt").exists()


BROKEN = {
    "fails": "exit 1",
    "garbage": "echo '{\"decision\": '",
    "nonsense": """echo '{"permissionDecision": "maybe"}'""",
    "flood": "head -c 100000000 /dev/zero",
    "endless": "exec yes",
    "hangs": "sleep 600",
    "killed": "kill -9 $$",
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_hook_before_a_call_is_seen_and_the_call_does_not_run(
    case: str, home: Path, workspace: Path
) -> None:
    hook(home, "PreToolUse", BROKEN[case], matcher="*", timeout=1)
    ran = run(home, workspace, WRITE)
    assert ran.code == 5
    assert not (workspace / "new.txt").exists()
    assert [one.decision for one in of(home, HookRan)] == ["failed"]
    assert [one.code for one in of(home, Warned)] == ["hook.failed"]
    assert "warning: PreToolUse hook" in ran.err


@pytest.mark.parametrize("case", ["garbage", "flood", "hangs"])
def test_result_is_withheld_when_the_hook_after_it_breaks(
    case: str, home: Path, workspace: Path
) -> None:
    hook(home, "PostToolUse", BROKEN[case], matcher="*", timeout=1)
    ran = run(home, workspace, {"read_file": {"path": "a.txt"}})
    assert ran.code == 0
    (finished,) = of(home, CallFinished)
    assert "two" not in finished.result.text
    assert "warning: PostToolUse hook" in ran.err


def test_hook_after_a_call_sees_and_changes_the_result(home: Path, workspace: Path) -> None:
    code = """python3 -c '
import json, sys
said = json.load(sys.stdin)["tool_response"]["content"]
changed = {"updatedToolOutput": said.replace("two", "zwei"), "systemMessage": "translated"}
print(json.dumps(changed))'"""
    hook(home, "PostToolUse", code, matcher="Read")
    hook(home, "PostToolUse", "exit 2", matcher="Bash")
    ran = run(home, workspace, {"read_file": {"path": "a.txt"}})
    (finished,) = of(home, CallFinished)
    assert "zwei" in finished.result.text
    assert [(one.event, one.decision) for one in of(home, HookRan)] == [
        ("PostToolUse", "transformed")
    ]
    assert ": translated" in ran.err


def test_hooks_at_the_borders_of_session_and_turn(home: Path, workspace: Path) -> None:
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        hook(home, event, f"cat > {home}/{event}.json")
    hook(home, "SessionStart", "echo the branch is main")
    hook(home, "UserPromptSubmit", """echo '{"additionalContext": "it is friday"}'""")
    ran = run(home, workspace)
    assert (ran.code, ran.out) == (0, "Done 1.\n")
    told = {
        event: json.loads((home / f"{event}.json").read_text())
        for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    }
    assert {event: one["hook_event_name"] for event, one in told.items()} == {
        event: event for event in told
    }
    assert told["SessionStart"]["source"] == "startup"
    assert told["UserPromptSubmit"]["prompt"] == "the prompt"
    assert told["Stop"]["stop_hook_active"] is False
    assert told["SessionEnd"]["cwd"] == str(workspace)
    assert told["SessionEnd"]["transcript_path"] == str(session_log(home))
    by_hooks = [one.text for one in of(home, ContextNote) if one.why == "hook"]
    assert by_hooks == ["the branch is main", "it is friday"]


def test_prompt_that_a_hook_refuses_is_never_sent(home: Path, workspace: Path) -> None:
    hook(home, "UserPromptSubmit", "echo 'no secrets here' >&2; exit 2")
    ran = run(home, workspace)
    assert (ran.code, ran.out) == (5, "")
    assert "the prompt was rejected by hook" in ran.err
    assert "no secrets here" in ran.err
    assert [fact.type for fact in facts(home)] == [
        *("session_started", "hook_ran", "turn_ended", "session_ended")
    ]


@pytest.mark.parametrize(("case", "code"), [("fails", 0), ("hangs", 5), ("garbage", 5)])
def test_prompt_that_a_broken_hook_could_not_look_at_is_not_sent(
    case: str, code: int, home: Path, workspace: Path
) -> None:
    hook(home, "UserPromptSubmit", BROKEN[case], timeout=1 if case == "hangs" else 60)
    ran = run(home, workspace)
    assert ran.code == code
    assert "warning: UserPromptSubmit hook" in ran.err


def test_hook_at_the_end_sends_the_model_back_to_work(home: Path, workspace: Path) -> None:
    hook(home, "Stop", f"[ -e {home}/once ] || {{ touch {home}/once; echo test it >&2; exit 2; }}")
    ran = run(home, workspace, replies=2)
    assert (ran.code, ran.out) == (0, "Done 2.\n")
    assert [one.text for one in of(home, ContextNote) if one.why == "hook"] == ["test it"]


def test_hook_that_never_lets_the_model_stop_is_overruled(home: Path, workspace: Path) -> None:
    hook(home, "Stop", "echo again >&2; exit 2")
    ran = run(home, workspace, replies=20)
    assert (ran.code, ran.out) == (0, "Done 6.\n")
    assert [one.code for one in of(home, Warned)] == ["hook.stop"]
    assert of(home, TurnEnded)[0].ending == "done"


def test_hook_gets_no_keys_and_says_none(home: Path, workspace: Path) -> None:
    hook(home, "PreToolUse", f"env > {home}/env; echo {KEY} >&2; exit 2", matcher="bash")
    (home / ".config/agentcli/settings.toml").write_text(
        '[providers.own]\nprotocol = "openai-chat"\nbase_url = "http://x"\nkey_env = "OWN_LOGIN"\n'
    )
    ls = {"bash": {"command": "ls"}}
    ran = run(home, workspace, ls, ANTHROPIC_API_KEY=KEY, OWN_LOGIN=KEY, PLAIN="kept")
    given = (home / "env").read_text()
    assert "PLAIN=kept" in given
    assert f"AGENTCLI_PROJECT_DIR={workspace}" in given
    assert KEY not in given + ran.err + session_log(home).read_text()


def test_daemon_of_a_hook_holds_nothing_up(home: Path, workspace: Path) -> None:
    seconds = unique_seconds()
    hook(home, "PreToolUse", f"setsid sleep {seconds} &", matcher="bash")
    began = time.monotonic()
    ran = run(home, workspace, {"bash": {"command": "ls"}})
    assert (ran.code, time.monotonic() - began < 60) == (0, True)
    (daemon,) = running(seconds)
    os.kill(daemon, 9)


def test_all_that_a_hanging_hook_started_is_killed(home: Path, workspace: Path) -> None:
    seconds = unique_seconds()
    hook(
        *(home, "PreToolUse", f"setsid sleep {seconds} & sleep {seconds}"),
        matcher="bash",
        timeout=2,
    )
    assert run(home, workspace, {"bash": {"command": "ls"}}).code == 5
    assert running(seconds) == []


def test_interrupt_ends_a_hook(home: Path, workspace: Path) -> None:
    os.mkfifo(home / "ready")
    seconds = unique_seconds()
    hook(home, "PreToolUse", f"echo > {home}/ready; sleep {seconds}", matcher="bash")
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "ls"}}]}, "never"])
    with subprocess.Popen(
        [write_fork_command(), "run", "--mode", "auto", "--model", model, "x"],
        cwd=workspace,
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        (home / "ready").read_text()
        process.terminate()
        assert process.wait(timeout=30) == 143
    assert running(seconds) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hooks":', ":1 is not JSON"),
        ('{"hooks": {\n "PreToolUs": []}}', ":2: unknown hook event PreToolUs"),
        ('{"hooks": {"Stop": [{"hooks": [\n{"command": 3}]}]}}', "a hook of Stop has no command"),
    ],
)
def test_broken_hooks_file_is_two_lines_and_nothing_runs(
    text: str, message: str, home: Path, workspace: Path
) -> None:
    (home / ".config/agentcli/hooks.json").write_text(text)
    ran = run(home, workspace, WRITE)
    error, fix = ran.err.splitlines()
    assert (ran.code, ran.out) == (3, "")
    assert f"{home}/.config/agentcli/hooks.json" in error
    assert message in error
    assert fix.startswith("  fix: ")
    assert not (workspace / "new.txt").exists()


def test_files_that_a_call_changed_are_told_by_name(home: Path, workspace: Path) -> None:
    hook(home, "FileChanged", f"cat >> {home}/told", matcher="new.txt|other.txt")
    ran = run(home, workspace, WRITE, {"write_file": {"path": "b.txt", "content": "x"}})
    assert ran.code == 0
    told = json.loads((home / "told").read_text())
    assert (told["hook_event_name"], told["file_path"], told["change"]) == (
        "FileChanged",
        str(workspace / "new.txt"),
        "change",
    )


def test_failed_call_and_condition_choose_the_hooks_that_run(home: Path, workspace: Path) -> None:
    hook(home, "PostToolUseFailure", "echo 'Try ls first.' >&2; exit 2", matcher="Read")
    hook(home, "PreToolUse", "echo no >&2; exit 2", **{"if": "Bash(git push *)"})
    run(
        home,
        workspace,
        {"read_file": {"path": "missing.txt"}},
        {"read_file": {"path": "a.txt"}},
        {"bash": {"command": "git push origin main"}},
        {"bash": {"command": "ls"}},
    )
    status = {one.result.call_id: one.result.status for one in of(home, CallFinished)}
    called = [one.call.id for one in sorted(of(home, CallJudged), key=lambda one: one.call.id)]
    assert [status[call_id] for call_id in called] == ["error", "ok", "error", "ok"]
    assert [(one.event, one.decision) for one in of(home, HookRan)] == [
        ("PostToolUseFailure", "rejected"),
        ("PreToolUse", "rejected"),
    ]


class _Answers(BaseHTTPRequestHandler):
    told: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.told.append((self.path, self.headers["X-Key"], json.loads(self.rfile.read(length))))
        body = b'{"decision": "block", "reason": "the server says no"}'
        self.send_response(200 if self.path == "/check" else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_hook_can_be_an_address(home: Path, workspace: Path) -> None:
    with serve(ThreadingHTTPServer(("127.0.0.1", 0), _Answers)) as server:
        entries = [
            {
                "type": "http",
                "url": f"http://127.0.0.1:{server.server_port}/{path}",
                "headers": {"X-Key": "$MY_VARIABLE"},
                "allowedEnvVars": ["MY_VARIABLE"],
            }
            for path in ("broken", "check")
        ]
        document = {"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": entries}]}}
        (home / ".config/agentcli/hooks.json").write_text(json.dumps(document))
        run(home, workspace, WRITE, MY_VARIABLE="v1")
    assert not (workspace / "new.txt").exists()
    (_, (path, key, told)) = _Answers.told
    assert (path, key, told["tool_name"]) == ("/check", "v1", "Write")
    assert [(one.decision, one.reason) for one in of(home, HookRan)] == [
        ("failed", "the hook ended with exit code 1 HTTP 500 Internal Server Error"),
        ("rejected", "the server says no"),
    ]


def delegating(home: Path, workspace: Path, *child: str) -> Ran:
    """A run whose model delegates once. The child gives these replies."""
    left = list(child)
    parent = [
        anthropic.calls(anthropic.call("toolu_1", "delegate", {"task": "look"})),
        anthropic.says("Done."),
    ]

    def reply(request: Recorded) -> Reply:
        is_childs = CHILD_INSTRUCTIONS in str(request.json["messages"])
        return anthropic.says(left.pop(0)) if is_childs else parent.pop(0)

    with Provider([reply] * 9) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}
        return agentcli("run", "-C", workspace, "--model", "opus", "go", home=home, env=env)


def test_hook_at_the_end_of_a_child_sends_it_back(home: Path, workspace: Path) -> None:
    said = 'said=$(cat); echo "$said" >> child.jsonl'
    done = 'case "$said" in *\'active": true\'*) exit 0;; esac'
    hook(home, "SubagentStop", f"{said}; {done}; echo look again >&2; exit 2")
    assert delegating(home, workspace, "Nothing.", "Found it.").code == 0
    (finished,) = of(home, CallFinished)
    assert "Found it." in finished.result.text
    told = [json.loads(line) for line in (workspace / "child.jsonl").read_text().splitlines()]
    assert [one["stop_hook_active"] for one in told] == [False, True]
    assert {one["agent_task"] for one in told} == {"look"}


def test_hook_before_a_summary_can_refuse_it(home: Path, workspace: Path, tmp_path: Path) -> None:
    hook(home, "PreCompact", "cat > compact.json; echo not now >&2; exit 2", matcher="manual")
    with live(tmp_path, [says("Hi."), says("A summary.")], env={"TERM": "dumb"}) as session:
        session.term.send("hello")
        session.term.wait("Hi.")
        session.term.send("/compact")
        session.term.wait("not now")
        assert len(session.model.bodies) == 1
        told = json.loads((session.project / "compact.json").read_text())
    assert (told["hook_event_name"], told["trigger"]) == ("PreCompact", "manual")


def test_hooks_learn_of_a_question_and_can_answer_it(home: Path, tmp_path: Path) -> None:
    hook(home, "Notification", "cat > part && mv part notified.json", matcher="permission_prompt")
    verdicts = (
        'case "$(cat)" in *"touch one"*) echo \'{"hookSpecificOutput": {"hookEventName": '
        '"PermissionRequest", "decision": {"behavior": "allow"}}}\';; esac'
    )
    hook(home, "PermissionRequest", verdicts, matcher="Bash")
    replies = [runs("touch one"), runs("touch two", "toolu_2"), says("Done.")]
    with live(tmp_path, replies, env={"TERM": "dumb"}) as session:
        session.term.send("go")
        session.term.wait("touch two")
        answered, asked = session.project / "one", session.project / "notified.json"
        session.term.wait_for(lambda: answered.exists() and asked.exists(), "the hooks ran")
        assert not (session.project / "two").exists()
        told = json.loads(asked.read_text())
    assert told["notification_type"] == "permission_prompt"
    assert "permission to use bash" in told["message"]


def test_hooks_of_an_event_run_at_the_same_time_and_as_programs(
    home: Path, workspace: Path
) -> None:
    # Each of the two waits for the other. The second is a program with words, without a shell.
    wait = "for n in $(seq 1 200); do [ -e {other} ] && exit 0; sleep 0.05; done; exit 9"
    hook(home, "SessionStart", f"touch a; {wait.format(other='b')}")
    hook(home, "SessionStart", f'touch "$1"; {wait.format(other="a")}', args=["b"])
    assert run(home, workspace).code == 0
    decisions = [one.decision for one in of(home, HookRan)]
    assert decisions == ["observed", "observed"]
