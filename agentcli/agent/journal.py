"""All that happened in a session, told to its listeners in one order.

A fact is recorded before anybody else learns of it; when the record cannot be written the session
stops. A listener that fails is a broken screen: it is dropped, and the session goes on.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from agentcli.agent.history import History
from agentcli.system import clock
from agentcli.types.answers import AnswerParts
from agentcli.types.deltas import Delta
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    Entry,
    Event,
    Fact,
    HookRan,
    ModelReplied,
)
from agentcli.types.messages import ToolCall, UserMessage
from agentcli.types.provider import Message
from agentcli.types.tools import ToolResult

Record: TypeAlias = Callable[[Entry], None]
Listener: TypeAlias = Callable[[Event], None]
Mask: TypeAlias = Callable[[Event], Iterable[Event]]
"""An event without what nobody may see, and before it what was held back of earlier ones."""

log = logging.getLogger(__name__)


class Journal:
    def __init__(
        self,
        session: str,
        *,
        record: Record,
        listeners: Iterable[Listener] = (),
        past_entries: Iterable[Entry] = (),
        last_seq: int = 0,
        mask: Mask = lambda event: (event,),
    ) -> None:
        """`before`: the entries of a session that is being resumed, and `last_seq` the number of
        its last record, which may be one that this version does not know."""
        self.session = session
        self.facts: list[Fact] = []
        self._record = record
        self._listeners = list(listeners)
        self._mask = mask
        self._history = History()
        self._answer = AnswerParts()
        self._seq = 0
        self._cause: int | None = None
        self._cause_of_call: dict[str, int] = {}
        for entry in past_entries:
            self._apply(entry)
        self._seq = max(self._seq, last_seq)

    def append(self, event: Event) -> None:
        for shown in self._mask(event):
            if not isinstance(shown, Delta):
                self._record_fact(shown, original=event)
            for listener in tuple(self._listeners):
                self._notify(listener, shown)

    def append_silently(self, fact: Fact) -> None:
        """Recorded, but shown to nobody: how something ended that no face has seen begin."""
        for shown in self._mask(fact):
            if not isinstance(shown, Delta):
                self._record_fact(shown, original=fact)

    def find_open_calls(self) -> tuple[ToolCall, ...]:
        return self._history.find_open_calls()

    def list_user_messages(self) -> tuple[UserMessage, ...]:
        return self._history.list_user_messages()

    def list_preserved_messages(self, left_out: int) -> tuple[UserMessage, ...]:
        return self._history.list_preserved_messages(left_out)

    def build_missing_results(self) -> tuple[ToolResult, ...]:
        return self._history.build_missing_results()

    def answer(self) -> str:
        """Return the answer of the turn so far, as the model wrote it."""
        return self._answer.text

    def build_messages(self) -> tuple[Message, ...]:
        return self._history.build_messages()

    def _build_entry(self, fact: Fact) -> Entry:
        return Entry(
            seq=self._seq + 1,
            at=clock.now(),
            session=self.session,
            parent=self._cause_of_call.get(_find_call_id(fact) or "", self._cause),
            fact=fact,
        )

    def _record_fact(self, fact: Fact, *, original: Event) -> None:
        entry = self._build_entry(fact)
        self._record(entry)
        self._apply(entry, original=original)

    def _apply(self, entry: Entry, *, original: Event | None = None) -> None:
        self._seq = entry.seq
        self.facts.append(entry.fact)
        # A reply goes back to its model as it came: it knows it, and signatures hold.
        kept = original if isinstance(original, ModelReplied) else entry.fact
        self._history.add(kept)
        self._answer(kept)
        call_id = _find_call_id(entry.fact)
        if call_id is not None:
            self._cause_of_call[call_id] = entry.seq
            return
        self._cause = entry.seq
        if isinstance(entry.fact, ModelReplied):
            for call in entry.fact.message.tool_calls:
                self._cause_of_call[call.id] = entry.seq

    def _notify(self, listener: Listener, event: Event) -> None:
        try:
            listener(event)
        except Exception:  # a face that breaks must not take the session with it
            log.exception("a listener failed and is no longer told")
            self._listeners.remove(listener)


def _find_call_id(fact: Fact) -> str | None:
    match fact:
        case CallJudged(call=call):
            return call.id
        case CallFinished(result=result):
            return result.call_id
        case HookRan(call_id=call_id) | Checkpointed(call_id=call_id):
            return call_id or None
        case _:
            return None
