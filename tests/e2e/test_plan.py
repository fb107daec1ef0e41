import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.context_notes import ACCEPTED, BEGINS, CHANGED, DEPARTING, TICKING
from tests.support import anthropic_streams as anthropic
from tests.support.program import agentcli, read_facts, script, session_log
from tests.support.provider import Provider
from tests.support.repl import KEY, live, says
from tests.support.strict_anthropic import StrictAnthropic
from tests.support.terminal import Term

PLAN = "1. Write made.txt\n2. Read it back"
WRITES = anthropic.calls(
    anthropic.call("toolu_1", "write_file", {"path": "made.txt", "content": "made\n"})
)


def facts(home: Path) -> list[dict[str, Any]]:
    return read_facts(session_log(home))


def told_of_plans(home: Path) -> list[str]:
    return [fact["text"] for fact in facts(home) if fact.get("why") == "plan"]


def answer(term: Term, letter: str) -> None:
    term.wait("follow it?")
    term.type(letter)


def begun(term: Term) -> None:
    term.ready()
    term.send("/plan make it")
    opened(term)


def opened(term: Term) -> None:
    """It waits for the message just typed, or is there already, where that took long."""
    term.wait_for(
        lambda: term.shows("tab to answer") or term.shows("keep planning"), "it is asked about"
    )
    if term.shows("tab to answer"):
        term.key("tab")


def test_accepted_plan_changes_the_mode_and_is_carried_out(tmp_path: Path) -> None:
    reads = anthropic.call("toolu_2", "read_file", {"path": "made.txt"})
    ticked = anthropic.calls(reads, before=[anthropic.text("Next.\n\n[x] 1\n")])
    replies = [WRITES, says(PLAN), WRITES, ticked, says("Made.")]
    with live(tmp_path, replies, cols=100, rows=40) as session:
        term = session.term
        begun(term)
        assert not (session.project / "made.txt").exists()
        answer(term, "a")
        term.wait("press Enter")
        term.key("enter")
        term.wait("Made.")
        assert (session.project / "made.txt").read_text() == "made\n"
        term.wait("auto-edit ·")
        first = session.model.bodies[0]["messages"]
        told = [block["text"] for message in first for block in message["content"]]
        assert [text for text in told if not text.startswith("[Environment: ")] == [
            "make it",
            BEGINS,
        ]
        assert told_of_plans(session.home) == [f"{ACCEPTED}{DEPARTING}{TICKING}\n\n{PLAN}"]
        term.send("/plan show")
        term.wait("Plan (accepted):")
        term.wait("[x] 1. Write made.txt")
        term.wait("[>] 2. Read it back")
        term.wait("auto-edit · ")
        term.wait("plan 1/2")


def test_plan_is_edited_before_it_is_accepted(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/Read/Delete/ "$1"\n')
    editor.chmod(0o755)
    env = {"EDITOR": str(editor)}
    with live(tmp_path, [says(PLAN), says("Done.")], cols=100, rows=40, env=env) as session:
        begun(session.term)
        answer(session.term, "m")
        session.term.wait("2. Delete it back")
        answer(session.term, "y")
        session.term.wait("Done.")
        (told,) = told_of_plans(session.home)
        assert told.startswith(CHANGED)
        assert told.endswith("\n\n1. Write made.txt\n2. Delete it back")
        assert session.term.shows("ask ·")


def test_change_goes_back_to_the_model_and_no_keeps_planning(tmp_path: Path) -> None:
    with live(tmp_path, [says("First."), says(PLAN)], cols=100, rows=40) as session:
        term = session.term
        begun(term)
        answer(term, "e")
        term.wait("instead:")
        term.send("shorter please")
        term.wait("2. Read it back")
        assert "shorter please" in session.prompts()[-1]
        opened(term)
        answer(term, "n")
        term.wait_gone("keep planning")
        term.wait("plan ·")
        assert told_of_plans(session.home) == []
        term.send("/plan review")
        opened(term)
        term.key("escape")
        term.wait_gone("keep planning")
        assert [fact["type"] for fact in facts(session.home)].count("turn_started") == 2


def test_question_back_is_answered_and_is_no_plan(tmp_path: Path) -> None:
    replies = [says("Which file do you mean?"), says(PLAN), WRITES, says("Made.")]
    with live(tmp_path, replies, cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("/plan make it")
        term.wait("Which file do you mean?")
        term.wait_gone("esc to interrupt")
        assert not term.shows("follow it?")
        assert not term.shows("tab to answer")
        term.send("made.txt")
        opened(term)
        assert "made.txt" in session.prompts()[1]
        answer(term, "a")
        term.wait("press Enter")
        term.key("enter")
        term.wait("Made.")
        (told,) = told_of_plans(session.home)
        assert told.endswith(f"\n\n{PLAN}")


def test_question_back_can_be_taken_for_the_plan(tmp_path: Path) -> None:
    with live(tmp_path, [says("I write made.txt. Fine?"), says("Done.")], cols=100) as session:
        term = session.term
        term.ready()
        term.send("/plan make it")
        term.wait("Fine?")
        term.wait_gone("esc to interrupt")
        term.send("/plan review")
        opened(term)
        answer(term, "y")
        term.wait("Done.")
        (told,) = told_of_plans(session.home)
        assert told.endswith("\n\nI write made.txt. Fine?")


def test_question_back_is_answered_in_lines(tmp_path: Path) -> None:
    replies = [says("Which file do you mean?"), says(PLAN)]
    with live(tmp_path, replies, env={"TERM": "dumb"}) as session:
        term = session.term
        term.wait("/help lists the commands")
        term.send("/plan make it")
        term.wait("Which file do you mean?")
        term.send("made.txt")
        term.wait("y follow it in ask mode")
        assert "made.txt" in session.prompts()[-1]
        assert [row for row in term.history() if "follow it" in row][1:] == []


def test_run_in_another_mode_accepts_no_question(tmp_path: Path) -> None:
    model = script(tmp_path / "script.json", ["Which file?", "Made."])
    agentcli("run", "--model", model, "--mode", "plan", "make it", home=tmp_path)
    ran = agentcli("run", "--continue", "--model", model, "--mode", "auto", "go", home=tmp_path)
    assert ran.code == 0
    assert told_of_plans(tmp_path) == []


def test_stray_enter_accepts_no_plan(tmp_path: Path) -> None:
    with live(tmp_path, [says(PLAN), says("Done.")], cols=100, rows=40) as session:
        term = session.term
        begun(term)
        term.wait("follow it?")
        term.key("enter", "enter")
        assert term.shows("keep planning")
        term.key("down")
        term.wait("> [y] yes, follow it")
        term.key("enter")
        term.wait("Done.")


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"ACCESSIBLE": "1"}])
def test_plan_is_decided_on_in_lines(tmp_path: Path, env: dict[str, str]) -> None:
    with live(tmp_path, [says("First."), says(PLAN), WRITES, says("Made.")], env=env) as session:
        term = session.term
        term.wait("/help lists the commands")
        term.send("/plan make it")
        term.wait("y follow it in ask mode")
        term.send("shorter please")
        term.wait("2. Read it back")
        asked = "y follow it in ask mode"
        term.wait_for(lambda: "\n".join(term.screen()).count(asked) == 2, "the second question")
        term.send("a")
        term.wait("Made.")
        assert (session.project / "made.txt").exists()
        assert len(told_of_plans(session.home)) == 1


def test_end_of_input_at_the_question_leaves(tmp_path: Path) -> None:
    with live(tmp_path, [says(PLAN)], env={"TERM": "dumb"}) as session:
        session.term.wait("/help lists the commands")
        session.term.send("/plan make it")
        session.term.wait("y follow it in ask mode")
        session.term.key("c-d")
        assert session.term.code() == 0
        assert told_of_plans(session.home) == []


def test_run_in_another_mode_follows_the_plan_of_the_run_before(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    replies = [WRITES, says(PLAN), WRITES, says("Made.")]
    with Provider(replies, check=StrictAnthropic()) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}
        planned = agentcli(
            *("run", "--model", "opus", "--mode", "plan", "make it"),
            home=home,
            cwd=project,
            env=env,
        )
        assert (planned.code, planned.out) == (0, f"{PLAN}\n")
        assert not (project / "made.txt").exists()
        session = session_log(home).parent.name
        ran = agentcli(
            *("run", "--resume", session, "--mode", "auto-edit", "go"),
            home=home,
            cwd=project,
            env=env,
        )
    assert (ran.code, ran.out) == (0, "Made.\n")
    assert (project / "made.txt").read_text() == "made\n"
    (told,) = told_of_plans(home)
    assert told.endswith(f"\n\n{PLAN}")
    assert told in json.dumps(provider.bodies[2]["messages"], ensure_ascii=False).replace(
        "\\n", "\n"
    )
    replayed = agentcli("replay", session, "--stub-tools", home=home, cwd=project)
    assert (replayed.code, replayed.err) == (0, "")


def test_run_that_stays_in_plan_mode_accepts_nothing(tmp_path: Path) -> None:
    model = script(tmp_path / "script.json", [PLAN, "A better one."])
    for prompt in (["make it"], ["--continue", "again"]):
        ran = agentcli("run", "--model", model, "--mode", "plan", *prompt, home=tmp_path)
        assert ran.code == 0
    assert told_of_plans(tmp_path) == []


def test_message_that_was_being_typed_is_about_the_plan(tmp_path: Path) -> None:
    late = says(PLAN).but(stall_before_headers=True)
    with live(tmp_path, [late, says("A shorter one.")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("/plan make it")
        term.wait("Waiting for model")
        term.type("make it ")
        session.model.release()
        term.wait("tab to answer")
        term.send("yes and also a shorter one")
        term.wait("A shorter one.")
        assert "make it yes and also a shorter one" in session.prompts()[-1]
        assert told_of_plans(session.home) == []


def test_plan_of_an_earlier_session_is_reviewed_and_survives_a_fork(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    model = script(tmp_path / "script.json", [PLAN])
    agentcli("run", "--model", model, "--mode", "plan", "make it", home=home, cwd=project)
    session = session_log(home).parent.name
    arguments = ["--resume", session, "--model", "opus"]
    with live(tmp_path, [says("Done."), says("More.")], arguments=arguments, rows=40) as resumed:
        term = resumed.term
        term.wait("plan · claude-")
        term.send("/plan review")
        opened(term)
        answer(term, "y")
        term.wait("Done.")
        term.key("c-d")
        assert term.code() == 0
    (told,) = told_of_plans(home)
    forked = agentcli("fork", session, home=home, cwd=project)
    assert forked.code == 0
    copy = next(
        log
        for log in home.glob(".local/state/agentcli/sessions/*/log.jsonl")
        if log.parent.name != session
    )
    with Provider([says("Went on.")]) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}
        agentcli("run", "--resume", copy.parent, "--model", "opus", "on", home=home, env=env)
        said = [
            block["text"]
            for message in provider.bodies[0]["messages"]
            for block in message["content"]
        ]
    assert told in said
