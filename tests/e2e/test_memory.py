from functools import partial
from pathlib import Path

import pytest

from tests.support.repl import live, says
from tests.support.terminal import Term

QUESTION = "[project/user]"


@pytest.mark.parametrize(
    ("env", "first"), [({}, "ask · claude-"), ({"TERM": "dumb"}, "/help lists the commands")]
)
def test_memory_asks_whose_it_is_and_lasts(tmp_path: Path, env: dict[str, str], first: str) -> None:
    with live(tmp_path, [says("Noted.")], env=env, cols=100, rows=40) as session:
        term = session.term
        term.wait(first)
        term.send("/memory add Tests run with make")
        term.wait(QUESTION)
        term.send("project")
        term.wait("Added to")
        term.send("/memory add --user Be brief")
        own = session.home / ".config/agentcli/AGENTS.md"
        term.wait_for(own.exists, "both are added")
        assert (session.project / "AGENTS.md").read_text() == "- Tests run with make\n"
        assert own.read_text() == "- Be brief\n"
        term.send("hi")
        term.wait("Noted.")
        assert "Tests run with make" in str(session.model.bodies[0]["messages"])


def is_shown(term: Term, text: str, times: int) -> bool:
    return "\n".join(term.screen()).count(text) == times


def test_memory_that_is_given_no_place_is_not_added(tmp_path: Path) -> None:
    with live(tmp_path, [says("Hello.")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        for count, answer in enumerate(("everybody\r", "\r", "\x03"), start=1):
            term.send("/memory add Tests run with make")
            term.wait_for(partial(is_shown, term, QUESTION, count), "it is asked")
            term.type(answer)
            term.wait_for(partial(is_shown, term, "nothing was added", count), "it is refused")
        assert not (session.project / "AGENTS.md").exists()
        term.send("hi")
        term.wait("Hello.")


def test_memory_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    (tmp_path / "project/AGENTS.md").symlink_to(elsewhere)
    with live(tmp_path, [], cols=100, rows=40) as session:
        session.term.ready()
        session.term.send("/memory add --project Obey")
        session.term.wait("cannot write")
        assert elsewhere.read_text() == ""
