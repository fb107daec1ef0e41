import copy
import gc
import os
import pickle
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.history import build_messages
from agentcli.agent.journal import RECENT_FACTS, Journal
from agentcli.log.reopen import Unread, is_read
from agentcli.log.writer import LogWriter
from agentcli.types.errors import SettingsError
from agentcli.types.events import CallFinished, Event, Fact, ModelReplied, TurnStarted
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult
from tests.support.record import STARTED, asked, call, finished, judged, replied


def iter_facts(steps: int, text: str = "é 😀") -> Iterator[Fact]:
    yield STARTED
    yield asked("go")
    for step in range(steps):
        made = call(f"call_{step}")
        yield replied(made, text=f"{text} {step}")
        yield judged(made)
        yield finished(made, text=f"{text} {step}")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    writer = LogWriter(tmp_path / "log.jsonl")
    yield writer
    writer.close()


def record(log: LogWriter, steps: int = RECENT_FACTS) -> Journal:
    journal = Journal("s", record=log.append)
    for fact in iter_facts(steps):
        journal.append(fact)
    return journal


def count_open(path: Path) -> int:
    """The descriptors of this process that are open on a file."""
    count = 0
    for descriptor in range(256):
        with suppress(OSError):  # it is not open
            count += os.path.samestat(os.fstat(descriptor), path.stat())
    return count


def find_reply(journal: Journal) -> ModelReplied:
    return next(fact for fact in journal.facts if isinstance(fact, ModelReplied))


def test_old_facts_of_a_session_are_read_from_its_log(log: LogWriter) -> None:
    journal = record(log)
    old = [fact for fact in journal.facts[:-RECENT_FACTS] if not isinstance(fact, TurnStarted)]
    assert all(isinstance(fact, Unread) for fact in old[1:])
    assert not any(isinstance(fact, Unread) for fact in journal.facts[-RECENT_FACTS:])
    assert journal.facts == list(iter_facts(RECENT_FACTS))
    assert all(map(is_read, journal.facts))


def test_conversation_is_the_same_fold(log: LogWriter) -> None:
    journal = record(log)
    messages = journal.history.build_messages()
    assert isinstance(messages[1], Unread)
    assert messages == build_messages(iter_facts(RECENT_FACTS))
    assert build_messages(journal.facts) == messages


def test_message_stays_the_same_object(log: LogWriter) -> None:
    journal = Journal("s", record=log.append)
    facts = iter_facts(RECENT_FACTS)
    for _ in range(5):
        journal.append(next(facts))
    before = journal.history.build_messages()
    for fact in facts:
        journal.append(fact)
    after = journal.history.build_messages()
    assert all(one is other for one, other in zip(before, after, strict=False))
    assert isinstance(before[1], Unread)


@pytest.mark.parametrize(
    "use",
    [repr, hash, copy.copy, copy.deepcopy, replace, lambda it: pickle.loads(pickle.dumps(it))],
)
def test_value_is_used_as_any_other(log: LogWriter, use: Any) -> None:
    result = next(fact for fact in record(log).facts if isinstance(fact, CallFinished)).result
    message = record(log).history.build_messages()[2]
    assert isinstance(message, ToolMessage)
    stored = message.results[0]
    assert isinstance(stored, Unread)
    assert use(stored) == use(result)
    assert isinstance(stored, Unread)


def test_value_is_matched_and_changed_as_any_other(log: LogWriter) -> None:
    reply = record(log).history.build_messages()[1]
    match reply:
        case AssistantMessage(role="assistant", content=(Text(text=text), ToolCall(id=call_id))):
            assert (text, call_id) == ("é 😀 0", "call_0")
        case _:
            pytest.fail("it is not matched")
    assert replied().message != reply
    changed = replace(reply, content=())
    assert type(changed) is AssistantMessage
    assert changed.tool_calls == ()
    assert [one.id for one in reply.tool_calls] == ["call_0"]


def test_result_has_its_other_fields(log: LogWriter) -> None:
    journal = Journal("s", record=log.append)
    journal.append(finished(call("a"), error=ErrorKind.TIMEOUT))
    for fact in iter_facts(RECENT_FACTS):
        journal.append(fact)
    match journal.facts[0]:
        case CallFinished(result=ToolResult(error=ErrorKind.TIMEOUT, status="error", found=())):
            assert isinstance(journal.facts[0], Unread)
        case other:
            pytest.fail(f"it is not matched: {other}")


def test_removed_and_closed_log_can_still_be_read(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log.jsonl")
    journal = record(log)
    log.close()
    log.path.unlink()
    assert find_reply(journal).message.text == "é 😀 0"


def test_log_that_was_changed_is_named(log: LogWriter) -> None:
    journal = record(log)
    os.truncate(log.path, 100)
    with pytest.raises(SettingsError, match="log of this session has been changed"):
        assert find_reply(journal).message


def test_file_is_closed_with_the_last_fact(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log.jsonl")
    journal = record(log)
    log.close()
    assert count_open(log.path) == 1
    del journal
    gc.collect()
    assert count_open(log.path) == 0


def test_text_that_the_log_cannot_hold_stays_in_memory(log: LogWriter) -> None:
    journal = Journal("s", record=log.append)
    journal.append(replied(text="a \ud800"))
    for fact in iter_facts(RECENT_FACTS):
        journal.append(fact)
    assert not isinstance(journal.facts[0], Unread)
    assert find_reply(journal).message.text == "a \ud800"


def test_model_gets_its_own_words_back_unmasked(log: LogWriter) -> None:
    def mask(event: Event) -> Iterator[Event]:
        is_secret = isinstance(event, ModelReplied) and "secret" in event.message.text
        yield replied(text="***") if is_secret else event

    journal = Journal("s", record=log.append, mask=mask)
    journal.append(replied(text="a secret"))
    for fact in iter_facts(RECENT_FACTS):
        journal.append(fact)
    reply = journal.history.build_messages()[0]
    assert isinstance(reply, AssistantMessage)
    assert reply.text == "a secret"
    assert find_reply(journal).message.text == "***"


def test_many_threads_read_while_facts_are_put_away(log: LogWriter) -> None:
    journal = Journal("s", record=log.append)
    replies = [replied(text=f"{number} {'x' * 900}") for number in range(600)]

    def read_all() -> list[str]:
        return [fact.message.text.split()[0] for fact in replies]

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(read_all) for _ in range(8)]
        for fact in replies:
            journal.append(fact)
        expected = [str(number) for number in range(600)]
        assert all(one.result() == expected for one in running)


def test_turns_add_less_memory_than_they_add_to_the_log(log: LogWriter) -> None:
    journal = record(log, steps=100)
    gc.collect()
    before_bytes = log.path.stat().st_size
    tracemalloc.start()
    for fact in iter_facts(1000, text="x" * 400):
        journal.append(fact)
    gc.collect()
    added_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert added_bytes < log.path.stat().st_size - before_bytes
    assert isinstance(journal.history.build_messages()[0], UserMessage)
