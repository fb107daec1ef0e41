from typing import Literal

import pytest

from agentcli.features.insights.render_trace import render_trace
from agentcli.features.insights.trace import build_trace
from agentcli.types.events import Entry, TokensSpent
from agentcli.types.messages import Usage


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("broken_off", "on a cut-off attempt"),
        ("evaluation", "on the evaluation of a call"),
        ("title", "on the title of the session"),
    ],
)
def test_spent_tokens_name_what_they_were_spent_on(
    why: Literal["broken_off", "evaluation", "title"], said: str
) -> None:
    spent = TokensSpent(why=why, usage=Usage(input_tokens=7), cost_usd=0.5)
    entry = Entry(seq=1, at="2026-01-01T09:00:00Z", session="s", parent=None, fact=spent)
    (line,) = ("".join(text for _, text in runs) for runs in render_trace(build_trace([entry])))
    assert said in line
