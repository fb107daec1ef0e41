from collections.abc import Iterable

import pytest

from agentcli.agent.context_notes import (
    ACCEPTED,
    BEGINS,
    CHANGED,
    DEPARTING,
    ENDS,
    TICKING,
    PlanTracker,
)
from agentcli.agent.history import build_messages
from agentcli.types.errors import Ending
from agentcli.types.events import (
    Compacted,
    ContextNote,
    Fact,
    ModeChanged,
    ModelReplied,
    NoteReason,
    SessionStarted,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from tests.support.session import reply

PROPOSED = "1. Read.\n\n2. Write."


def started(mode: str) -> SessionStarted:
    return SessionStarted(
        session="s", version="1", workspace="/w", model="m", mode=mode, tools=(), tools_sha256=""
    )


def asked(text: str = "Plan it.") -> TurnStarted:
    return TurnStarted(message=UserMessage(content=(Text(text=text),)))


def replied(text: str) -> ModelReplied:
    message = reply(text)
    assert isinstance(message, AssistantMessage)
    return ModelReplied(message=message)


def turn(answer: str, *, ending: Ending = Ending.DONE) -> list[Fact]:
    return [asked(), replied(answer), TurnEnded(ending=ending)]


def told_by(planning: PlanTracker) -> list[str]:
    """What it has to say now, and hears itself say."""
    notices = planning.collect_notes()
    for told in notices:
        planning(told)
    return [told.text for told in notices]


def texts(facts: Iterable[Fact]) -> list[str]:
    found = [message for message in build_messages(facts) if isinstance(message, UserMessage)]
    return [block.text for message in found for block in message.content if block.type == "text"]


def test_answer_of_a_turn_in_plan_mode_is_the_plan() -> None:
    planning = PlanTracker([started("plan"), *turn(PROPOSED)])
    assert (planning.proposed, planning.accepted) == (PROPOSED, "")


@pytest.mark.parametrize(
    "question",
    [
        "Which database do you mean?",
        "There are two tables named users.\n\nWhich one is meant?",
        "**Which database do you mean?**",
        "Which one?\n- PostgreSQL\n- SQLite, as in the tests",
        "Before I plan:\n1. Which database?\n   - PostgreSQL\n   - SQLite\n2. Is the API fixed?",
        "どのデータベースですか？",
        "Which one (a or b?)",
        "Ok. I have read it.\nWhich one is meant?",
    ],
)
def test_reply_that_only_asks_is_no_plan(question: str) -> None:
    planning = PlanTracker([started("plan"), *turn(question)])
    assert (planning.proposed, planning.asked) == ("", question)
    planning(asked("The first."))
    assert planning.asked == ""


@pytest.mark.parametrize(
    "plan",
    [
        "I change a.py so that it takes a list.",
        "1. Read a.py.\n2. Change it.\n\nShall I go ahead?",
        "- Is a.py used?\n- Change a.py.\n\nWhich of the two first?\nI would begin with a.py.",
        "## Plan\n\nChange a.py.\n\nDoes that look right?",
        "Keep the API?\n\n## Plan\n1. Change a.py.",
        "Should it be fast? Yes, so:\n1. Measure.\n2. Change.\n\nAgreed?",
        "",
    ],
)
def test_reply_with_steps_is_a_plan_whatever_it_ends_with(plan: str) -> None:
    planning = PlanTracker([started("plan"), *turn(plan)])
    assert (planning.proposed, planning.asked) == (plan, "")


def test_turns_in_other_modes_and_unfinished_ones_propose_nothing() -> None:
    assert PlanTracker([started("ask"), *turn(PROPOSED)]).proposed == ""
    assert PlanTracker([started("plan"), *turn(PROPOSED, ending=Ending.LENGTH)]).proposed == ""
    assert PlanTracker([started("plan"), *turn(PROPOSED), asked()]).proposed == ""


def test_model_is_told_once_that_plan_mode_begins_and_once_that_it_ends() -> None:
    planning = PlanTracker([started("ask")])
    assert told_by(planning) == []
    planning(ModeChanged(mode="plan"))
    assert [told_by(planning), told_by(planning)] == [[BEGINS], []]
    planning(ModeChanged(mode="auto"))
    assert [told_by(planning), told_by(planning)] == [[ENDS], []]


def test_summary_makes_plan_mode_be_told_again() -> None:
    planning = PlanTracker([started("plan"), ContextNote(text=BEGINS, why=NoteReason.PLAN_MODE)])
    assert told_by(planning) == []
    planning(Compacted(summary="short", tokens_before=9))
    assert told_by(planning) == [BEGINS]


def test_agreed_plan_is_told_word_for_word_and_ends_the_mode() -> None:
    planning = PlanTracker(
        [started("plan"), ContextNote(text=BEGINS, why=NoteReason.PLAN_MODE), *turn(PROPOSED)]
    )
    agreed = planning.build_accepted_note(PROPOSED)
    told = f"{ACCEPTED}{DEPARTING}{TICKING}\n\n{PROPOSED}"
    assert agreed == ContextNote(text=told, why=NoteReason.PLAN)
    planning(ModeChanged(mode="ask"))
    planning(agreed)
    assert (planning.accepted, planning.proposed, told_by(planning)) == (PROPOSED, "", [])


def test_model_learns_that_the_person_changed_its_plan() -> None:
    planning = PlanTracker([started("plan"), *turn(PROPOSED)])
    assert planning.build_accepted_note("1. Write.").text == f"{CHANGED}{DEPARTING}\n\n1. Write."


def test_latest_plan_outlives_a_summary_and_earlier_ones_do_not() -> None:
    first, second = (
        ContextNote(text="first", why=NoteReason.PLAN),
        ContextNote(text="second", why=NoteReason.PLAN),
    )
    facts: list[Fact] = [
        asked("Do it."),
        first,
        second,
        Compacted(summary="short", tokens_before=9),
    ]
    assert texts(facts)[:2] == ["Do it.", "second"]
    assert len(texts(facts)) == 3


def test_file_that_changed_takes_the_place_of_what_it_said() -> None:
    heading = "Instructions of this project, from AGENTS.md"
    facts: list[Fact] = [
        ContextNote(text=f"{heading}\n\nold", why=NoteReason.INSTRUCTIONS),
        ContextNote(
            text="Instructions of this project, from docs/AGENTS.md\n\ndocs",
            why=NoteReason.INSTRUCTIONS,
        ),
        asked("Do it."),
        ContextNote(text=f"{heading}\n\nnew", why=NoteReason.INSTRUCTIONS),
        Compacted(summary="short", tokens_before=9),
    ]
    assert [text.rpartition("\n")[2] for text in texts(facts)] == ["docs", "Do it.", "new", "short"]


def test_steps_of_the_accepted_plan_are_ticked_off_by_the_model() -> None:
    planning = PlanTracker()
    note = planning.build_accepted_note("# Plan\n1. Read\n   - a detail\n2. Change\n3. Test\n")
    assert TICKING in note.text
    assert TICKING not in planning.build_accepted_note("Just do it.").text
    planning(note)
    states = []
    for said in ("Hm.", "[x] 1", "> - [X] step 2, and [x] 3 not here", "[ ] 2", "[x] 9", "[x] 2"):
        planning(replied(said))
        states.append("".join(step.state[0] for step in planning.steps))
    assert states == ["ipp", "dip", "ddi", "dip", "dip", "ddi"]
    assert planning.progress == "plan 2/3"
    planning(Compacted(summary="short", tokens_before=9))
    assert told_by(planning) == ["Steps of the plan that are done: 1, 2 of 3."]
    assert told_by(planning) == []
    planning(replied("[x] 3"))
    assert planning.progress == "plan 3/3"
    planning(asked("Thanks."))
    assert (planning.progress, planning.steps, bool(planning.accepted)) == ("", (), True)
