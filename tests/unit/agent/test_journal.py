from collections.abc import Callable
from dataclasses import replace

import pytest

from agentcli.agent.journal import Journal
from agentcli.types.deltas import TextDelta
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    CallJudged,
    ContextNote,
    Entry,
    Event,
    HostJudged,
    ModelReplied,
    TurnEnded,
)
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Verdict
from tests.support.session import FunctionTool, bench, call, reply


def test_deltas_are_shown_and_not_kept() -> None:
    entries: list[Entry] = []
    shown: list[Event] = []
    journal = Journal("s", record=entries.append, listeners=[shown.append])
    journal.append(TextDelta(text="a"))
    assert (entries, journal.facts, shown) == ([], [], [TextDelta(text="a")])


def test_fact_is_recorded_before_anybody_is_told() -> None:
    order: list[str] = []

    def noted(word: str) -> Callable[[object], None]:
        return lambda _: order.append(word)

    journal = Journal("s", record=noted("disk"), listeners=[noted("screen")])
    journal.append(ContextNote(text="a", why="b"))
    assert order == ["disk", "screen"]


def test_fact_that_cannot_be_recorded_is_told_to_nobody() -> None:
    shown: list[Event] = []

    def full(entry: Entry) -> None:
        raise SettingsError("no space left")

    journal = Journal("s", record=full, listeners=[shown.append])
    with pytest.raises(SettingsError):
        journal.append(ContextNote(text="a", why="b"))
    assert (journal.facts, shown) == ([], [])


def test_broken_listener_is_dropped_and_the_others_go_on() -> None:
    shown: list[Event] = []
    calls: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise ValueError("the screen is gone")

    journal = Journal("s", record=lambda entry: None, listeners=[broken, shown.append])
    journal.append(ContextNote(text="1", why=""))
    journal.append(ContextNote(text="2", why=""))
    assert (len(calls), len(shown)) == (1, 2)


def test_every_entry_names_the_entry_that_caused_it() -> None:
    calls = [call("do", "a", n=1), call("do", "b", n=2)]
    done = bench([reply(*calls), reply("ok")], [FunctionTool("do", lambda args, context: "x")])
    done.turn()
    told = [(entry.seq, entry.fact.type, entry.parent) for entry in done.entries]
    assert told == [
        (1, "turn_started", None),
        (2, "model_replied", 1),
        (3, "call_judged", 2),
        (4, "call_finished", 3),
        (5, "call_judged", 2),
        (6, "call_finished", 5),
        (7, "model_replied", 2),
        (8, "turn_ended", 7),
    ]
    assert isinstance(done.entries[-1].fact, TurnEnded)


def test_host_that_a_command_reached_is_caused_by_its_call() -> None:
    entries: list[Entry] = []
    journal = Journal("s", record=entries.append)
    verdict = Verdict(decision="allow", by="rule", reason="")
    made = call("bash", "a", command="curl docs.example.org")
    journal.append(CallJudged(call=made, effect=Effect.EXECUTE, verdict=verdict))
    journal.append(ContextNote(text="x", why=""))
    journal.append(HostJudged(call_id="a", host="docs.example.org", port=443, verdict=verdict))
    assert [(one.seq, one.parent) for one in entries][-1] == (3, 1)


def test_masked_reply_is_recorded_and_goes_back_to_the_model_as_it_was() -> None:
    entries: list[Entry] = []
    shown: list[Event] = []

    def mask(event: Event) -> list[Event]:
        text = TextDelta(text="held back")
        if isinstance(event, ModelReplied):
            return [text, ModelReplied(message=replace(event.message, content=(Text(text="***"),)))]
        return [ContextNote(text="***", why="")] if isinstance(event, ContextNote) else [event]

    journal = Journal("s", record=entries.append, listeners=[shown.append], mask=mask)
    message = AssistantMessage(content=(Text(text="secret"),), stop="end", protocol="p", model="m")
    said = ModelReplied(message=message)
    journal.append(said)
    journal.append(ContextNote(text="secret", why=""))

    masked = replace(said, message=replace(said.message, content=(Text(text="***"),)))
    told = ContextNote(text="***", why="")
    assert [entry.fact for entry in entries] == [masked, told]
    assert shown == [TextDelta(text="held back"), masked, told]
    assert journal.history.build_messages() == (
        said.message,
        UserMessage(content=(Text(text="***"),)),
    )
