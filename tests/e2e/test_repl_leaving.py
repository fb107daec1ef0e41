import json
import signal
import sys
from pathlib import Path

import pytest

from tests.support.program import agentcli
from tests.support.repl import KEY, live, live_in_tmux, paced, runs, says
from tests.support.terminal import PyteTerm, TmuxTerm, alive, needs_tmux, until


@needs_tmux
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, 137), (signal.SIGSEGV, 139)],
)
def test_terminal_is_as_before_after_any_death(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with live_in_tmux(tmp_path, [paced("word " * 4000, tokens_per_s=50)]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("Writing")
        assert term.settings() != term.settings_before
        term.kill(number)
        assert term.code() == code
        until(lambda: term.settings() == term.settings_before, "the terminal is as before")
        until(lambda: term.flag("cursor_flag"), "the cursor is shown")
        until(lambda: b"\x1b[?2004l" in term.raw()[-400:], "pasting is as before")
        term.wait("the shell is back")


CRASHING = """
import sys, time
from pathlib import Path
from agentcli.__main__ import main
from agentcli.ui.repl import session_manager
go = Path(sys.argv[1])
def broken():
    while not go.exists():
        time.sleep(0.01)
    raise RuntimeError("a bug")
session_manager._import_late = broken
sys.argv[1:] = ["--model", "opus", *sys.argv[2:]]
main()
"""


@needs_tmux
@pytest.mark.parametrize("is_debugging", [False, True])
def test_terminal_is_as_before_after_a_bug_and_the_report_is_named(
    tmp_path: Path, is_debugging: bool
) -> None:
    home, go = tmp_path / "home", tmp_path / "go"
    home.mkdir()
    script = tmp_path / "crashing.py"
    script.write_text(CRASHING)
    program = [sys.executable, str(script), str(go)]
    env = {"ANTHROPIC_API_KEY": KEY}
    arguments = ["--debug"] if is_debugging else []
    term = TmuxTerm(arguments, home=home, cwd=tmp_path, env=env, program=program)
    try:
        term.wait("ask ·")
        assert term.settings() != term.settings_before
        go.touch()
        assert term.code() == 1
        term.wait("internal error: RuntimeError: a bug")
        term.wait("report it and attach")
        assert ("Traceback" in "\n".join(term.history())) is is_debugging
        assert term.settings() == term.settings_before
    finally:
        term.close()


def test_draft_survives_a_kill_and_is_offered_by_up(tmp_path: Path) -> None:
    with live(tmp_path, []) as session:
        term = session.term
        term.ready()
        term.type("half a thought")
        drafts = session.home / ".local/state/agentcli/projects"
        until(
            lambda: any(p.read_text() == "half a thought" for p in drafts.glob("*/draft-*")),
            "the draft is on disk",
        )
        term.kill(signal.SIGKILL)
        term.gone()
    with live(tmp_path, [says("Yes.")]) as session:
        term = session.term
        term.wait("↑ restores your unsent draft")
        term.key("up")
        term.wait("> half a thought")
        term.key("enter")
        term.wait("Yes.")
        assert session.prompts() == ["half a thought"]
        until(lambda: not list(drafts.glob("*/draft-*")), "nothing is left to be offered")


@pytest.mark.parametrize("is_running", [False, True])
def test_closed_terminal_ends_the_program_and_its_children(
    tmp_path: Path, is_running: bool
) -> None:
    command = "trap '' HUP; echo $$ > child; while :; do sleep 0.1; done"
    arguments = ["--mode", "auto", "--sandbox", "off"]
    reports = tmp_path / "tmp"
    reports.mkdir()
    env = {"TMPDIR": str(reports)}
    with live(tmp_path, [runs(command)], arguments=arguments, env=env) as session:
        term = session.term
        assert isinstance(term, PyteTerm)
        term.wait("auto, no sandbox ·")
        child = 0
        if is_running:
            term.send("go")
            told = session.project / "child"
            until(lambda: told.exists() and told.read_text().strip(), "the child runs")
            child = int(told.read_text())
        pid = term.pid
        term.hang_up()
        until(
            lambda: not alive(pid) and not (child and alive(child)),
            "the program and its child have ended",
        )
    assert not list(reports.glob("agentcli-crash-*"))


def test_leaving_tells_how_to_resume_and_resuming_shows_the_last_exchange(tmp_path: Path) -> None:
    with live(tmp_path, [says("First answer."), says("Second answer.")]) as session:
        term = session.term
        term.ready()
        term.send("one")
        term.wait("First answer.")
        term.send("two")
        term.wait("Second answer.")
        term.wait_gone("esc to interrupt")
        term.key("c-d")
        assert term.code() == 0
        words = "\n".join(term.history())
        assert "resume: agentcli --resume " in words
        assert "2 turns" in words
    with live(tmp_path, [says("Third answer.")], arguments=["--continue"]) as session:
        term = session.term
        term.wait("Second answer.")
        assert term.shows("1 earlier turn")
        term.send("three")
        term.wait("Third answer.")
        assert "First answer." in json.dumps(session.model.bodies[-1])


def test_hints_name_the_keys_of_the_user(tmp_path: Path) -> None:
    settings = tmp_path / "home" / ".config" / "agentcli" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[keys]\ntranscript = "c-t"\nstop = "c-q"\nleave = "c-x"\n')
    with live(tmp_path, [says("First."), says("Second.")], cols=120) as session:
        term = session.term
        term.wait("shift+tab mode · / commands · ctrl+t transcript")
        assert term.shows("ctrl+j newline · ctrl+x exit")
        for word in ("First", "Second"):
            term.send("go")
            term.wait(f"{word}.")
            term.wait_gone("esc to interrupt")
        term.key("c-q")
        term.wait("Ctrl+Q again to quit.")
        term.key("c-x")
        assert term.code() == 0
    with live(tmp_path, [], arguments=["--continue"]) as session:
        session.term.wait("1 earlier turn, ctrl+t to read")


def test_session_is_picked_from_a_list(tmp_path: Path) -> None:
    for word in ("first", "second"):
        with live(tmp_path, [says(f"The {word} answer.")]) as session:
            session.term.ready()
            session.term.send(f"a {word} question")
            session.term.wait(f"The {word} answer.")
    with live(tmp_path, [], arguments=["--resume"]) as session:
        term = session.term
        term.wait("2 of 2")
        term.key("down", "enter")
        term.wait("The first answer.")
        assert b"^[[B" not in term.raw()
        term.ready()
        term.send("/resume")
        term.wait("1 of 1")
        term.key("enter")
        term.wait("The second answer.")
    with live(tmp_path, [], arguments=["--resume"]) as session:
        term = session.term
        term.wait("2 of 2")
        term.type("first")
        term.wait("1 of 2")
        assert not term.shows("a second question")
        term.key("enter")
        term.wait("The first answer.")
    with live(tmp_path, [], arguments=["--resume"]) as session:
        session.term.wait("2 of 2")
        session.term.key("escape")
        assert session.term.code() == 2
        assert session.term.shows("no session was chosen")
    with live(tmp_path, [], arguments=["--resume", "nonsense"]) as session:
        assert session.term.code() in (2, 3)


def test_session_is_picked_only_where_there_is_a_terminal(tmp_path: Path) -> None:
    ran = agentcli("--resume", home=tmp_path)
    assert (ran.code, ran.err.splitlines()) == (
        2,
        [
            "error: choosing a session needs a terminal",
            "  fix: agentcli sessions list, then agentcli --resume ID",
        ],
    )


def test_stopped_and_continued_session_draws_itself_again(tmp_path: Path) -> None:
    with live(tmp_path, [says("Yes.")]) as session:
        term = session.term
        term.ready()
        term.type("typed")
        term.wait("> typed")
        term.kill(signal.SIGSTOP)
        before = len(term.raw())
        term.kill(signal.SIGCONT)
        until(lambda: b"typed" in term.raw()[before:], "it is drawn again")
        term.key("enter")
        term.wait("Yes.")
        assert session.prompts() == ["typed"]


def test_background_command_is_stopped_and_said(tmp_path: Path) -> None:
    script = [runs("echo $$ > child; sleep 1000", background=True), says("Started.")]
    arguments = ["--mode", "auto", "--sandbox", "off"]
    with live(tmp_path, script, arguments=arguments, cols=120) as session:
        term = session.term
        term.wait("auto, no sandbox ·")
        term.send("go")
        term.wait("Started.")
        term.wait("1 bg")
        told = session.project / "child"
        until(lambda: told.exists() and told.read_text().strip(), "the child runs")
        child = int(told.read_text())
        term.wait_gone("esc to interrupt")
        term.key("c-d")
        assert term.code() == 0
        assert "1 command still running was stopped" in "\n".join(term.history())
        assert not alive(child)
