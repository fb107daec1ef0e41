import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from agentcli.agent.compaction import Compactor, load_instruction
from agentcli.agent.journal import Journal
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.events import (
    CallFinished,
    Compacted,
    ContextNote,
    ModelReplied,
    NoteReason,
    Restored,
    ResultsTrimmed,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, Text, ToolCall, Usage, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult
from tests.support.session import ListWire, Reply, reply, serve

WINDOW = 32_000
FIRST = "Rename the module everywhere."
RULE = "Never touch the vendored directory."


class Conversation:
    """A session's facts, told step by step, with room made before each request."""

    def __init__(self, replies: list[Reply], *, window: int | None = WINDOW) -> None:
        self.journal = Journal("test", record=lambda entry: None)
        self.wire = ListWire(replies)
        self.room = Compactor(
            self.journal, window=lambda: window, store_result=lambda result: "out/r.txt"
        )
        self._numbers: Iterator[int] = count(1)
        self.journal.append(ContextNote(text=RULE, why=NoteReason.INSTRUCTIONS))

    def request(self) -> Request:
        return Request(model="m", system="s", messages=self.journal.history.build_messages())

    def said(self, text: str) -> None:
        self.journal.append(TurnStarted(message=UserMessage(content=(Text(text=text),))))

    def called(self, result: str) -> None:
        number = next(self._numbers)
        call = ToolCall(id=f"c{number}", name="read_file", input={"path": f"src/{number}.py"})
        message = AssistantMessage(content=(call,), stop="tool_calls", protocol="t", model="m")
        self.journal.append(ModelReplied(message=message))
        content = (Text(text=result),)
        answer = ToolResult(call_id=call.id, name=call.name, status="ok", content=content)
        self.journal.append(CallFinished(result=answer))

    def make_room(self) -> None:
        asyncio.run(self.room.fit_request(self.request(), by=[serve(self.wire, lambda usage: 0.5)]))

    def overflow(self) -> bool:
        return asyncio.run(self.room.recover_from_overflow(self.request(), by=[serve(self.wire)]))


def text_of(messages: tuple[Message, ...]) -> str:
    blocks = [
        block
        for message in messages
        for block in (
            [each for result in message.results for each in result.content]
            if isinstance(message, ToolMessage)
            else message.content
        )
    ]
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def test_nothing_is_shortened_while_there_is_room() -> None:
    talk = Conversation([])
    talk.said(FIRST)
    talk.called("a line\n" * 100)
    before = talk.journal.history.build_messages()
    talk.make_room()
    assert talk.journal.history.build_messages() == before


def test_old_results_give_way_before_anything_else() -> None:
    talk = Conversation([])
    talk.said(FIRST)
    for _ in range(12):
        talk.called("x" * 6_000)
    talk.make_room()
    trimmed = [fact for fact in talk.journal.facts if isinstance(fact, ResultsTrimmed)]
    assert len(trimmed) == 1
    assert {result.call_id for result in trimmed[0].results} == {f"c{n}" for n in range(1, 10)}
    told = text_of(talk.journal.history.build_messages())
    assert "[read_file src/1.py: ok, 1 lines; left out to make room, all of it is in" in told
    assert told.count("x" * 6_000) == 3
    assert talk.wire.requests == []


def test_a_result_is_not_trimmed_where_that_frees_too_little() -> None:
    talk = Conversation([], window=WINDOW)
    talk.said("word " * 12_000)
    talk.called("x" * 3_000)
    talk.make_room()
    assert not any(isinstance(fact, ResultsTrimmed) for fact in talk.journal.facts)


def test_a_summary_leaves_what_the_person_and_the_project_said() -> None:
    talk = Conversation([reply("Half of it is done.", usage=Usage(output_tokens=7))])
    talk.said(FIRST)
    for number in range(30):
        talk.called("y" * 500)
        talk.journal.append(
            ContextNote(text=f"note {number} " + "z" * 3_000, why=NoteReason.BACKGROUND)
        )
    talk.said("And the tests, too.")
    talk.make_room()
    compacted = talk.journal.facts[-1]
    assert isinstance(compacted, Compacted)
    assert (compacted.summary, compacted.cost_usd, compacted.left_out) == (
        "Half of it is done.",
        0.5,
        0,
    )
    messages = talk.journal.history.build_messages()
    *kept, replied, answered, noted = messages
    assert all(isinstance(message, UserMessage) for message in kept)
    told = text_of(tuple(kept))
    assert [told.count(part) for part in (RULE, FIRST, "And the tests, too.")] == [1, 1, 1]
    assert told.endswith("Half of it is done.")
    assert (replied.role, text_of((answered,))) == ("assistant", "y" * 500)
    assert text_of((noted,)).startswith("note 29 ")
    assert "note 29 " not in text_of(talk.wire.requests[0].messages)
    assert load_instruction() in text_of(talk.wire.requests[0].messages)
    assert talk.wire.requests[0].tool_choice == "none"


def test_everything_can_be_told_again() -> None:
    talk = Conversation([reply("Short.")])
    talk.said(FIRST)
    for _ in range(40):
        talk.called("x" * 3_000)
    full = talk.journal.history.build_messages()
    assert talk.overflow()
    assert text_of(talk.journal.history.build_messages()) != text_of(full)
    talk.journal.append(Restored())
    assert talk.journal.history.build_messages() == full


def test_a_conversation_that_does_not_fit_is_summarised_from_its_last_part() -> None:
    overflow = ProviderError("too long", kind=ProviderErrorKind.OVERFLOW)
    talk = Conversation([overflow, reply("Short.")])
    talk.said(FIRST)
    for number in range(60):
        talk.said(f"{number} " + "z" * 3_000)
    assert talk.overflow()
    whole, part = talk.wire.requests
    assert len(part.messages) < len(whole.messages)
    compacted = talk.journal.facts[-1]
    assert isinstance(compacted, Compacted)
    assert compacted.left_out > 0
    assert FIRST in text_of(talk.journal.history.build_messages())
    assert "59 zzz" in text_of(talk.journal.history.build_messages())


def test_a_summary_that_fails_is_said_and_changes_nothing() -> None:
    talk = Conversation([ProviderError("no", kind=ProviderErrorKind.UNAVAILABLE)])
    talk.said(FIRST)
    before = talk.journal.history.build_messages()
    assert talk.overflow() is False
    assert talk.journal.history.build_messages() == before
    assert talk.journal.facts[-1] == Warned(
        code="compaction.failed", message="the conversation was not compacted: no"
    )


def test_no_summary_is_made_where_the_window_is_not_known() -> None:
    talk = Conversation([], window=None)
    talk.said("word " * 100_000)
    talk.make_room()
    assert talk.wire.requests == []


def test_a_long_session_stays_within_the_window_at_the_same_cost() -> None:
    talk = Conversation([reply(f"Summary {number}.") for number in range(200)])
    talk.said(FIRST)
    sizes = []
    for number in range(400):
        talk.called(f"result {number} " + "x" * 4_000)
        talk.journal.append(ContextNote(text="done " * 200, why=NoteReason.BACKGROUND))
        talk.make_room()
        messages = talk.journal.history.build_messages()
        told = text_of(messages)
        sizes.append(len(told))
        assert told.count(RULE) == 1
        assert told.count(FIRST) == 1
        calls = [
            call.id
            for message in messages
            if isinstance(message, AssistantMessage)
            for call in message.tool_calls
        ]
        answered = [
            result.call_id
            for message in messages
            if isinstance(message, ToolMessage)
            for result in message.results
        ]
        assert calls == answered
    assert max(sizes) / 3 < WINDOW
    assert max(sizes[300:]) < 1.2 * max(sizes[50:150])


def test_last_request_stays_however_long_it_is() -> None:
    talk = Conversation([reply("Short.")])
    talk.said(FIRST)
    talk.said("dropped " * 2_000)
    for _ in range(60):
        talk.journal.append(ContextNote(text="z" * 1_500, why=NoteReason.BACKGROUND))
    last = "the long list: " + "item " * 9_000
    talk.said(last)
    talk.make_room()
    compacted = talk.journal.facts[-1]
    assert isinstance(compacted, Compacted)
    assert compacted.left_out == 1
    told = text_of(talk.journal.history.build_messages())
    assert [told.count(part) for part in (FIRST, "dropped", last)] == [1, 0, 1]


def test_accepted_plan_outlives_every_summary() -> None:
    talk = Conversation([reply("Short."), reply("Shorter.")])
    talk.said(FIRST)
    talk.journal.append(ContextNote(text="The plan: 1, 2, 3.", why=NoteReason.PLAN))
    for _ in range(2):
        for _ in range(60):
            talk.journal.append(ContextNote(text="z" * 1_500, why=NoteReason.BACKGROUND))
        talk.make_room()
        assert isinstance(talk.journal.facts[-1], Compacted)
        assert text_of(talk.journal.history.build_messages()).count("The plan: 1, 2, 3.") == 1


def test_window_that_is_too_small_for_the_task_is_said_at_once() -> None:
    talk = Conversation([], window=1_000)
    talk.said("word " * 2_000)
    with pytest.raises(ProviderError) as caught:
        talk.make_room()
    assert caught.value.kind is ProviderErrorKind.OVERFLOW
    assert str(caught.value).startswith("the window of 1000 tokens is too small: ")
    assert (talk.overflow(), talk.wire.requests) == (False, [])
