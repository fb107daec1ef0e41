from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import agentcli, script
from tests.support.repl import live, open_question, says
from tests.support.terminal import PyteTerm

ASKED = {"question": "Which database?", "choices": ["Postgres", "SQLite"]}
ASK = anthropic.calls(anthropic.call("toolu_1", "ask_user", ASKED))


def give_choice(term: PyteTerm) -> None:
    term.type("2")


def give_selected(term: PyteTerm) -> None:
    term.key("down", "enter")


def give_own_words(term: PyteTerm) -> None:
    term.type("e")
    term.wait("Your answer:")
    term.type("MySQL, as always")
    term.key("enter")


def give_nothing(term: PyteTerm) -> None:
    term.type("n")


@pytest.mark.parametrize(
    ("give", "told"),
    [
        (give_choice, "The user chose: SQLite"),
        (give_selected, "The user chose: Postgres"),
        (give_own_words, "The user answered: MySQL, as always"),
        (give_nothing, "The user gave no answer."),
    ],
)
def test_user_decides_between_choices_or_in_own_words(
    give: Callable[[PyteTerm], None], told: str, tmp_path: Path
) -> None:
    with live(tmp_path, [ASK, says("Done.")]) as session:
        term = session.term
        term.ready()
        term.send("go")
        open_question(term)
        term.wait("[1] Postgres")
        term.wait("[2] SQLite")
        assert term.shows("Which database?")
        term.wait_gone("keys go to your message")
        give(term)
        term.wait("Done.")
        assert told in str(session.model.bodies[1]["messages"][-1])


def test_run_cannot_ask_and_says_so(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"ask_user": ASKED}]}, "I took SQLite."])
    ran = agentcli("run", "--model", model, "-o", "stream-json", "go", home=home, cwd=workspace)
    assert ran.code == 0, ran.err
    (finished,) = [event for event in ran.events if event["type"] == "tool.finished"]
    assert finished["status"] == "denied"
    assert "nobody can be asked in this run" in finished["model_text"]
    assert "ask_user" not in next(iter(ran.events))["tools"]
