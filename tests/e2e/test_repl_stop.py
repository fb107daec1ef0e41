import json
from pathlib import Path
from typing import Any

from agentcli.system.process import AFTER_INTERRUPT
from tests.support.program import read_facts, session_log
from tests.support.repl import Live, fails, live, paced, runs, says
from tests.support.terminal import PyteTerm, alive, until


def test_escape_with_two_queued_messages_sends_nothing_and_gives_them_back(tmp_path: Path) -> None:
    with live(tmp_path, [paced("word " * 4000, tokens_per_s=50)]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("Writing")
        term.send("first of two")
        term.wait("queued: first of two")
        term.send("second of two")
        term.wait("queued: second of two")
        term.type("typed")
        term.wait("> typed")
        term.key("escape")
        term.wait("interrupted after")
        for row in ("> first of two", "  second of two", "  typed"):
            term.wait(row)
        assert len(session.model.requests) == 1
        term.wait("ask ·")
        history = "\n".join(term.history())
        assert "word word" in history


def test_queue_is_one_turn_after_the_running_one_and_up_edits_it(tmp_path: Path) -> None:
    script = [paced("word " * 80, tokens_per_s=100), says("Second answer.")]
    with live(tmp_path, script) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("Writing")
        term.send("a")
        term.wait("queued: a")
        term.key("up")
        term.wait("> a")
        term.send("b")
        term.wait("queued: ab")
        term.send("c")
        term.wait("Second answer.")
        assert session.prompts() == ["go", "ab\nc"]


def test_tab_tells_the_running_turn_at_its_next_step(tmp_path: Path) -> None:
    script = [runs("until [ -e go_on ]; do sleep 0.05; done"), says("End.")]
    with live(tmp_path, script, arguments=["--mode", "auto"]) as session:
        term = session.term
        term.wait("auto ·")
        term.send("go")
        term.wait("Running bash")
        term.type("and be quick")
        term.key("tab")
        term.wait("  steering (sent at the next step): and be quick")
        (session.project / "go_on").touch()
        term.wait("End.")
        last = json.dumps(session.model.bodies[-1]["messages"][-1])
        assert "and be quick" in last


def test_ctrl_c_never_exits_a_run_and_a_child_that_ignores_it_dies(tmp_path: Path) -> None:
    stubborn = "trap '' INT; echo started $$; while :; do sleep 0.2; done"
    script = [runs(stubborn), says("Next.")]
    with live(tmp_path, script, arguments=["--mode", "auto", "--sandbox", "off"]) as session:
        term = session.term
        term.wait("auto, no sandbox ·")
        term.send("go")
        term.wait_for(lambda: _number_after(term, "  started "), "the child has told its number")
        child = _number_after(term, "  started ")
        term.key("c-c")
        term.wait("interrupted after")
        until(lambda: not alive(child), "the child is dead")
        assert alive(term.pid)
        history = "\n".join(term.history())
        assert "started" in history
        term.send("more")
        term.wait("Next.")
        results = json.dumps(session.model.bodies[-1]["messages"])
        assert "interrupted after" in results
        assert "started" in results


def test_ctrl_c_twice_kills_at_once(tmp_path: Path) -> None:
    stubborn = "trap '' INT TERM; echo started; while :; do sleep 0.2; done"
    arguments = ["--mode", "auto", "--sandbox", "off"]
    with live(tmp_path, [runs(stubborn)], arguments=arguments) as session:
        term = session.term
        term.wait("auto, no sandbox ·")
        term.send("go")
        term.wait("  started")
        term.key("c-c")
        term.key("c-c")
        term.wait("interrupted after")
        assert alive(term.pid)
        (finished,) = _facts(session, "call_finished")
        assert finished["result"]["error"] == "cancelled"
        assert finished["duration_s"] < sum(wait_s for _, wait_s in AFTER_INTERRUPT[:2])


def test_ctrl_c_clears_the_input_then_leaves(tmp_path: Path) -> None:
    with live(tmp_path, []) as session:
        term = session.term
        term.ready()
        term.type("some text")
        term.wait("> some text")
        term.key("c-c")
        term.wait_gone("some text")
        term.key("up")
        term.wait("> some text")
        term.key("c-c")
        term.wait_gone("some text")
        term.key("c-c")
        term.wait("Ctrl+C again to quit")
        term.key("c-c")
        assert term.code() == 0


def test_interrupt_before_the_first_byte_keeps_the_session(tmp_path: Path) -> None:
    script = [says("never").but(stall_before_headers=True), says("Here.")]
    with live(tmp_path, script) as session:
        term = session.term
        term.ready()
        term.send("go")
        until(lambda: session.model.stalled.is_set(), "the model was asked")
        term.key("escape")
        term.wait("interrupted after")
        term.send("again")
        term.wait("Here.")
        assert [fact["ending"] for fact in _facts(session, "turn_ended")][:1] == ["cancelled"]
        assert session.prompts()[-1] == "again"


def test_failing_command_shows_its_code_its_last_line_and_keeps_its_log(tmp_path: Path) -> None:
    command = "for i in $(seq 1 61); do echo case $i; done; exit 3"
    script = [runs(command), says("End.")]
    with live(tmp_path, script, arguments=["--mode", "auto"], rows=40) as session:
        term = session.term
        term.wait("auto ·")
        term.send("go")
        term.wait("End.")
        header = next(row for row in term.history() if row.startswith("✗ bash"))
        assert "exit 3" in header
        assert term.shows("  case 61")
        (log,) = session.home.glob(".local/state/agentcli/sessions/*/out/*.log")
        assert log.read_text().splitlines() == [f"case {index}" for index in range(1, 62)]


def test_rate_limit_counts_down_and_enter_tries_now(tmp_path: Path) -> None:
    limited = fails(429, **{"retry-after": "30"})
    with live(tmp_path, [limited, says("Through.")]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("Rate limited (429)")
        term.wait("try 2 of ")
        assert term.shows("enter now · esc cancel")
        term.key("enter")
        term.wait("Through.")
        assert len(session.model.requests) == 2
        (replied,) = _facts(session, "model_replied")
        assert replied["duration_s"] < 25


def test_giving_up_on_a_retry_keeps_the_message(tmp_path: Path) -> None:
    limited = fails(429, **{"retry-after": "30"})
    with live(tmp_path, [limited, says("Through.")]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("esc cancel")
        term.key("escape")
        term.wait("Your message is in the input. Enter retries.")
        term.wait_for(lambda: _count(term, "> go") == 2, "the message is in the input again")
        term.key("enter")
        term.wait("Through.")
        assert _said(session.model.bodies[-1]) == ["go"]


def test_rejected_key_is_said_with_a_fix_and_the_message_is_kept(tmp_path: Path) -> None:
    with live(tmp_path, [fails(401), says("Through.")]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("error:")
        term.wait("fix: quit, export ANTHROPIC_API_KEY=…, then agentcli --continue")
        term.wait("Your message is in the input. Enter retries.")
        assert len(session.model.requests) == 1
        term.wait_for(lambda: _count(term, "> go") == 2, "the message is in the input again")
        term.key("enter")
        term.wait("Through.")
        assert _said(session.model.bodies[-1]) == ["go"]


def test_failed_message_can_be_changed_and_the_model_gets_only_what_was_sent_again(
    tmp_path: Path,
) -> None:
    script = [says("First."), fails(401), says("Second.")]
    with live(tmp_path, script) as session:
        term = session.term
        term.ready()
        term.send("one")
        term.wait("First.")
        term.wait_gone("esc to interrupt")
        term.send("two")
        term.wait_for(lambda: _count(term, "> two") == 2, "the message is in the input again")
        term.type(" and a half")
        term.key("enter")
        term.wait("Second.")
        assert _said(session.model.bodies[-1]) == ["one", "two and a half"]


def _said(body: Any) -> list[str]:
    """By the person, as the model is told it; what the runtime says stands in brackets."""
    told = [one["content"] for one in body["messages"] if one["role"] == "user"]
    texts = [
        [content] if isinstance(content, str) else [part["text"] for part in content]
        for content in told
    ]
    return [text for parts in texts for text in parts if not text.startswith("[")]


def _facts(session: Live[PyteTerm], of: str) -> list[dict[str, Any]]:
    facts = read_facts(session_log(session.home))
    return [fact for fact in facts if fact["type"] == of]


def _count(term: PyteTerm, row: str) -> int:
    return term.screen().count(row)


def _number_after(term: PyteTerm, words: str) -> int:
    rows = [row for row in term.screen() if row.startswith(words)]
    return int(rows[0].removeprefix(words)) if rows else 0
