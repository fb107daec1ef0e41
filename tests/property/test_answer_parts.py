"""An answer in several replies is one answer, for everybody who takes it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.context_notes import PlanTracker
from agentcli.features.fork.engine import summarize_course
from agentcli.types.answers import AnswerParts
from agentcli.types.errors import Ending
from agentcli.types.events import Fact, ModeChanged
from agentcli.types.messages import Stop
from agentcli.ui.tally import Tally
from tests.support.session import FunctionTool, bench, call, reply

PLANS = ModeChanged(mode="plan")


def tallied(facts: Sequence[Fact]) -> str:
    tally = Tally()
    for fact in facts:
        tally(fact)
    return tally.answer


def planned(facts: Sequence[Fact]) -> str:
    planning = PlanTracker([PLANS, *facts])
    return planning.proposed or planning.asked


NOWHERE = Path("nowhere")
READERS: dict[str, Callable[[Sequence[Fact]], str]] = {
    "outputs of a run": tallied,
    "plan": planned,
    "fork": lambda facts: summarize_course(facts, sessions=NOWHERE, workspace=NOWHERE).answer,
    "last words": lambda facts: AnswerParts(facts).last_said,
}

letters = st.text(st.characters(categories=["L", "P", "Zs"]), max_size=8)
parts = st.lists(st.tuples(letters, st.sampled_from(["length", "paused"])), max_size=3)


@given(parts, letters.filter(str.strip), st.booleans())
def test_every_part_is_in_the_answer_for_every_reader(
    begun: list[tuple[str, Stop]], last: str, looks_first: bool
) -> None:
    look = FunctionTool(name="look", act=lambda args, context: "seen")
    looked = [reply("Not the answer. ", stop="length"), reply("I look.", call("look"))]
    replies = [
        *(looked if looks_first else []),
        *(reply(text, stop=stop) for text, stop in begun),
        reply(last),
    ]
    made = bench(replies, [look])
    assert made.turn().ending is Ending.DONE
    whole = "".join(text for text, _ in begun) + last
    for reader, read in READERS.items():
        assert read(made.journal.facts).strip() == whole.strip(), reader


def test_reply_that_could_not_be_used_is_replaced_by_the_next() -> None:
    replies = [reply("ONE ", stop="length"), reply("TW", stop="error"), reply("TWO")]
    made = bench(replies)
    made.turn()
    assert tallied(made.journal.facts) == "ONE TWO"


def test_an_empty_continuation_ends_an_answer() -> None:
    made = bench([reply("All of it.", stop="length"), reply()])
    assert made.turn().ending is Ending.DONE
    assert tallied(made.journal.facts) == "All of it."


def test_each_turn_has_an_answer_of_its_own() -> None:
    made = bench([reply("ONE ", stop="length"), reply("TWO"), reply("THREE")])
    made.turn()
    made.turn()
    assert tallied(made.journal.facts) == "THREE"
