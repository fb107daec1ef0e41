import json
from pathlib import Path
from typing import Any

from tests.support.program import agentcli, session_log
from tests.support.repl import Live, live, runs, says
from tests.support.terminal import PyteTerm, alive, until

AUTO = ["--mode", "auto"]
WAITS = "echo begun; until [ -e go_on ]; do sleep 0.05; done; echo ended"


def test_ctrl_b_moves_the_running_command_to_the_background(tmp_path: Path) -> None:
    script = [runs(WAITS), says("Meanwhile."), says("Seen.")]
    with live(tmp_path, script, arguments=AUTO, cols=120, rows=40) as session:
        term = session.term
        term.wait("auto ·")
        term.send("go")
        term.wait("  begun")
        term.key("c-b")
        term.wait("Meanwhile.")
        (card,) = [row for row in term.history() if row.startswith("✓ bash")]
        assert "moved to the background by you, pid " in card
        term.wait("1 bg")
        told = _last_result(session)
        details = _details(session)
        pid, log = details["background_pid"], Path(details["log_path"])
        assert told.startswith("begun\n[the user moved it to the background after ")
        assert f"pid {pid}, all output in {log}]" in told
        assert f"kill {pid} stops it" in told
        assert log.read_text() == "begun\n"
        term.send("/bg")
        term.wait(f"  {pid}  echo begun;")
        (session.project / "go_on").touch()
        term.wait(f"Background command finished (exit 0), pid {pid}")
        term.wait_gone("1 bg")
        assert log.read_text() == "begun\nended\n"
        term.send("and now?")
        term.wait("Seen.")
        last = json.dumps(session.model.bodies[-1]["messages"])
        assert f"[background pid {pid} ended after " in last
        term.wait_gone("esc to interrupt")
        term.key("c-d")
        assert term.code() == 0
    again = agentcli("replay", "--check", session_log(session.home), home=session.home)
    assert again.code == 0, again.out
    assert "(1 not re-runnable)" in again.out


def test_moved_command_ends_with_the_session(tmp_path: Path) -> None:
    script = [runs("echo begun; sleep 1000"), says("Meanwhile.")]
    with live(tmp_path, script, arguments=AUTO, cols=120) as session:
        term = session.term
        term.wait("auto ·")
        term.send("go")
        term.wait("  begun")
        term.key("c-b")
        term.wait("1 bg")
        pid = _details(session)["background_pid"]
        term.wait_gone("esc to interrupt")
        term.key("c-d")
        assert term.code() == 0
        assert not alive(pid)
        assert "1 command still running was stopped" in "\n".join(term.history())


def test_background_command_is_stopped_by_its_number(tmp_path: Path) -> None:
    script = [runs("echo begun; sleep 1000", background=True), says("Started.")]
    with live(tmp_path, script, arguments=AUTO, cols=120) as session:
        term = session.term
        term.wait("auto ·")
        term.send("go")
        term.wait("1 bg")
        pid = _details(session)["background_pid"]
        term.send(f"/bg stop {pid}")
        term.wait(f"Background command finished (killed by SIGTERM), pid {pid}")
        assert not alive(pid)


def test_ctrl_b_without_a_command_says_so_or_edits(tmp_path: Path) -> None:
    with live(tmp_path, [says("Got it.")]) as session:
        term = session.term
        term.ready()
        term.key("c-b")
        term.wait("No running command")
        term.type("ac")
        term.key("c-b")
        term.type("b")
        term.wait("> abc")
        term.key("enter")
        term.wait("Got it.")
        assert session.prompts() == ["abc"]


def _last_result(session: Live[PyteTerm]) -> str:
    until(lambda: len(session.model.requests) == 2, "the model got the result")
    (block,) = session.model.bodies[1]["messages"][-1]["content"]
    content = block["content"]
    return content if isinstance(content, str) else "".join(one["text"] for one in content)


def _details(session: Live[PyteTerm]) -> dict[str, Any]:
    until(lambda: _find_finished(session), "the call has its result")
    (finished,) = _find_finished(session)
    details: dict[str, Any] = finished["result"]["details"]
    return details


def _find_finished(session: Live[PyteTerm]) -> list[dict[str, Any]]:
    lines = session_log(session.home).read_text().splitlines(keepends=True)
    facts = [json.loads(line)["fact"] for line in lines if line.endswith("\n")]
    return [fact for fact in facts if fact["type"] == "call_finished"]
