import json
import os
import shlex
import sys
from pathlib import Path

from tests.support import anthropic_streams as anthropic
from tests.support.mcp_links import NASTY
from tests.support.program import agentcli
from tests.support.repl import git, live, runs, says
from tests.support.terminal import PyteTerm

FILES = {"calc.py": "def divide(a, b):\n    return a / b\n"}
EDIT = anthropic.call(
    "toolu_2", "edit_file", {"path": "calc.py", "old_text": "a / b", "new_text": "a // b"}
)


def test_change_is_shown_undone_and_redone(tmp_path: Path) -> None:
    script = [anthropic.calls(EDIT), says("Changed."), says("Again.")]
    arguments = ["--mode", "auto-edit"]
    with live(tmp_path, script, files=FILES, arguments=arguments, rows=50) as session:
        term, path = session.term, session.project / "calc.py"
        term.wait("auto-edit ·")
        term.send("go")
        term.wait("Changed.")
        assert term.shows("+     return a // b")
        term.send("/undo")
        term.wait("Undid edit_file calc.py")
        assert path.read_text() == FILES["calc.py"]
        term.send("/redo")
        term.wait("Redid edit_file calc.py")
        assert "a // b" in path.read_text()
        term.send("/rewind 1")
        term.wait("Before turn 1, restore")
        term.wait("restores calc.py")
        term.key("escape")
        term.wait("Nothing was changed.")
        assert "a // b" in path.read_text()
        term.key("escape", "escape")
        term.wait("1 of 1")
        assert term.shows("go · 1 file · $")
        term.key("enter")
        term.wait("Before turn 1, restore")
        term.key("enter")
        term.wait("Went back to before turn 1.")
        term.wait_for(lambda: path.read_text() == FILES["calc.py"], "it is undone")
        term.wait("> go")
        term.type(", please")
        term.key("enter")
        term.wait("Again.")
        assert session.prompts()[-1] == "go, please"
        assert "Changed." not in str(session.model.bodies[-1])
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
        term.send("/model sonnet")
        term.wait("from the next request on")
        term.send("/new")
        term.wait(f"back: /resume {first}")
        assert len(list(sessions.iterdir())) == 2
        term.send("hello")
        term.wait("Two.")
        assert "remember me" not in json.dumps(session.model.bodies[1])
        assert "sonnet" in session.model.bodies[1]["model"]
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
            "/mcp": "no servers; add one",
            "/bg": "No background commands.",
            "/bg stop ²": "² is not a pid",
            "/bg stop 1": "no command with pid 1 is running",
            "/resume": "No other sessions in this project.",
            "/diff": "this project is not in a git repository",
            "/doctor": "ok    agentcli",
            "/config": "workspace",
            "/permissions": "your rules",
            "/memory": "AGENTS.md",
            "/keys": "Shift-Tab",
            "/theme bogus": "no theme bogus",
            "/thinking on": "Thinking: on",
            "/export out.md": "Written to",
            "/feedback": "as HTML  agentcli export ",
            "/memory foo": "Usage: /memory [add",
            "/memory add": "Usage: /memory [add",
            "/memory add --project Tests run with make": "AGENTS.md: Tests run with make",
            "/compact --bogus": "unknown argument --bogus",
            "/compact --undo": "nothing to restore",
            "/init --help": "Usage: /init",
            "/context all": "Usage: /context",
            "/mcp restart": "Usage: /mcp [NAME | restart NAME]",
            "/bg stop": "Usage: /bg [stop PID]",
            "/show ²": "Usage: /show N [--model]",
            "/copy ²": "Usage: /copy [N|code|all]",
            "/export": "Usage: /export FILE",
            "/name A fix": "Named this session A fix",
            "/usage": "requests",
            "?": "/help [COMMAND]",
            "help": "/help [COMMAND]",
            "/rewind ²": "² is not a turn of this conversation",
            "/help mode": "show or change the permission mode",
        }
        for command, answer in expected.items():
            term.send(command)
            term.wait_for(lambda: _after(term.history(), f"> {command}", answer), command)  # noqa: B023
        assert "ls -la" in (session.project / "out.md").read_text()
        assert (session.project / "AGENTS.md").read_text() == "- Tests run with make\n"
        term.send("/copy code")
        term.wait("Copied 1 line")


def test_diff_shows_what_git_tracks_and_names_the_rest(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "calc.py").write_text("a = 1\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    with live(tmp_path, [], rows=40) as session:
        term = session.term
        term.ready()
        term.send("/diff")
        term.wait("+ a = 1")
        git(project, "commit", "-q", "-m", "Begin")
        (project / "calc.py").write_text("a = 2\n")
        (project / "new.py").write_text("")
        term.send("/diff")
        term.wait("+ a = 2")
        term.wait("Untracked: new.py")
        term.send("/diff new.py")
        term.wait_for(lambda: len(_rows(term, "Untracked: new.py")) == 2, "it is named again")
        assert len(_rows(term, "calc.py")) == 2
        term.send("/diff nosuch")
        term.wait("no file nosuch")


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


def test_servers_are_listed_and_started_anew_and_their_tools_with_them(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    serve = shlex.join([sys.executable, str(NASTY), "plain"])
    late = f"[ -e {ready} ] || {{ echo not yet >&2; exit 1; }}; exec {serve}"
    servers = {
        "good": {"command": sys.executable, "args": [str(NASTY), "plain"], "sandbox": False},
        "late": {"command": "bash", "args": ["-c", late], "sandbox": False},
    }
    config = tmp_path / "home/.config/agentcli/mcp.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"mcpServers": servers}))
    with live(tmp_path, [says("One."), says("Two.")], cols=160, rows=60) as session:
        term = session.term
        term.ready()
        term.send("/mcp")
        term.wait("  good  not started yet")
        term.send("hi")
        term.wait("One.")
        term.wait_gone("esc to interrupt")
        term.send("/mcp")
        term.wait("  good  ready; 2 tools, ")
        term.wait("  late  failed: The MCP server late")
        shown = " ".join(" ".join(term.screen()).split())
        assert "NOT sandboxed; " in shown
        assert "/mcp/late.log" in shown
        term.send("/mcp late")
        term.wait_for(lambda: len(_rows(term, "  late  failed")) == 2, "the server by its name")
        ready.touch()
        term.send("/mcp restart late")
        term.wait("  late   ready; 2 tools, ")
        term.wait("  echo   Says the text again.")
        term.send("/tools")
        term.wait("mcp late: ")
        assert len(_rows(term, "  late__echo")) == 1
        term.send("hi again")
        term.wait("Two.")
        declared = [tool["name"] for tool in session.model.bodies[-1]["tools"]]
        assert [name for name in declared if name.endswith("echo")] == [
            "good__echo",
            "late__echo",
        ]
        term.wait_gone("esc to interrupt")
        term.send("/mcp nobody")
        term.wait("error: no MCP server nobody")


def test_compaction_is_waited_for_alone_and_can_be_stopped(tmp_path: Path) -> None:
    stalled = says("never").but(stall_before_headers=True)
    with live(tmp_path, [says("One."), stalled, says("Two.")]) as session:
        term = session.term
        term.ready()
        term.send("first")
        term.wait("One.")
        term.wait_gone("esc to interrupt")
        term.send("/compact")
        term.wait("Compacting")
        term.send("second")
        term.wait("queued: second")
        term.key("escape")
        term.wait("error: stopped: compacting")
        term.wait("Two.")
        assert session.prompts()[-1] == "second"
        assert "first" in json.dumps(session.model.bodies[-1])


def test_session_that_cannot_be_had_loses_nothing_and_is_had_later(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    arguments = ["--policy", str(rules)]
    with live(tmp_path, [says("At last.")], arguments=arguments, rows=40) as session:
        term = session.term

        def is_back(line: str, *, after: int) -> bool:
            errors = len(_rows(term, "error: cannot read the rules in"))
            return errors == after and _rows(term, "> ")[-1] == f"> {line}"

        term.wait("error: cannot read the rules in")
        term.send("/help mode")
        term.wait("show or change the permission mode")
        term.send("/cost")
        term.wait_for(lambda: is_back("/cost", after=2), "it is in the input again")
        term.key("c-u")
        term.send("!echo no")
        term.wait_for(lambda: is_back("!echo no", after=3), "it is in the input again")
        term.key("c-u")
        rules.touch()
        term.send("hello")
        term.wait("At last.")
        assert session.prompts() == ["hello"]


def test_lines_typed_at_once_are_lines_of_their_own(tmp_path: Path) -> None:
    with live(tmp_path, [], rows=40) as session:
        term = session.term
        term.ready()
        term.write(b"/mode plan\r/nonsense\r")
        term.wait("no command /nonsense")
        assert _rows(term, "> ") == ["> /mode plan", "> /nonsense"]


def _rows(term: PyteTerm, begin: str) -> list[str]:
    return [row for row in term.history() if row.startswith(begin)]


def test_yolo_is_shown_and_asks_nothing(tmp_path: Path) -> None:
    script = [runs("touch made"), says("Made.")]
    container = {"container": "test"}
    with live(tmp_path, script, arguments=["--yolo"], env=container, cols=100) as session:
        session.term.wait("auto, no sandbox")
        session.term.send("go")
        session.term.wait("Made.")
        assert (session.project / "made").exists()


def test_yolo_is_refused_beside_a_mode_and_for_root(tmp_path: Path) -> None:
    beside = agentcli("--yolo", "--mode", "ask", home=tmp_path)
    assert (beside.code, beside.err.splitlines()[1]) == (2, "  fix: agentcli --yolo")
    alone = agentcli("--yolo", home=tmp_path)
    is_refused = os.geteuid() == 0 and not Path("/.dockerenv").exists()
    assert ("--yolo is not allowed as root" in alone.err) is is_refused
    assert alone.code == 2  # or else there is no prompt on stdin


def test_lists_are_chosen_from_with_arrows_and_cancelled_with_escape(tmp_path: Path) -> None:
    with live(tmp_path, [says("Hi.")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("/theme")
        term.wait("5 of 5")
        term.type("lig")
        term.wait("for a light background")
        term.key("enter")
        term.wait("Theme: light")
        assert not term.shows("5 of 5")
        term.send("/model")
        term.wait("Model (now anthropic/claude-opus-5-5)")
        term.type("haiku")
        term.wait("per M")
        term.key("enter")
        term.wait("from the next request on")
        term.send("/model")
        term.wait("esc cancel")
        term.key("escape")
        term.wait_gone("esc cancel")
        term.send("hi")
        term.wait("Hi.")
        assert "haiku" in session.model.bodies[0]["model"]
