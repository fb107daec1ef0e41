import re
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import agentcli
from tests.support.provider import Provider, answer
from tests.support.repl import KEY, fails, live, runs, says
from tests.support.terminal import PyteTerm, until

WORDS = ("Running ", "Finished ", "? ")
COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")


def test_no_color_writes_no_colour_but_keeps_the_session(tmp_path: Path) -> None:
    env = {"NO_COLOR": "1", "COLORTERM": "truecolor"}
    script = [runs("exit 3"), says("# Head\n\n`code` and **bold**")]
    with live(tmp_path, script, env=env, arguments=["--mode", "auto"]) as session:
        term = session.term
        term.wait("auto ·")
        term.send("go")
        term.wait("code and bold")
        term.wait_gone("esc to interrupt")
        assert COLOUR.findall(term.raw()) == []
        assert b"\x1b[1m" in term.raw() or b"\x1b[0;1m" in term.raw()


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"ACCESSIBLE": "1"}])
def test_dumb_and_accessible_sessions_write_no_control_sequence(
    tmp_path: Path, env: dict[str, str]
) -> None:
    script = [runs("touch made"), says("# Head\n\nAll **done**."), says("Second.")]
    with live(tmp_path, script, env=env) as session:
        term = session.term
        term.wait("/help lists the commands")
        term.send("go")
        term.wait("y once, s for this session")
        term.send("what?")
        term.wait("All done.")
        assert not (session.project / "made").exists()
        term.send("/mode plan")
        term.wait("Plan mode: read-only")
        term.send("!echo out")
        term.wait("exit 0")
        term.send("more")
        term.wait("Second.")
        term.key("c-d")
        assert term.code() == 0
        assert b"\x1b" not in term.raw()
        assert b"done in " in term.raw() and b"done in 0" not in term.raw()
        said = session.model.bodies[1]["messages"][-1]
        assert "what?" in str(said)


def test_closing_summary_counts_what_commands_changed(tmp_path: Path) -> None:
    script = [runs("rm -f old; printf 'x\\ny\\n' > new"), says("Made.")]
    arguments = ["--sandbox", "off", "--mode", "auto"]
    with live(tmp_path, script, env={"TERM": "dumb"}, arguments=arguments) as session:
        (session.project / "old").write_text("1\n")
        session.term.wait("/help lists the commands")
        session.term.send("go")
        session.term.wait("Made.")
        session.term.key("c-d")
        assert session.term.code() == 0
        assert "2 files changed, +2 -1" in session.term.raw().decode().replace("−", "-")


def test_line_session_runs_what_was_approved_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    slow = runs("echo $$ > child; sleep 1000", "toolu_2")
    script = [runs("touch made"), says("Made."), slow, says("Went on.")]
    arguments = ["--sandbox", "off"]
    with live(tmp_path, script, env={"TERM": "dumb"}, arguments=arguments) as session:
        term = session.term
        term.wait("/help lists")
        term.send("go")
        term.wait("y once")
        term.send("y")
        term.wait("Made.")
        assert (session.project / "made").exists()
        term.send("again")
        term.wait_for(lambda: "\n".join(term.screen()).count("y once") == 2, "it asks again")
        term.send("y")
        until(lambda: (session.project / "child").exists(), "the command runs")
        term.key("c-c")
        term.wait("interrupted")
        term.send("and now")
        term.wait("Went on.")


def test_line_session_denies_the_call_and_stops_the_turn_by_one_answer(tmp_path: Path) -> None:
    script = [runs("touch made"), says("Went on.")]
    with live(tmp_path, script, env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists")
        term.send("go")
        term.wait("q stop the turn")
        term.send("q")
        term.wait("interrupted")
        assert not (session.project / "made").exists()
        assert len(session.model.bodies) == 1
        (log,) = session.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
        assert '"decision":"deny","by":"user"' in log.read_text()
        term.send("and now")
        term.wait("Went on.")


def test_end_of_input_at_a_question_denies_the_call_and_quits(tmp_path: Path) -> None:
    script = [runs("touch made"), says("Went on.")]
    with live(tmp_path, script, env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists")
        term.send("go")
        term.wait("q stop the turn")
        term.key("c-d")
        assert term.code() == 0
        assert not (session.project / "made").exists()
        assert len(session.model.bodies) == 1
        (log,) = session.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
        assert '"reason":"the user quit"' in log.read_text()


@pytest.mark.parametrize("letter", ["a", "A"])
def test_always_stores_the_rule_in_either_case(tmp_path: Path, letter: str) -> None:
    with live(tmp_path, [runs("touch made"), says("Made.")], env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists")
        term.send("go")
        term.wait("y once")
        term.send(letter)
        term.wait("Made.")
        rules = session.home / ".config/agentcli/rules.toml"
        assert "bash(touch made)" in rules.read_text()
        (log,) = session.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
        assert '"lasts":"always"' in log.read_text()


def test_line_that_was_typed_before_the_question_is_the_next_message(tmp_path: Path) -> None:
    script = [runs("touch made"), says("Not made."), says("Heard.")]
    with live(tmp_path, script, env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists")
        term.type("go\ry\r")
        term.wait("Kept as your next message: y")
        term.wait("y once")
        term.send("n")
        term.wait("Heard.")
        assert not (session.project / "made").exists()
        assert session.prompts()[-1] == "y"


def test_line_session_keeps_a_message_that_failed_for_an_empty_line(tmp_path: Path) -> None:
    with live(tmp_path, [fails(401), says("Through.")], env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists")
        term.send("go")
        term.wait("Your message was not sent.")
        term.key("enter")
        term.wait("Through.")
        assert session.prompts() == ["go", "go"]
        assert str(session.model.bodies[-1]["messages"]).count("'go'") == 1
        term.key("enter")
        term.send("/cost")
        term.wait("requests: 1")


def test_line_session_keeps_a_message_that_was_not_to_be_tried_again(tmp_path: Path) -> None:
    script = [fails(429, **{"retry-after": "30"}), says("Through.")]
    with live(tmp_path, script, arguments=["--accessible"]) as session:
        term = session.term
        term.wait("/help lists")
        term.send("go")
        term.wait("retrying in 30")
        term.key("c-c")
        term.wait("Your message was not sent.")
        term.key("enter")
        term.wait("Through.")
        assert session.prompts() == ["go", "go"]


def test_accessible_cards_come_in_the_order_in_which_things_happen(tmp_path: Path) -> None:
    look = anthropic.calls(anthropic.call("toolu_1", "read_file", {"path": "a.txt"}))
    script = [look, runs("touch made", "toolu_2"), says("End.")]
    with live(tmp_path, script, env={"ACCESSIBLE": "1"}, files={"a.txt": "x\n"}) as session:
        term = session.term
        term.wait("/help lists")
        term.send("go")
        term.wait("y once")
        term.send("y")
        term.wait("End.")
        told = [row.split(" a.txt")[0] for row in term.history() if row.startswith(WORDS)]
        assert [" ".join(row.split()[:2]).rstrip(":") for row in told] == [
            "Running read_file",
            "Finished read_file",
            "? bash",
            "Running bash",
            "Finished bash",
        ]


def test_prompt_that_is_piped_in_is_a_run(tmp_path: Path) -> None:
    with Provider([says("An answer.")]) as model:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.base_url}
        options = ("--mode", "plan", "--deny", "bash", "--theme", "dark")
        ran = agentcli("--model", "opus", *options, home=tmp_path, stdin="hi there", env=env)
    assert (ran.code, ran.out) == (0, "An answer.\n")
    assert "plan mode" in ran.err
    assert "hi there" in str(model.bodies[0]["messages"])


def test_without_a_terminal_and_without_a_prompt_it_is_a_usage_error(tmp_path: Path) -> None:
    ran = agentcli("--model", "opus", home=tmp_path, env={"ANTHROPIC_API_KEY": KEY})
    assert ran.code == 2
    assert ran.err.startswith("error:")


def test_first_run_offers_four_ways_and_keeps_a_pasted_key(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with Provider([fails(401), answer({"data": []}), says("Hello.")]) as model:
        env = {"ANTHROPIC_BASE_URL": model.base_url, "NO_PROXY": "*"}
        term = PyteTerm([], home=home, cwd=tmp_path, env=env)
        try:
            term.wait("agentcli needs a model.")
            term.wait("4  quit")
            term.send("1")
            term.wait("API key (hidden):")
            term.send("sk-ant-mistyped-0123456789")
            term.wait("Nothing was stored")
            term.send("1")
            term.wait_for(lambda: "\n".join(term.screen()).count("(hidden):") == 2, "asked again")
            term.send("sk-ant-0123456789abcdef")
            term.wait("ask ·")
            assert not term.shows("0123456789abcdef")
            term.send("hi")
            term.wait("Hello.")
            keys = home / ".config/agentcli/keys.toml"
            assert keys.read_text() == 'ANTHROPIC_API_KEY = "sk-ant-0123456789abcdef"\n'
            assert keys.stat().st_mode & 0o777 == 0o600
        finally:
            term.close()
    with Provider([says("Again.")]) as model:
        again = PyteTerm([], home=home, cwd=tmp_path, env={"ANTHROPIC_BASE_URL": model.base_url})
        try:
            again.ready()
            again.send("hi")
            again.wait("Again.")
            assert model.requests[0].headers["x-api-key"] == "sk-ant-0123456789abcdef"
        finally:
            again.close()


def test_first_run_can_be_left(tmp_path: Path) -> None:
    term = PyteTerm([], home=tmp_path, cwd=tmp_path)
    try:
        term.wait("4  quit")
        term.send("4")
        assert term.code() == 0
    finally:
        term.close()


def test_wrong_options_are_usage_errors(tmp_path: Path) -> None:
    for arguments in (["--color", "pink"], ["--theme", "pink"], ["--mode", "pink"]):
        term = PyteTerm(arguments, home=tmp_path, cwd=tmp_path)
        try:
            assert term.code() == 2
            term.wait("error:")
        finally:
            term.close()


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_shell_that_is_not_there_ends_no_session(tmp_path: Path, terminal: str) -> None:
    env = {"TERM": terminal, "SHELL": "/nonexistent/zsh"}
    with live(tmp_path, [says("Still here.")], env=env) as session:
        term = session.term
        term.wait("/help lists" if terminal == "dumb" else "ask · claude-")
        term.send("!ls")
        term.wait("cannot start /nonexistent/zsh")
        term.send("!less x")
        told = "cannot start /nonexistent/zsh"
        term.wait_for(lambda: "\n".join(term.screen()).count(told) == 2, "it is told again")
        term.send("go")
        term.wait("Still here.")
        assert session.prompts() == ["go"]
