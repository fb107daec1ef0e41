import re
from pathlib import Path

import pytest

from tests.support.program import agentcli, script
from tests.support.repl import await_question, live, runs, says
from tests.support.terminal import PyteTerm

LONG = "word " * 60
CALLS = [{"bash": {"command": f"echo {LONG}"}}, {"bash": {"command": "exit 3"}}]


@pytest.fixture
def worked(home: Path) -> Path:
    """A home with one session, in which everything is long."""
    model = script(home / "s.json", [{"text": LONG, "calls": CALLS}, LONG])
    agentcli("run", "--mode", "auto", "--sandbox", "off", "--model", model, LONG, home=home)
    return home


STYLES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize(
    "command", ["trace", "sessions list --all", "models", "stats", "context", "tools"]
)
def test_list_has_styles_and_fits_into_the_terminal(
    worked: Path, command: str, columns: int
) -> None:
    raw = _print_on_terminal(worked, command, columns)
    assert STYLES.search(raw)
    rows = STYLES.sub("", raw).replace("\r", "").split("\n")
    assert max(map(len, rows)) < columns


def test_list_is_plain_and_whole_in_a_pipe_and_has_no_colours_if_unwanted(worked: Path) -> None:
    piped = agentcli("trace", home=worked).out
    assert not STYLES.search(piped)
    assert max(map(len, piped.split("\n"))) > 100
    coloured = re.compile(r"\x1b\[[0-9;]*(?:3[0-9]|9[0-7])[0-9;]*m")
    assert coloured.search(_print_on_terminal(worked, "stats", 100))
    assert not coloured.search(_print_on_terminal(worked, "stats", 100, env={"NO_COLOR": "1"}))


def _print_on_terminal(
    home: Path, command: str, columns: int, env: dict[str, str] | None = None
) -> str:
    term = PyteTerm(command.split(), home=home, cwd=home, cols=columns, rows=60, env=env)
    try:
        assert term.code() == 0
        return term.raw().decode()
    finally:
        term.close()


def test_trace_shows_where_the_time_went_on_a_terminal_alone(worked: Path) -> None:
    assert "where the time went" not in agentcli("trace", home=worked).out
    term = PyteTerm(["trace"], home=worked, cwd=worked, cols=100, rows=60)
    try:
        assert term.code() == 0
        assert term.shows("where the time went")
        assert sum("█" in row and "bash " in row for row in term.screen()) == 2
    finally:
        term.close()


def test_exported_page_marks_the_command_that_failed(worked: Path) -> None:
    page = agentcli("export", "--format", "html", home=worked).out
    assert page.count('<article class="call bad" id="') == 1
    assert '<span class="mark">✗</span> <b>bash</b> <code>exit 3</code>' in page


def test_waiting_question_is_told_in_title_and_notification(tmp_path: Path) -> None:
    env = {"AGENTCLI_NOTIFY": "desktop"}
    with live(tmp_path, [runs("touch made"), says("Made.")], env=env) as session:
        term = session.term
        term.ready()
        term.send("go")
        await_question(term)
        assert b"\x1b]9;agentcli: project waits for your answer\x1b\\" in term.raw()
        assert b"\x1b[22;2t\x1b]2;? agentcli: project waits for you\x1b\\" in term.raw()
        term.type("y")
        term.wait("Made.")
        assert b"\x1b]2;agentcli: project\x1b\\" in term.raw()
        term.key("c-d")
        assert term.code() == 0
        assert b"\x1b[23;2t" in term.raw()
