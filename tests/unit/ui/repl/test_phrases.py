import re
from dataclasses import replace

import pytest

from agentcli.types.events import ContextNote, NoteReason
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from agentcli.ui.repl.transcript_blocks import (
    adapt_hint,
    render_context_note,
    render_error,
    render_interruption,
    render_prompt,
    render_warning,
)

PAINT = Paint(columns=30, theme=NONE, color="none")


def rows(ansi: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", ansi).split("\n")


def test_warning_is_wrapped_between_words() -> None:
    assert rows(render_warning(PAINT, "the price of this model is not known")) == [
        "warning: the price of this",
        "  model is not known",
    ]


def test_error_is_wrapped_and_its_fix_is_not() -> None:
    fix = "export ANTHROPIC_API_KEY=… or agentcli login"
    assert rows(render_error(PAINT, "no API key was found anywhere\nlooked at: X", hint=fix)) == [
        "error: no API key was found",
        "  anywhere",
        "  looked at: X",
        f"  fix: {fix}",
    ]


def test_prompt_is_wrapped_behind_its_sign() -> None:
    assert rows(render_prompt(PAINT, "words that go on beyond the last column\nmore")) == [
        "> words that go on beyond the",
        "  last column",
        "  more",
    ]


def test_variable_is_set_outside_of_the_session() -> None:
    outside = "quit, export A_KEY=…, then agentcli --continue"
    assert adapt_hint("export A_KEY=…") == outside


def test_option_of_a_run_is_a_setting_of_the_session() -> None:
    assert {hint: adapt_hint(hint) for hint in ("/compact", "agentcli --sandbox off")} == {
        "/compact": "/compact",
        "agentcli --sandbox off": "agentcli --sandbox off",
    }
    assert adapt_hint("raise --max-turns") == (
        "raise max_turns in settings.toml, then agentcli --continue"
    )
    assert adapt_hint("Try again in 1h, or allow it: --max-wait 3600") == (
        "Try again in 1h, or allow it: max_wait = 3600 in settings.toml, then agentcli --continue"
    )
    assert adapt_hint("or another model: --model") == "or another model: /model"
    assert adapt_hint("--add-dir DIR, or DIR:ro") == "/add-dir DIR, or DIR:ro"


def test_command_of_the_session_keeps_its_own_options() -> None:
    assert adapt_hint("/show N [--model]") == "/show N [--model]"
    assert adapt_hint("/memory add [--project|--user] TEXT") == (
        "/memory add [--project|--user] TEXT"
    )


def test_interrupt_says_what_stays() -> None:
    assert rows(render_interruption(PAINT, 12, changed=1)) == [
        "■ interrupted after 12s · 1",
        "  file changed, /rewind to",
        "  undo",
    ]


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (
            ContextNote(text="Use make.", why=NoteReason.INSTRUCTIONS, loaded="A.md (1 line)"),
            "Loaded A.md (1 line)",
        ),
        (ContextNote(text="Read.", why=NoteReason.PLAN_MODE), "Plan mode: read-only"),
        (ContextNote(text="Go.", why=NoteReason.PLAN_MODE_OVER), "Plan mode is over"),
        (
            ContextNote(text="make failed\n1\n2", why=NoteReason.VERIFY),
            "Note to the model: make failed …",
        ),
    ],
)
def test_note_to_the_model_is_one_line(note: ContextNote, shown: str) -> None:
    paint = replace(PAINT, columns=80)
    assert rows(render_context_note(paint, note)) == [shown]
