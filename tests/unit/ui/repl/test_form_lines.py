import asyncio

import pytest

from agentcli.types.forms import FormField, FormValues, ServerForm
from agentcli.types.verdicts import Verdict
from agentcli.ui.repl.forms import ask_form, fill_in


def filled(form: ServerForm, *typed: str) -> tuple[FormValues | None, str]:
    said: list[str] = []
    lines = list(typed)

    async def line() -> str | None:
        return lines.pop(0) if lines else None

    values = asyncio.run(fill_in(form, say=said.append, read_line=line))
    return values, "".join(said)


FORM = ServerForm(
    server="booking",
    kind="form",
    message="Where \x1b[31mto?",
    fields=(
        FormField(name="city", kind="text", is_required=True),
        FormField(name="nights", kind="integer", default=2),
        FormField(name="note", kind="text"),
    ),
)


def test_empty_lines_take_proposals_and_leave_out_what_is_optional() -> None:
    values, said = filled(FORM, "", "Oslo", "", "", "y")
    assert values == {"city": "Oslo", "nights": 2}
    assert "required" in said
    assert "\x1b" not in said


def test_nothing_is_sent_without_a_yes() -> None:
    assert filled(FORM, "Oslo", "", "", "")[0] is None
    assert filled(FORM, "Oslo", "", "", "n")[0] is None


def test_end_of_input_gives_up() -> None:
    assert filled(FORM, "Oslo")[0] is None


@pytest.mark.parametrize(
    ("typed", "decision"),
    [(["n"], "deny"), (["c"], "ask"), ([], "ask"), (["", "what", "no"], "deny"), (["y"], "allow")],
)
def test_question_without_fields_is_answered_by_one_line(typed: list[str], decision: str) -> None:
    lines = list(typed)

    async def line() -> str | None:
        return lines.pop(0) if lines else None

    async def scenario() -> Verdict:
        form = ServerForm(server="s", kind="url", message="Pay", url="https://a.b")
        return await ask_form(form, say=lambda text: None, read_line=line)

    assert asyncio.run(scenario()).decision == decision
