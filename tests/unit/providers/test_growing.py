from collections.abc import Sequence

from agentcli.providers.catalog import resolve
from agentcli.providers.dialect import Model
from agentcli.providers.incremental import CONVERSATIONS, count_common_start, make_incremental
from agentcli.types.messages import Text, UserMessage
from agentcli.types.provider import Message

OPUS, SOL = resolve("opus"), resolve("sol")
A, B, C = (UserMessage(content=(Text(text=name),)) for name in "abc")


class Counted:
    """Says what each message is, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, message: Message, before: Message | None, model: Model) -> Sequence[str]:
        assert isinstance(message, UserMessage)
        text = "".join(block.text for block in message.content if isinstance(block, Text))
        self.asked.append(text)
        return [f"{text}{number}" for number in range(2)]


def test_only_what_is_new_is_made() -> None:
    make = Counted()
    made = make_incremental(make)
    assert made([A], OPUS) == ["a0", "a1"]
    assert made([A, B], OPUS) == ["a0", "a1", "b0", "b1"]
    assert made([A, B, C], OPUS, start=1) == ["b0", "b1", "c0", "c1"]
    assert make.asked == ["a", "b", "c"]


def test_conversation_that_took_another_way_is_made_from_there_on() -> None:
    make = Counted()
    made = make_incremental(make)
    made([A, B, C], OPUS)
    assert made([A, C], OPUS) == ["a0", "a1", "c0", "c1"]
    assert made([], OPUS) == []
    assert make.asked == ["a", "b", "c", "c"]


def test_each_model_and_each_conversation_has_its_own() -> None:
    make = Counted()
    made = make_incremental(make)
    for model in (OPUS, SOL):
        for first in (A, B):
            made([first, C], model)
            made([first, C], model)
    assert make.asked == ["a", "c", "b", "c"] * 2


def test_list_belongs_to_who_asked_for_it() -> None:
    made = make_incremental(Counted())
    made([A], OPUS).clear()
    assert made([A], OPUS) == ["a0", "a1"]


def test_few_conversations_are_kept() -> None:
    make = Counted()
    made = make_incremental(make)
    others = [UserMessage(content=(Text(text=str(n)),)) for n in range(CONVERSATIONS)]
    for first in (A, *others, A):
        made([first], OPUS)
    assert make.asked == ["a", *map(str, range(CONVERSATIONS)), "a"]


def test_only_the_same_objects_are_the_same() -> None:
    one, twin = Text(text="x"), Text(text="x")
    assert count_common_start([one, one], [one, twin]) == 1
    assert count_common_start([], [one]) == 0
    assert count_common_start([one, twin], [one, twin, one]) == 2
