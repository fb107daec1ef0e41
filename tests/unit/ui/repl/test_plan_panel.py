import asyncio
import re
from collections.abc import Iterator

import pytest

from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from agentcli.ui.repl.approval import PendingPlan
from agentcli.ui.repl.approval_panel import ROOMY_COLUMNS, CommandContext, render_plan_panel


@pytest.fixture
def asked() -> Iterator[PendingPlan]:
    loop = asyncio.new_event_loop()
    yield PendingPlan(plan="1. Go.", answer=loop.create_future())
    loop.close()


def drawn(
    asked: PendingPlan, *, columns: int = 80, rows: int = 20, takes_keys: bool = True
) -> list[str]:
    paint = Paint(columns=columns, rows=rows + 6, theme=NONE, color="none")
    context = CommandContext(workspace="", answer_key="f5")
    shown = render_plan_panel(asked, paint, context=context, rows=rows, takes_keys=takes_keys)
    bare = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in shown]
    assert {row[:1] for row in bare} == {"▌"} or columns < ROOMY_COLUMNS
    return [re.sub("^▌ ?", "", row) for row in bare]


def test_panel_has_every_answer_and_none_is_selected(asked: PendingPlan) -> None:
    assert drawn(asked) == [
        "? plan  follow it?",
        "  [y] yes, follow it and ask before each change",
        "  [a] yes, follow it and edit files without asking",
        "  [n] no, keep planning",
        "  [e] no, tell the agent what to change",
        "  [m] edit it first, in $EDITOR",
    ]


def test_selected_answer_is_marked(asked: PendingPlan) -> None:
    asked.selected = "a"
    assert [row[0] for row in drawn(asked)] == ["?", " ", ">", " ", " ", " "]


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (30, 2), (80, 3)])
def test_small_terminal_gets_every_answer_in_few_words(
    asked: PendingPlan, columns: int, rows: int
) -> None:
    shown = drawn(asked, columns=columns, rows=rows)
    assert len(shown) <= rows
    assert all(len(row) < columns for row in shown)
    assert re.findall(r"\[(.)\]", "".join(shown)) == ["y", "a", "n", "e", "m"]


def test_waiting_plan_names_the_key_that_opens_it(asked: PendingPlan) -> None:
    head = drawn(asked, takes_keys=False)[0]
    assert head == "? plan  keys go to your message; f5 to answer"
