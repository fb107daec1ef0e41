import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.reader import read_log
from agentcli.types.events import CallFinished, ContextNote, HookRan, Warned
from agentcli.types.tools import ErrorKind
from tests.support.foreign_hooks import (
    BASH,
    BEFORE,
    EDIT,
    LIST,
    PYTHON,
    READ,
    REMOVE,
    WRITE,
    Call,
    ForeignHook,
)
from tests.support.mcp_links import SHELF
from tests.support.program import Ran, agentcli, script, session_log, write_script_command

pytestmark = pytest.mark.usefixtures("without_sandbox")


@pytest.fixture
def home(home: Path) -> Path:
    (home / ".config/agentcli").mkdir(parents=True)
    return home


def serve_shelf(home: Path) -> None:
    command, *args = write_script_command(SHELF)
    entry = {"command": command, "args": args, "sandbox": False, "reads": ["*"]}
    servers = {"mcpServers": {"shelf": entry}}
    (home / ".config/agentcli/mcp.json").write_text(json.dumps(servers))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "work"
    (workspace / "build").mkdir(parents=True)
    (workspace / "private").mkdir()
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / ".env").write_text("NAME=value\n")
    return workspace


def install(home: Path, program: str, *, event: str = "PreToolUse", **group: Any) -> Path:
    path = home / f"{event}-hook"
    path.write_text(program)
    path.chmod(0o755)
    groups = [{**group, "hooks": [{"type": "command", "command": str(path)}]}]
    file = home / ".config/agentcli/hooks.json"
    hooks = json.loads(file.read_text())["hooks"] if file.exists() else {}
    file.write_text(json.dumps({"hooks": {**hooks, event: groups}}))
    return path


def run(home: Path, workspace: Path, *calls: Call, replies: int = 1) -> Ran:
    steps = [{"calls": [call]} for call in calls]
    model = script(home / "s.json", [*steps, *(f"Done {n}." for n in range(1, replies + 1))])
    return agentcli(
        *("run", "-C", workspace, "--mode", "auto", "--allow", "mcp(shelf:*)"),
        *("--model", model, "the prompt"),
        home=home,
    )


def facts_of(home: Path, kind: type[Any]) -> list[Any]:
    return [one.fact for one in read_log(session_log(home)).entries if isinstance(one.fact, kind)]


@pytest.mark.parametrize("hook", BEFORE, ids=lambda hook: hook.name)
def test_public_hook_stops_what_it_must_and_nothing_else(
    hook: ForeignHook, home: Path, workspace: Path
) -> None:
    if missing := [program for program in hook.needs if not shutil.which(program)]:
        pytest.skip(f"needs {', '.join(missing)}")
    group = {} if hook.matcher is None else {"matcher": hook.matcher}
    install(home, hook.program, **group)
    reads = [READ] if any("edit_file" in call for call in (*hook.stops, *hook.passes)) else []
    calls = [*reads, *hook.passes, *hook.stops]  # a question that nobody answers is the end
    if any(name.startswith("shelf__") for call in calls for name in call):
        serve_shelf(home)

    ran = run(home, workspace, *calls)

    results = [fact.result for fact in facts_of(home, CallFinished)]
    stopped = [result.error is ErrorKind.DENIED for result in results]
    assert stopped == [call in hook.stops for call in calls], ran.err
    passed = [one for one, call in zip(results, calls, strict=True) if call not in hook.stops]
    assert [one.text for one in passed if one.status == "error"] == []
    assert [one.code for one in facts_of(home, Warned)] == ["sandbox.off"]


def test_formatter_gets_each_file_after_it_was_written(home: Path, workspace: Path) -> None:
    program = (
        PYTHON + 'path = data["tool_input"]["file_path"]\n'
        'assert data["tool_response"]["filePath"] == path and data["tool_response"]["success"]\n'
        "text = open(path).read()\nopen(path, 'w').write(text.upper())\n"
    )
    install(home, program, event="PostToolUse", matcher="Edit|MultiEdit|Write")
    run(home, workspace, WRITE, READ, EDIT)
    assert (workspace / "new.txt").read_text() == "X"
    assert (workspace / "a.txt").read_text() == "1\nTWO\n"
    assert [one.decision for one in facts_of(home, HookRan)] == ["observed", "observed"]


def test_linter_after_an_edit_tells_the_model(home: Path, workspace: Path) -> None:
    program = PYTHON + 'print("line 1: bad", file=sys.stderr)\nsys.exit(2)\n'
    install(home, program, event="PostToolUse", matcher="Write")
    run(home, workspace, WRITE)
    (finished,) = facts_of(home, CallFinished)
    assert "line 1: bad" in finished.result.text


def test_logger_of_commands_sees_what_was_printed(home: Path, workspace: Path) -> None:
    program = (
        PYTHON + f'open("{home}/log", "a").write(data["tool_name"] + data["tool_input"]["command"]'
        ' + data["tool_response"]["stdout"] + str(data["tool_response"]["interrupted"]))\n'
    )
    install(home, program, event="PostToolUse", matcher="Bash")
    run(home, workspace, {"bash": {"command": "echo hi"}}, READ)
    logged = (home / "log").read_text()
    assert logged.startswith("Bashecho hihi")
    assert logged.endswith("False")


def test_prompt_logger_and_context(home: Path, workspace: Path) -> None:
    program = (
        PYTHON + f'open("{home}/log", "a").write(data["prompt"])\n'
        'print(json.dumps({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit",'
        ' "additionalContext": "it is friday"}}))\n'
    )
    install(home, program, event="UserPromptSubmit", matcher="*")
    assert run(home, workspace).code == 0
    assert (home / "log").read_text() == "the prompt"
    assert [one.text for one in facts_of(home, ContextNote) if one.why == "hook"] == [
        "it is friday"
    ]


def test_prompt_blocker_in_json(home: Path, workspace: Path) -> None:
    program = (
        PYTHON + 'print(json.dumps({"decision": "block", "reason": "says " + data["prompt"]}))'
    )
    install(home, program, event="UserPromptSubmit")
    ran = run(home, workspace)
    assert (ran.code, ran.out) == (5, "")
    assert "says the prompt" in ran.err


def test_stop_hook_sends_back_once(home: Path, workspace: Path) -> None:
    program = (
        PYTHON + 'if data["stop_hook_active"]:\n    sys.exit(0)\n'
        'print(json.dumps({"decision": "block", "reason": "run the tests"}))\n'
    )
    install(home, program, event="Stop", matcher="")
    ran = run(home, workspace, replies=2)
    assert (ran.code, ran.out) == (0, "Done 2.\n")
    assert [one.text for one in facts_of(home, ContextNote) if one.why == "hook"] == [
        "run the tests"
    ]


def test_stop_hook_that_says_not_to_continue_lets_it_stop(home: Path, workspace: Path) -> None:
    program = PYTHON + 'print(json.dumps({"decision": "block", "reason": "x", "continue": False}))'
    install(home, program, event="Stop")
    assert run(home, workspace).out == "Done 1.\n"


def test_session_hooks_by_their_matchers(home: Path, workspace: Path) -> None:
    install(home, BASH + f"touch {home}/began\n", event="SessionStart", matcher="startup|clear")
    install(home, BASH + f"touch {home}/ended\n", event="SessionEnd", matcher="prompt_input_exit")
    assert run(home, workspace).code == 0
    assert ((home / "began").exists(), (home / "ended").exists()) == (True, True)


def test_rewriter_hands_back_what_it_was_given_names_for(home: Path, workspace: Path) -> None:
    program = (
        PYTHON + 'given = dict(data["tool_input"], description="safer")\n'
        'if data["tool_name"] == "Bash":\n'
        '    given["command"] = given["command"].replace("rm -rf", "echo")\n'
        '    given["timeout"] = 5000\n'
        'else:\n    given = {"file_path": given["file_path"], "content": "safe"}\n'
        'print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",'
        ' "permissionDecision": "allow", "updatedInput": given}}))\n'
    )
    install(home, program, matcher="Bash|Write")
    run(home, workspace, REMOVE, WRITE)
    assert (workspace / "build").exists()
    assert (workspace / "new.txt").read_text() == "safe"
    bash = facts_of(home, CallFinished)[0].result
    assert '{"command": "echo build", "timeout": 5}' in bash.text


def test_what_is_not_known_here_is_warned_of_and_the_rest_works(
    home: Path, workspace: Path
) -> None:
    def command(line: str, **more: Any) -> list[Any]:
        return [{"hooks": [{"type": "command", "command": line, **more}]}]

    hooks = {
        "Notification": command("true"),
        "TeammateIdle": command("true"),
        "SubagentStop": command("true", once=True),
        "PreToolUse": [
            {"matcher": "WebFetch|WebSearch", **command("exit 2")[0]},
            {"matcher": "mcp__github", **command("exit 2")[0]},
            {"matcher": "mcp__github__.*", **command("exit 2")[0]},
            {"matcher": "Bash", **command("echo no >&2; exit 2", statusMessage="x", once=True)[0]},
        ],
    }
    document = {"permissions": {"allow": []}, "hooks": hooks}
    (home / ".config/agentcli/hooks.json").write_text(json.dumps(document))
    ran = run(home, workspace, LIST, READ)
    assert ran.code == 0
    words = [one.message for one in facts_of(home, Warned)]
    for name in (
        "TeammateIdle",
        "a hook of SubagentStop has once",
        "permissions",
        "a hook of PreToolUse has once",
        "WebFetch",
        "'mcp__github'",
    ):
        assert len([word for word in words if name in word]) == 1, name
    assert not [word for word in words if "'mcp__github__.*'" in word]
    errors = [one.result.error for one in facts_of(home, CallFinished)]
    assert errors == [ErrorKind.DENIED, None]


def test_long_word_in_a_projects_hook_does_not_stop_the_start(home: Path, workspace: Path) -> None:
    hooks = {"PreToolUse": [{"hooks": [{"command": f": {'x' * 256}; exit 2"}]}]}
    (workspace / ".agentcli").mkdir()
    (workspace / ".agentcli/hooks.json").write_text(json.dumps(hooks))
    model = script(home / "s.json", [{"calls": [READ]}, "Done."])
    ran = agentcli(*("run", "-C", workspace, "--trust-project", "--model", model, "x"), home=home)
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert facts_of(home, CallFinished)[0].result.error is ErrorKind.DENIED
