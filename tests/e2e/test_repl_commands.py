import json
from pathlib import Path

from tests.support import anthropic_streams as anthropic
from tests.support.repl import live, runs, says

FILES = {"calc.py": "def divide(a, b):\n    return a / b\n"}
EDIT = anthropic.call(
    "toolu_2", "edit_file", {"path": "calc.py", "old_text": "a / b", "new_text": "a // b"}
)


def test_change_is_shown_undone_and_redone(tmp_path: Path) -> None:
    script = [anthropic.calls(EDIT), says("Changed.")]
    arguments = ["--mode", "auto-edit"]
    with live(tmp_path, script, files=FILES, arguments=arguments, rows=50) as session:
        term, path = session.term, session.project / "calc.py"
        term.wait("auto-edit ·")
        term.send("go")
        term.wait("Changed.")
        assert term.shows("+     return a // b")
        term.send("/undo")
        term.wait("took back change 1")
        assert path.read_text() == FILES["calc.py"]
        term.send("/redo")
        term.wait("put back change 1")
        assert "a // b" in path.read_text()
        term.send("/rewind 1")
        term.wait_for(lambda: path.read_text() == FILES["calc.py"], "it is taken back")
        term.send("/show 1 --model")
        term.wait("calc.py")


def test_model_is_changed_for_the_next_request(tmp_path: Path) -> None:
    with live(tmp_path, [says("One."), says("Two.")]) as session:
        term = session.term
        term.ready()
        term.send("hi")
        term.wait("One.")
        term.send("/model sonnet")
        term.wait("from the next request on")
        term.send("hi again")
        term.wait("Two.")
        first, second = (body["model"] for body in session.model.bodies)
        assert first != second
        term.send("/model nosuchprovider/x")
        term.wait("error:")


def test_new_session_forgets_and_resume_remembers(tmp_path: Path) -> None:
    with live(tmp_path, [says("One."), says("Two."), says("Three.")], rows=40) as session:
        term = session.term
        term.ready()
        term.send("remember me")
        term.wait("One.")
        term.wait_gone("esc to interrupt")
        sessions = session.home / ".local/state/agentcli/sessions"
        (first,) = [path.name for path in sessions.iterdir()]
        term.send("/new")
        term.wait_for(lambda: len(list(sessions.iterdir())) == 2, "there is another session")
        term.send("hello")
        term.wait("Two.")
        assert "remember me" not in json.dumps(session.model.bodies[1])
        term.wait_gone("esc to interrupt")
        term.send(f"/resume {first}")
        term.wait_for(lambda: "\n".join(term.screen()).count("One.") == 2, "it is taken up")
        term.send("and now")
        term.wait("Three.")
        assert "remember me" in json.dumps(session.model.bodies[2])


def test_commands_that_only_look_all_work(tmp_path: Path) -> None:
    with live(tmp_path, [runs("exit 3"), says("```sh\nls -la\n```\n")], cols=100) as session:
        term = session.term
        term.ready()
        term.key("s-tab", "s-tab")
        term.wait("auto ·")
        term.send("go")
        term.wait("ls -la")
        expected = {
            "/context": "tokens",
            "/cost": "requests",
            "/tools": "read_file",
            "/bg": "no command runs in the background",
            "/config": "workspace",
            "/permissions": "your rules",
            "/memory": "AGENTS.md",
            "/keys": "Shift-Tab",
            "/theme": "theme auto",
            "/thinking on": "thinking is shown",
            "/export out.md": "written to",
            "/feedback": "session",
            "/memory add project Tests run with make": "added to",
            "/help mode": "what needs no question",
        }
        for command, answer in expected.items():
            term.send(command)
            term.wait_for(lambda: _after(term.history(), f"> {command}", answer), command)  # noqa: B023
        assert "ls -la" in (session.project / "out.md").read_text()
        assert (session.project / "AGENTS.md").read_text() == "- Tests run with make\n"
        term.send("/copy code")
        term.wait("copied 1 line")


def test_project_command_is_a_prompt_once_the_project_is_trusted(tmp_path: Path) -> None:
    files = {".agentcli/commands/check.md": "# Check everything\n\nLook at $ARGUMENTS closely."}
    with live(tmp_path, [says("Checked.")], files=files) as session:
        term = session.term
        term.wait("Trust ")
        term.send("v")
        term.wait("check")
        term.send("y")
        term.ready()
        term.send("/check the tests")
        term.wait("Checked.")
        assert "Look at the tests closely." in session.prompts()[0]


def _after(rows: list[str], command: str, answer: str) -> bool:
    text = "\n".join(rows)
    return answer in text.rpartition(command)[2] if command in text else False
