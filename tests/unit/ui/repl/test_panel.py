import asyncio
import difflib
import re
from collections.abc import Iterator

import pytest
from rich.style import Style

from agentcli.types.grants import Grants
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Diff, Effect
from agentcli.types.verdicts import Delegation, Question, RuleSuggestion, Verdict
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import ANSI, NONE
from agentcli.ui.repl.approval import PendingApproval
from agentcli.ui.repl.approval_panel import ROOMY_COLUMNS, CommandContext, render_panel

PLACE = CommandContext(workspace="~/src/demo", answer_key="tab")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def drawn(
    command: str,
    offer: RuleSuggestion,
    loop: asyncio.AbstractEventLoop,
    rows: int = 20,
    child: Delegation | None = None,
    columns: int = 72,
) -> list[str]:
    question = Question(
        call=ToolCall(id="c1", name="bash", input={"command": command}),
        effect=Effect.EXECUTE,
        preview=Command(command=command, cwd="/w"),
        verdict=Verdict(decision="ask", by="mode", reason="no rule allows make"),
        own_input={"command": command},
        suggestion=offer,
        child=child,
    )
    asked = PendingApproval(question=question, answer=loop.create_future())
    paint = Paint(columns=columns, rows=rows + 6, theme=NONE, color="none")
    shown = render_panel(asked, paint, context=PLACE, rows=rows, takes_keys=True)
    assert asked.is_cut or not any("not shown" in row for row in shown)
    bare = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in shown]
    assert {row[:1] for row in bare} == {"▌"} or columns < ROOMY_COLUMNS
    return [re.sub("^▌ ?", "", row) for row in bare]


def test_panel_has_the_whole_command_the_why_and_every_answer(
    loop: asyncio.AbstractEventLoop,
) -> None:
    offer = RuleSuggestion(session="exactly this command", reason="contains $(…)")
    assert drawn("for i in $(seq 1 60); do echo $i; done; " + "x" * 40, offer, loop) == [
        "? bash  needs approval",
        "  $ for i in $(seq 1 60); do echo $i; done; xxxxxxxxxxxxxxxxxxxxx",
        "    xxxxxxxxxxxxxxxxxxx",
        "  why: no rule allows make",
        "  in:  ~/src/demo · sandboxed, no network · timeout 120s",
        "",
        "  [y] yes, once",
        "  [s] yes, and don't ask again this session for exactly this command",
        "  [a] always, in all projects (not available: contains $(…))",
        "  [n] no, and continue",
        "  [e] no, tell the agent what to do instead",
        "  [v] view all   [m] edit it first",
    ]


def test_panel_says_which_child_asks_however_low_it_is(loop: asyncio.AbstractEventLoop) -> None:
    child = Delegation(child_id="s/child-1", role="builder", task="count\nthe \x1blines")
    for rows in (4, 7, 20):
        shown = drawn("make", RuleSuggestion(session="make"), loop, rows, child=child)
        assert shown[0] == "? bash  child agent builder  needs approval"
    assert shown[3:5] == [
        "  in:  ~/src/demo · sandboxed, no network · timeout 120s",
        "  task: count the �lines",
    ]


def test_panel_never_takes_more_rows_than_it_has(loop: asyncio.AbstractEventLoop) -> None:
    tall = "\n".join(f"touch {index}" for index in range(74))
    offer = RuleSuggestion(rules=("bash(touch 1)",), session="bash(touch 1)")
    for rows in (7, 10, 14, 20, 30):
        assert len(drawn(tall, offer, loop, rows)) <= rows


def test_panel_too_low_for_the_command_offers_no_yes(loop: asyncio.AbstractEventLoop) -> None:
    offer = RuleSuggestion(rules=("bash(touch 1)",), session="bash(touch 1)")
    for rows in range(1, 8):
        shown = "\n".join(drawn("touch 1\ntouch 2\ntouch 3", offer, loop, rows))
        assert ("touch 3" in shown) or ("[y]" not in shown), rows


def test_panel_of_a_narrow_terminal_shows_where_the_command_begins_and_how_to_answer(
    loop: asyncio.AbstractEventLoop,
) -> None:
    tall = "python3 - <<EOF\n" + "\n".join(f"print({index})" for index in range(60))
    offer = RuleSuggestion(session="exactly this command", reason="contains a here-document " * 3)
    for rows in range(7, 30):
        shown = "\n".join(drawn(tall, offer, loop, rows, columns=40))
        assert "$ python3" in shown, rows
        assert all(f"[{letter}]" in shown for letter in "nev"), rows


def test_answers_stand_closer_before_a_line_of_the_command_is_hidden(
    loop: asyncio.AbstractEventLoop,
) -> None:
    offer = RuleSuggestion(rules=("bash(make test:*)",), session="bash(make test:*)")
    assert drawn("make test\nmake more", offer, loop, rows=9) == [
        "? bash  needs approval",
        "  $ make test",
        "    make more",
        "  why: no rule allows make",
        "  in:  ~/src/demo · sandboxed, no network · timeout 120s",
        "  [y] yes, once   [s] yes, this session for bash(make test:*)",
        "  [a] yes, always (adds allow bash(make test:*) to rules.toml)",
        "  [n] no, and continue   [e] no, tell the agent what to do instead",
        "  [v] view all   [m] edit it first",
    ]
    assert drawn("make test\nmake more", offer, loop, rows=8) == [
        "? bash  needs approval",
        "  $ make test",
        "    make more",
        "  why: no rule allows make…",
        "  [y] yes   [n] no   [e] no, instead   [v] view all to unlock more",
        "  [m] edit",
    ]


def test_rule_too_long_for_its_row_is_told_whole(loop: asyncio.AbstractEventLoop) -> None:
    rule = "bash(" + "x" * 90 + ":*)"
    shown = drawn("x", RuleSuggestion(rules=(rule,), session=rule), loop)
    assert f"allow{rule}to" in "".join("".join(shown).split())


def test_rules_that_do_not_fit_are_not_to_be_had_before_they_were_viewed(
    loop: asyncio.AbstractEventLoop,
) -> None:
    rules = tuple(f"bash(touch file_{index})" for index in range(74))
    shown = drawn("touch file_*", RuleSuggestion(rules=rules, session=", ".join(rules)), loop)
    assert shown[6:9] == [
        "  [s] yes, and don't ask again this session (press v first)",
        "  [a] always, in all projects (press v first)",
        "  [n] no, and continue",
    ]


def test_low_panel_shows_the_changed_lines_of_a_diff_rather_than_the_others(
    loop: asyncio.AbstractEventLoop,
) -> None:
    old = "".join(f"line {number}\n\n" for number in range(1, 9))
    new = old.replace("line 4\n", "line four\n")
    unified = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a", "b"))
    call = ToolCall(id="c1", name="edit_file", input={"path": "a.txt"})
    question = Question(
        call=call,
        effect=Effect.WRITE,
        preview=Diff(path="a.txt", unified=unified, added=1, removed=1),
        verdict=Verdict(decision="ask", by="mode", reason="edits need your OK in ask mode"),
    )
    asked = PendingApproval(question=question, answer=loop.create_future())
    paint = Paint(columns=40, rows=15, theme=NONE, color="none")
    shown = render_panel(asked, paint, context=PLACE, rows=9, takes_keys=True)
    text = "\n".join(shown)
    assert asked.is_cut
    assert "line 4" in text
    assert "line four" in text
    assert "lines" in text


@pytest.mark.parametrize(
    ("grants", "style", "words"),
    [
        (Grants(outside=True), ANSI.failed, "with: no sandbox: runs as you"),
        (Grants(network=True), ANSI.warning, "with: sandboxed, whole network"),
    ],
)
def test_grants_stand_out_and_no_sandbox_is_red(
    grants: Grants, style: Style, words: str, loop: asyncio.AbstractEventLoop
) -> None:
    question = Question(
        call=ToolCall(id="c1", name="bash", input={"command": "make"}),
        effect=Effect.EXECUTE,
        preview=Command(command="make", cwd="/w"),
        verdict=Verdict(decision="ask", by="mode", reason="it asks for more", grants=grants),
    )
    paint = Paint(columns=100, rows=40, theme=ANSI, color="16")
    asked = PendingApproval(question=question, answer=loop.create_future())
    shown = render_panel(asked, paint, context=PLACE, rows=30, takes_keys=True)
    (row,) = [row for row in shown if words in row]
    before = paint.apply_style("|", style).partition("|")[0]
    assert row.partition(words)[0].endswith(f"{before}  ")
    assert "red" in str(ANSI.failed)
