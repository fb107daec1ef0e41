from agentcli.agent.history import build_messages
from agentcli.types.errors import Ending
from agentcli.types.events import (
    Compacted,
    ContextNote,
    Fact,
    ModelFailed,
    Restored,
    TurnEnded,
    TurnWithdrawn,
)
from agentcli.types.messages import Text
from tests.support.record import DONE, asked, replied

FAILED = (
    ModelFailed(kind="network", message="offline"),
    TurnEnded(ending=Ending.PROVIDER_FAILED),
)


def said(*facts: Fact) -> list[str]:
    found = build_messages(facts)
    texts = [message.content for message in found if not hasattr(message, "results")]
    return [block.text for content in texts for block in content if isinstance(block, Text)]


def test_withdrawn_message_is_not_told_and_what_was_told_with_it_is() -> None:
    note = ContextNote(text="background", why="background")
    facts = (asked("go"), note, *FAILED, TurnWithdrawn(), asked("go"), replied(text="Here."), DONE)
    assert said(*facts) == ["background", "go", "Here."]


def test_only_the_last_of_two_equal_messages_is_withdrawn() -> None:
    facts = (asked("go"), replied(text="Once."), DONE, asked("go"), *FAILED, TurnWithdrawn())
    assert said(*facts) == ["go", "Once."]


def test_answered_message_cannot_be_withdrawn() -> None:
    assert said(asked("go"), replied(text="Here."), DONE, TurnWithdrawn()) == ["go", "Here."]


def test_withdrawing_twice_takes_back_one() -> None:
    facts = (asked("a"), *FAILED, asked("b"), *FAILED, TurnWithdrawn(), TurnWithdrawn())
    assert said(*facts) == ["a"]


def test_withdrawn_message_stays_away_when_all_is_told_again() -> None:
    shortened = Compacted(summary="so far", tokens_before=9)
    before = (asked("a"), replied(text="A."), DONE, asked("b"), shortened, *FAILED, TurnWithdrawn())
    assert [text for text in said(*before) if text in ("a", "b")] == ["a"]
    assert said(*before, Restored()) == ["a", "A."]
