import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from agentcli.types.tools import Command, Details, Effect, ErrorKind, FileView, Matches, Raw
from agentcli.ui.render.cards import CardRenderer
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import DARK
from tests.support.examples import examples
from tests.support.scenes import Step, diff_of, step

SGR = re.compile(r"\x1b\[[0-9;]*m")
ACTIVE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]")

TEXTS = st.lists(
    st.sampled_from(
        [
            "word ",
            "\n",
            "\t",
            "日本語",
            "👩‍🔬",
            "\x1b[2J",
            "\x1b]0;title\x07",
            "\r",
            "\u202e",
            "x" * 90,
        ]
    )
    | st.text(max_size=8),
    max_size=12,
).map("".join)

DETAILS: st.SearchStrategy[Details | None] = st.one_of(
    st.none(),
    st.builds(lambda old, new: diff_of(old, new), TEXTS, TEXTS),
    st.builds(lambda new: diff_of("", new, created=True), TEXTS),
    st.builds(
        Command,
        command=TEXTS,
        cwd=st.just("/"),
        exit_code=st.integers(0, 3),
        head=TEXTS,
        tail=TEXTS,
        output_lines=st.integers(0, 99),
        log_path=st.sampled_from(["", "/no/such\x1b[2J directory/7.log"]),
    ),
    st.builds(
        FileView, path=TEXTS, media=st.sampled_from(["text", "image"]), size_bytes=st.just(1)
    ),
    st.builds(Matches, target=TEXTS, path=TEXTS, matches=st.just(2), files=st.just(1)),
    st.builds(Raw, text=TEXTS),
)
STEPS: st.SearchStrategy[Step] = st.builds(
    lambda name, value, details, error, text: step(
        name, {"path": value}, details, effect=Effect.WRITE, error=error, text=text
    ),
    TEXTS,
    TEXTS,
    DETAILS,
    st.none() | st.sampled_from(list(ErrorKind)),
    TEXTS,
)


@examples(150)
@given(st.lists(STEPS, min_size=1, max_size=3), st.integers(min_value=20, max_value=130))
def test_cards_fit_the_screen_and_hold_nothing_that_acts_on_it(
    steps: list[Step], columns: int
) -> None:
    cards = CardRenderer(Paint(columns=columns, theme=DARK, color="truecolor"))
    text = "".join(cards.add_finished(one.judged, one.finished) for one in steps) + cards.flush()
    rows = [SGR.sub("", row) for row in text.split("\n")]
    assert ACTIVE.findall("\n".join(rows)) == []
    # Output of commands stays in its own lines, so that it can be copied.
    has_output = any(isinstance(one.finished.result.details, Command) for one in steps)
    too_long = [row for row in rows if cell_len(row) > columns - 1]
    assert [row for row in too_long if not (has_output and row.startswith("  "))] == []
    for number in range(1, len(steps) + 1):
        assert ACTIVE.findall(SGR.sub("", cards.render_card(number))) == []
        assert ACTIVE.findall(cards.render_card(number, for_model=True)) == []
