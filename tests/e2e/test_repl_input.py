import json
import os
from pathlib import Path

import pytest

from tests.support.program import read_facts, session_log
from tests.support.repl import git, live, says
from tests.support.terminal import PyteTerm, until

FILES = {"calc.py": "one\ntwo\nthree\nfour\n", "src/other.py": "x = 1\n", "ignored.log": "no\n"}


def test_paste_is_one_atom_until_it_is_sent(tmp_path: Path) -> None:
    pasted = "\n".join(f"line {index}" for index in range(33))
    with live(tmp_path, [says("Got it.")]) as session:
        term = session.term
        term.ready()
        term.paste(pasted)
        term.wait("> [paste #1 · 33 lines]")
        term.key("backspace")
        term.wait_gone("[paste #1")
        term.paste(pasted)
        term.wait("[paste #2 · 33 lines]")
        term.type(" and more")
        term.key("enter")
        term.wait("Got it.")
        assert session.prompts() == [f"{pasted} and more"]
        (history,) = session.home.glob(".local/state/agentcli/projects/*/history.jsonl")
        assert json.loads(history.read_text()) == {"text": f"{pasted} and more"}
        assert history.stat().st_mode & 0o777 == 0o600


def test_path_in_front_is_no_command_and_a_lost_mention_is_named(tmp_path: Path) -> None:
    with live(tmp_path, [says("Divides.")], cols=100) as session:
        term = session.term
        term.ready()
        term.send("/srv/x/calc.py what does it do, see @nope.png?")
        term.wait("Divides.")
        assert term.shows("not attached: nope.png does not exist")
        assert session.prompts() == ["/srv/x/calc.py what does it do, see @nope.png?"]


def test_paste_of_a_megabyte_arrives_whole(tmp_path: Path) -> None:
    pasted = "0123456789abcde\n" * (2**20 // 16)
    with live(tmp_path, [says("Got it.")]) as session:
        term = session.term
        term.ready()
        term.paste(pasted)
        term.wait("[paste #1 · 65536 lines]")
        term.key("enter")
        term.wait("Got it.")
        assert session.prompts() == [pasted]


def test_paste_of_five_megabytes_that_no_model_takes_is_given_back(tmp_path: Path) -> None:
    pasted = "0123456789abcde\n" * (5 * 2**20 // 16)
    with live(tmp_path, [says("Short.")]) as session:
        term = session.term
        term.ready()
        term.paste(pasted)
        term.wait("[paste #1 · ")
        term.key("enter")
        term.wait("error: ")
        term.wait_for(lambda: _typed(term).startswith("> [paste #"), "it is in the input again")
        facts = read_facts(session_log(session.home))
        (prompt,) = [fact for fact in facts if fact["type"] == "turn_started"]
        assert prompt["message"]["content"][0]["text"] == pasted
        term.key("c-c")
        term.send("something shorter")
        term.wait("Short.")
        assert session.prompts() == ["something shorter"]


def test_newline_in_a_paste_does_not_send_and_controls_do_nothing(tmp_path: Path) -> None:
    with live(tmp_path, [says("Got it.")]) as session:
        term = session.term
        term.ready()
        term.paste("one\r\ntwo\x03\x1b[Athree")
        term.wait("  two")
        assert session.model.requests == []
        term.key("enter")
        term.wait("Got it.")
        assert session.prompts()[0].startswith("one\ntwo")


def test_line_sent_before_there_is_a_prompt_is_sent(tmp_path: Path) -> None:
    with live(tmp_path, [says("Got it.")]) as session:
        session.term.send("early")
        session.term.wait("Got it.")
        assert session.prompts() == ["early"]


def test_newlines_are_typed_with_ctrl_j_and_backslash(tmp_path: Path) -> None:
    with live(tmp_path, [says("Got it.")]) as session:
        term = session.term
        term.ready()
        term.type("one")
        term.key("c-j")
        term.type("two\\")
        term.key("enter")
        term.type("three")
        term.key("enter")
        term.wait("Got it.")
        assert session.prompts() == ["one\ntwo\nthree"]


def test_history_is_per_project_searched_and_hides_what_begins_with_a_blank(
    tmp_path: Path,
) -> None:
    with live(tmp_path, [says("A."), says("B."), says("C.")]) as session:
        term = session.term
        term.ready()
        for text, answer in (("find the needle", "A."), (" secret word", "B."), ("third", "C.")):
            term.send(text)
            term.wait(answer)
        term.wait_gone("esc to interrupt")
        term.key("c-r")
        term.type("NEED")
        term.wait("search: NEED")
        term.wait_for(lambda: _typed(term) == "> find the needle", "what was found is shown")
        term.key("enter")
        term.wait_gone("search: NEED")
        assert _typed(term) == "> find the needle"
        term.key("c-e", "c-u", "c-d")
        assert term.code() == 0
    with live(tmp_path, []) as session:
        term = session.term
        term.ready()
        term.key("up")
        term.wait("> third")
        term.key("up")
        term.wait("> find the needle")
        (history,) = session.home.glob(".local/state/agentcli/projects/*/history.jsonl")
        assert "secret word" not in history.read_text()


def _typed(term: PyteTerm) -> str:
    return [row for row in term.screen() if row.startswith("> ")][-1]


def test_mention_is_completed_and_attached_with_its_lines(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".gitignore").write_text("*.log\n")
    git(project, "init", "-q")
    with live(tmp_path, [says("Read.")], files=FILES) as session:
        term = session.term
        term.ready()
        term.type("look at @ca")
        term.wait("  calc.py")
        assert not term.shows("ignored.log")
        term.key("tab")
        term.wait("> look at @calc.py")
        term.type(":2-3 please")
        term.key("enter")
        term.wait("attached calc.py (2 lines)")
        term.wait("Read.")
        (prompt,) = session.prompts()
        assert prompt == "look at @calc.py:2-3 please\n[The user attached calc.py:2-3:]\ntwo\nthree"


def test_shell_command_runs_and_is_told_to_the_model(tmp_path: Path) -> None:
    with live(tmp_path, [says("Seen.")]) as session:
        term = session.term
        term.ready()
        term.send("!echo from the shell")
        term.wait("✓ bash echo from the shell")
        term.send("!!echo not told")
        term.wait("✓ bash echo not told")
        term.wait_gone("esc to interrupt")
        term.send("hi")
        term.wait("Seen.")
        said = json.dumps(session.model.bodies[-1]["messages"])
        assert "from the shell" in said
        assert "not told" not in said


def test_menu_offers_commands_and_an_unknown_one_stays_in_the_input(tmp_path: Path) -> None:
    with live(tmp_path, []) as session:
        term = session.term
        term.ready()
        term.type("/mod")
        term.wait("  /model")
        assert term.shows("show or change the permission mode")
        term.key("escape")
        term.wait_gone("show or change the permission mode")
        term.key("c-u")
        term.send("/modell")
        term.wait("did you mean /model?")
        assert term.shows("> /modell")
        term.key("c-u")
        term.send("/mode plan")
        term.wait("plan ·")
        term.send("/show 1")
        term.wait("error:")


def test_editor_gets_and_gives_the_text(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "$(cat "$1") more" > "$1"\n')
    editor.chmod(0o755)
    with live(tmp_path, [says("Got it.")], env={"EDITOR": str(editor)}) as session:
        term = session.term
        term.ready()
        term.type("some")
        term.key("c-g")
        term.wait("> some more")
        term.key("enter")
        term.wait("Got it.")
        assert session.prompts() == ["some more"]


def test_transcript_is_paged_whole(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o755)
    with live(tmp_path, [says("The answer.")], env={"PAGER": str(pager)}) as session:
        term = session.term
        term.ready()
        term.send("hello")
        term.wait("The answer.")
        term.key("c-o")
        paged = tmp_path / "paged"
        until(lambda: paged.exists() and "The answer." in paged.read_text(), "it was paged")
        assert "> hello" in paged.read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_unreadable_history_is_said_and_done_without(tmp_path: Path) -> None:
    with live(tmp_path, [says("A.")]) as session:
        session.term.ready()
        session.term.send("x")
        session.term.wait("A.")
    (history,) = tmp_path.glob("home/.local/state/agentcli/projects/*/history.jsonl")
    history.chmod(0)
    with live(tmp_path, [says("B.")]) as session:
        session.term.ready()
        session.term.send("y")
        session.term.wait("B.")
        session.term.wait("the history")
        assert session.prompts() == ["y"]


def test_history_that_is_a_directory_does_no_harm(tmp_path: Path) -> None:
    with live(tmp_path, [says("A.")]) as session:
        session.term.ready()
        session.term.send("x")
        session.term.wait("A.")
    (history,) = tmp_path.glob("home/.local/state/agentcli/projects/*/history.jsonl")
    history.unlink()
    history.mkdir()
    with live(tmp_path, [says("B.")]) as session:
        term = session.term
        term.ready()
        term.key("up")
        term.send("y")
        term.wait("B.")
        term.wait("the history")
        assert session.prompts() == ["y"]
        assert history.is_dir()


def test_vi_keys_leave_insert_mode_before_they_interrupt(tmp_path: Path) -> None:
    with live(tmp_path, [says("Got it.")]) as session:
        term = session.term
        term.ready()
        term.send("/vim")
        term.wait("vi mode on")
        term.type("wrong")
        term.wait("> wrong")
        term.key("escape")
        term.type("cc")
        term.type("right")
        term.wait("> right")
        term.key("enter")
        term.wait("Got it.")
        assert session.prompts() == ["right"]
