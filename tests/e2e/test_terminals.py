import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.processes import running, unique_seconds
from tests.support.program import PROGRAM, agentcli, environment, read_facts, script, session_log
from tests.support.repl import live, runs, says
from tests.support.terminal import alive, until

SECRET = "opensesame-0123456789"


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"calls": [{name: given}]}


def start(command: str) -> dict[str, Any]:
    return call("bash", command=command, terminal=True)


def send(text: str, **more: Any) -> dict[str, Any]:
    return call("write_stdin", terminal=1, input=text, **more)


def finished(home: Path) -> list[dict[str, Any]]:
    facts = read_facts(session_log(home))
    return [fact["result"] for fact in facts if fact["type"] == "call_finished"]


def shown(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


def test_changes_by_input_are_undone_replayed_and_audited(home: Path, workspace: Path) -> None:
    replies = [
        start("python3 -q"),
        send("open('new.txt', 'w').write('hello')\n"),
        send("print(open('new.txt').read())\n"),
        call("bash", command="cat new.txt"),
        "Done.",
    ]
    model = script(home / "s.json", replies)
    ran = agentcli("run", "-C", workspace, "--mode", "auto", "--model", model, "go", home=home)
    assert ran.code == 0, ran.err
    assert (workspace / "new.txt").read_text() == "hello"
    assert shown(finished(home)[-1]).startswith("hello")
    pid = finished(home)[0]["details"]["background_pid"]
    assert not alive(pid)
    session = session_log(home).parent.name
    again = agentcli("replay", "--check", session, home=home)
    assert again.code == 0, again.out
    assert agentcli("audit", "verify", session, home=home).out.startswith("intact")
    undone = agentcli("undo", session, home=home)
    assert undone.code == 0, undone.err
    assert not (workspace / "new.txt").exists()


AUTO = ["--mode", "auto"]
NEEDS_OK = "input for python3 -q needs your OK in ask mode"
RULES: dict[str, tuple[list[str], dict[str, str]]] = {
    "what rules deny as a command or a path is denied as input": (
        [*AUTO, "--deny", "bash(git push:*)", "--deny", "read(**/.env)"],
        {
            "git push origin\n": "forbids it",
            "cat .env\n": "forbids it",
            "echo «secret:0123abcd»\n": "would get the token itself",
        },
    ),
    "input is denied by its own name": (
        [*AUTO, "--deny", "write_stdin"],
        {"echo hi\n": "forbids it"},
    ),
    "a rule for a command allows no input": (
        ["--allow", "bash(python3 -q)", "--allow", "bash(make lint)"],
        {"ls\n": NEEDS_OK, "make lint\n": NEEDS_OK},
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_input_is_judged_like_a_command(name: str, home: Path, workspace: Path) -> None:
    options, texts = RULES[name]
    replies = [start("python3 -q"), *map(send, texts), send("", timeout=1), "Done."]
    model = script(home / "s.json", replies)
    agentcli("run", "-C", workspace, *options, "--model", model, "go", home=home)
    started, *refused, polled = finished(home)
    assert started["status"] == "ok"
    for result, why in zip(refused, texts.values(), strict=True):
        assert result["status"] == "error"
        assert why in shown(result)
    assert polled["status"] == ("error" if "write_stdin" in options else "ok")


def test_rule_for_all_commands_allows_input(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", [start("bash -i"), send("touch ok; exit\n"), "Done."])
    agentcli("run", "-C", workspace, "--allow", "bash", "--model", model, "go", home=home)
    assert [result["status"] for result in finished(home)] == ["ok", "ok"]
    assert (workspace / "ok").exists()


def test_secret_on_a_terminal_reaches_no_sink(home: Path, workspace: Path) -> None:
    printing = (
        'printf %s "${PASSED_TOKEN:0:8}"; sleep 0.5; printf "%s> " "${PASSED_TOKEN:8}"; read; '
        "echo $PASSED_TOKEN"
    )
    model = script(home.parent / "s.json", [start(printing), send("\n"), "Done."])
    ran = agentcli(
        *("run", "-v", "-C", workspace, "--mode", "auto", "--pass-env", "PASSED_TOKEN"),
        *("--model", model, "go"),
        home=home,
        env={"PASSED_TOKEN": SECRET},
    )
    assert ran.code == 0
    files = [path for path in home.rglob("*") if path.is_file()]
    assert [str(one) for one in files if b"me-0123456789" in one.read_bytes()] == []


@pytest.mark.parametrize(("cols", "rows"), [(80, 24), (120, 40)])
def test_question_is_answered_in_a_session(tmp_path: Path, cols: int, rows: int) -> None:
    given = {"terminal": 1, "input": "Bob\n"}
    ask = [
        runs("read -p 'Name? ' n; echo hello $n; sleep 1000", terminal=True),
        anthropic.calls(anthropic.call("toolu_2", "write_stdin", given)),
        says("Answered."),
    ]
    with live(tmp_path, ask, cols=cols, rows=rows) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("needs approval")
        term.type("y")
        term.wait("Name?")
        term.wait("write_stdin")
        term.wait("Bob")
        term.wait("input for read -p")
        term.wait("needs approval")
        term.type("y")
        term.wait("hello Bob")
        term.wait("Answered.")
        declared = [[tool["name"] for tool in body["tools"]] for body in session.model.bodies]
        assert ["write_stdin" in names for names in declared] == [False, True, True]
        (pid,) = {one["details"]["background_pid"] for one in finished(session.home)}
        term.wait("1 bg")
        term.wait_gone("esc to interrupt")
        term.key("c-d")
        assert term.code() == 0
        until(lambda: not alive(pid), "the command ended with the session")


def test_command_on_a_terminal_ends_if_the_session_is_killed(home: Path, workspace: Path) -> None:
    seconds = unique_seconds()
    waits = f"printf '> '; touch begun; sleep {seconds}"
    model = script(home / "s.json", [start(waits), send("", timeout=600), "Done."])
    argv = [str(PROGRAM), "run", "-C", str(workspace), "--mode", "auto", "--model", model]
    with subprocess.Popen([*argv, "go"], cwd=home, env=environment(home)) as process:
        until((workspace / "begun").exists, "the command runs")
        process.kill()
    until(lambda: not running(f"sleep {seconds}"), "the command has ended")
