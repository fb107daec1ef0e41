import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import read_facts, session_log
from tests.support.repl import answer_question as _answer
from tests.support.repl import await_question as _takes_keys
from tests.support.repl import live, live_in_tmux, runs, says
from tests.support.repl import open_question as _open
from tests.support.terminal import PyteTerm, needs_tmux

EDIT = anthropic.call(
    "toolu_2", "edit_file", {"path": "calc.py", "old_text": "a / b", "new_text": "a // b"}
)
FILES = {"calc.py": "def divide(a, b):\n    return a / b\n"}


def judged(home: Path) -> list[dict[str, object]]:
    facts = read_facts(session_log(home))
    return [fact["verdict"] for fact in facts if fact["type"] == "call_judged"]


def test_typing_across_two_questions_approves_nothing(tmp_path: Path) -> None:
    script = [runs("touch one"), runs("touch two", "toolu_2"), says("The end.")]
    with live(tmp_path, script, cols=100, rows=40) as session:
        term = session.term
        assert isinstance(term, PyteTerm)
        term.ready()
        term.send("go")
        keys = _keys_at_twelve_a_second("1 y yes sure a s words and more\ry y 1 always\r y")
        for key in keys:
            term.type(key)
        term.wait("Waiting for approval: bash touch one (tab to answer)")
        term.wait("it opens after you send or clear your message")
        term.key("tab")
        _takes_keys(term)
        assert not (session.project / "one").exists()
        term.key("escape")
        term.wait("interrupted after")
        term.wait("> 1 y yes sure a s words and more")
        assert [term.shows(text) for text in ("  y y 1 always", "   y")] == [True, True]
        assert not (session.project / "one").exists()
        assert not (session.project / "two").exists()
        assert [verdict["decision"] for verdict in judged(session.home)] == ["deny"]
        assert len(session.model.bodies) == 1


def test_two_letters_at_once_are_a_message(tmp_path: Path) -> None:
    with live(tmp_path, [runs("touch one")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        _takes_keys(term)
        term.write(b"na")
        term.wait("> na")
        assert judged(session.home) == []


def test_words_at_an_open_question_are_a_message(tmp_path: Path) -> None:
    script = [runs("touch one"), says("The end.")]
    with live(tmp_path, script, cols=100, rows=40) as session:
        term = session.term
        assert isinstance(term, PyteTerm)
        term.ready()
        term.send("go")
        _open(term)
        _takes_keys(term)
        for key in _keys_at_twelve_a_second("why any"):
            term.type(key)
        term.wait("> why any")
        assert not (session.project / "one").exists()
        assert judged(session.home) == []


@needs_tmux
def test_pause_in_a_message_answers_nothing_in_tmux(tmp_path: Path) -> None:
    call = runs("touch one").but(stall_before_headers=True)
    with live_in_tmux(tmp_path, [call, says("End.")]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.type("when you are done please ")
        term.wait("> when you are done please")
        session.model.release()
        term.wait("it opens after you send or clear your message")
        time.sleep(2)  # the pause is what is tested
        assert not term.shows("[y] yes, once")
        term.type("also say what changed")
        term.wait("> when you are done please also say what changed")
        assert (judged(session.home), (session.project / "one").exists()) == ([], False)
        term.key("enter")
        _answer(term, "y")
        term.wait("End.")
        assert (session.project / "one").exists()


def test_keyboard_is_back_when_a_question_goes_away_unanswered(tmp_path: Path) -> None:
    settings = tmp_path / "home/.config/agentcli/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("timeout = 6\n")
    with live(tmp_path, [runs("touch one"), says("Heard.")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        _answer(term, "e")
        term.wait("instead:")
        term.type("rather do")
        term.wait("the time limit of 6 s")
        term.wait("> rather do")
        term.type(" this\r")
        term.wait("Heard.")
        assert session.prompts()[-1] == "rather do this"


def test_mode_stays_while_a_question_is_open(tmp_path: Path) -> None:
    with live(tmp_path, [runs("touch one"), says("The end.")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        _takes_keys(term)
        term.key("s-tab")
        term.wait("Answer the question first.")
        term.wait("ask ·")
        assert term.shows("needs approval")
        _answer(term, "y")
        term.wait("The end.")
        assert (session.project / "one").exists()
        assert [verdict["by"] for verdict in judged(session.home)] == ["user"]


def test_whole_command_is_shown_or_its_approval_is_locked(tmp_path: Path) -> None:
    long = "echo " + "x" * 380 + " the very last twenty!"
    tall = "\n".join(f"touch file_{index}" for index in range(74))
    script = [runs(long), runs(tall, "toolu_2"), says("The end.")]
    env = {"PAGER": "cat"}
    with live(tmp_path, script, cols=80, rows=30, env=env) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("[y] yes, once")
        joined = "".join(row.strip() for row in term.screen())
        assert long.replace(" ", "")[-20:] in joined.replace(" ", "")
        _answer(term, "n")
        term.wait("press v to view")
        assert term.shows("touch file_0")
        assert term.shows("touch file_73")
        for letter in "ysam":
            _answer(term, letter)
            term.wait(f"{letter} is not available: press v first")
        _answer(term, "v")
        term.wait("not shown (viewed)")
        assert not (session.project / "file_0").exists()
        _answer(term, "y")
        term.wait("The end.")
        assert (session.project / "file_73").exists()


def test_letters_mean_the_same_for_every_tool(tmp_path: Path) -> None:
    script = [anthropic.calls(EDIT), runs("touch x", "toolu_3"), says("The end.")]
    with live(tmp_path, script, files=FILES, cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("? edit_file")
        edit = _letters(term)
        _answer(term, "n")
        term.wait("? bash")
        assert _letters(term) == edit == ["y", "s", "a", "n", "e", "v", "m"]
        _answer(term, "n")
        term.wait("The end.")
        assert (session.project / "calc.py").read_text() == FILES["calc.py"]


def test_saved_rule_lets_the_next_identical_call_pass(tmp_path: Path) -> None:
    script = [runs("make build"), runs("make build", "toolu_2"), says("The end.")]
    with live(tmp_path, script, cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("adds allow bash(make build:*)")
        _answer(term, "a")
        term.wait("(press Enter: adds allow bash(make build:*) to ~/.config/agentcli/rules.toml)")
        term.key("enter")
        term.wait("The end.")
        assert "/rules.toml: allow bash(make build:*)" in "\n".join(term.history())
        rules = (session.home / ".config/agentcli/rules.toml").read_text()
        assert 'rule = "bash(make build:*)"' in rules
        first, second = judged(session.home)
        assert (first["by"], second["by"]) == ("user", "rule")


def test_yes_for_the_session_is_listed_and_not_saved(tmp_path: Path) -> None:
    script = [runs("make build"), runs("make build", "toolu_2"), says("The end.")]
    with live(tmp_path, script, cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        _answer(term, "s")
        term.wait("The end.")
        assert [verdict["by"] for verdict in judged(session.home)] == ["user", "rule"]
        term.wait_gone("esc to interrupt")
        term.send("/permissions")
        term.wait("  allow bash(make build:*)  this session")
        assert not (session.home / ".config/agentcli/rules.toml").exists()


def test_rules_are_listed_with_their_reasons(tmp_path: Path) -> None:
    rules = (
        '[[rule]]\ndecision = "deny"\nrule = "edit(gen/**)"\nreason = "made by make"\n'
        '[[rule]]\ndecision = "allow"\nrule = "bash(make:*)"\nreason = "mine"\n'
    )
    files, options = {"p.toml": rules}, ["--policy", "p.toml"]
    with live(tmp_path, [], files=files, arguments=options, cols=160) as session:
        session.term.ready()
        session.term.send("/permissions")
        session.term.wait("p.toml:1: made by make")
        session.term.wait("allow bash(make:*)")
        assert not session.term.shows("mine")


def test_stray_enter_is_no_answer_and_arrows_are(tmp_path: Path) -> None:
    with live(tmp_path, [runs("touch one"), says("The end.")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("[y] yes, once")
        _takes_keys(term)
        term.key("enter", "enter")
        assert term.shows("[y] yes, once")
        term.key("down")
        term.wait("> [y] yes, once")
        term.key("enter")
        term.wait("The end.")
        assert (session.project / "one").exists()


def test_person_can_say_what_to_do_instead(tmp_path: Path) -> None:
    with live(tmp_path, [runs("touch one"), says("The end.")], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("[y] yes, once")
        _answer(term, "e")
        term.wait("instead:")
        term.send("use the other file")
        term.wait("The end.")
        assert term.shows("  you said: use the other file")
        result = session.model.bodies[-1]["messages"][-1]["content"][0]
        assert "use the other file" in json.dumps(result)
        assert not (session.project / "one").exists()


def test_person_can_change_a_command_before_it_runs(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/one/two/ "$1"\n')
    editor.chmod(0o755)
    env = {"EDITOR": str(editor)}
    with live(tmp_path, [runs("touch one"), says("End.")], cols=100, rows=40, env=env) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("[y] yes, once")
        _answer(term, "m")
        term.wait("End.")
        assert (session.project / "two").exists()
        assert not (session.project / "one").exists()
        assert "touch two" in json.dumps(session.model.bodies[-1]["messages"][-1])


def test_person_can_change_an_edit_under_whatever_names_it_came(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/one/two/ "$1"\n')
    editor.chmod(0o755)
    given = {"file_path": "calc.py", "old_string": "a / b", "new_string": "one"}
    script = [anthropic.calls(anthropic.call("toolu_1", "edit_file", given)), says("End.")]
    env = {"EDITOR": str(editor)}
    with live(tmp_path, script, cols=100, rows=40, env=env, files=FILES) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("[m] edit it first")
        _answer(term, "m")
        term.wait("End.")
        assert (session.project / "calc.py").read_text() == "def divide(a, b):\n    return two\n"


EDITED = {
    "kept": ("s/B=1/B=2/", "PASSWORD=hunter2xyz9\nB=2"),
    "named otherwise": ("s/PASSWORD/OTHER/", "OTHER=hunter2xyz9\nB=1"),
    "foreign": ("s/secret:......../secret:00000000/", None),
    "shortened": ("s/secret:......../secret:.../", None),
}


@pytest.mark.parametrize("case", EDITED)
def test_hidden_values_are_put_back_in_what_the_user_edits(tmp_path: Path, case: str) -> None:
    change, wanted = EDITED[case]
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\nsed -i "{change}" "$1"\n')
    editor.chmod(0o755)
    given = {"path": "new.env", "content": "PASSWORD=hunter2xyz9\nB=1\n"}
    script = [anthropic.calls(anthropic.call("toolu_1", "write_file", given)), says("End.")]
    env = {"EDITOR": str(editor)}
    with live(tmp_path, script, cols=120, rows=40, env=env, files=FILES) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("PASSWORD=«secret:")
        term.wait("[m] edit it first")
        _answer(term, "m")
        term.wait("End.")
        path = session.project / "new.env"
        assert (path.read_text() if path.exists() else None) == wanted
        if wanted is None:
            term.wait("your version was not run: the edited text has «secret:")
        sent = str(session.model.bodies[-1]["messages"][-1])
        assert "hunter2xyz9" not in sent and "Use a token only" not in sent


def test_nobody_is_asked_about_an_edit_that_cannot_be_made(tmp_path: Path) -> None:
    given = {"path": "calc.py", "old_text": "not there", "new_text": "x"}
    script = [anthropic.calls(anthropic.call("toolu_1", "edit_file", given)), says("End.")]
    with live(tmp_path, script, files=FILES) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("End.")
        assert term.shows("Not edited: old_text is not in calc.py.")
        assert judged(session.home) == []


def test_mode_changed_by_a_key_holds_for_the_next_call(tmp_path: Path) -> None:
    with live(tmp_path, [anthropic.calls(EDIT), says("End.")], files=FILES) as session:
        term = session.term
        term.ready()
        term.key("s-tab")
        term.wait("auto-edit ·")
        term.send("go")
        term.wait("End.")
        assert "a // b" in (session.project / "calc.py").read_text()


def test_hidden_characters_of_a_command_are_shown(tmp_path: Path) -> None:
    with live(tmp_path, [runs("echo a\u202eb\u200bc\x1b[31m"), says("End.")], cols=100) as session:
        term = session.term
        term.ready()
        term.send("go")
        _open(term)
        term.wait("[n] no")
        assert term.shows("\\u202e")
        assert term.shows("\\u200b")
        assert term.shows("\\x1b")
        _answer(term, "n")
        term.wait("End.")


def _letters(term: PyteTerm) -> list[str]:
    found = []
    for row in term.screen():
        found += [piece[0] for piece in row.split("[")[1:] if piece[1:2] == "]"]
    return found


def _keys_at_twelve_a_second(text: str) -> Iterator[str]:
    for key in text:
        yield key
        time.sleep(1 / 12)  # the pace is what is tested
