"""The events of a session, recorded and published to its listeners in one order.

A fact is recorded before any listener sees it. If it cannot be recorded, the session stops. A
listener that fails is only a broken display: it is dropped, and the session continues.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from agentcli.agent.history import History
from agentcli.system import clock
from agentcli.types.answers import AnswerParts
from agentcli.types.deltas import Delta
from agentcli.types.events import (
    Entry,
    Event,
    Fact,
    ModelReplied,
    find_call_id,
)

Record: TypeAlias = Callable[[Entry], None]
Listener: TypeAlias = Callable[[Event], None]
Mask: TypeAlias = Callable[[Event], Iterable[Event]]
"""Returns an event without secrets, after the parts of earlier events that were held back."""

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
        """`past_entries` are the entries of a resumed session. `last_seq` is the number of its last
        record, which this version may not know."""
        self.session = session
        self.facts: list[Fact] = []
        self.times: list[str] = []
        """The time of each of the facts."""
        self._record = record
        self._listeners = list(listeners)
        self._mask = mask
        self.history = History()
        """The conversation that the facts make."""
        self._answer = AnswerParts()
        self._seq = 0
        self._cause: int | None = None
        self._cause_of_call: dict[str, int] = {}
        for entry in past_entries:
            self._apply(entry)
        self._seq = max(self._seq, last_seq)

    def subscribe(self, listener: Listener) -> None:
        """Publish all further events to this listener, too."""
        self._listeners.append(listener)

    def append(self, event: Event) -> None:
        for shown in self._mask(event):
            if not isinstance(shown, Delta):
                self._record_fact(shown, original=event)
            for listener in tuple(self._listeners):
                self._notify(listener, shown)

    def append_silently(self, fact: Fact) -> None:
        """Record a fact without publishing it: the end of something that no front end saw begin."""
        for shown in self._mask(fact):
            if not isinstance(shown, Delta):
                self._record_fact(shown, original=fact)

    def answer(self) -> str:
        """Return the answer of the turn so far, as the model wrote it."""
        return self._answer.text

    def _build_entry(self, fact: Fact) -> Entry:
        return Entry(
            seq=self._seq + 1,
            at=clock.now(),
            session=self.session,
            parent=self._cause_of_call.get(find_call_id(fact), self._cause),
            fact=fact,
        )

    def _record_fact(self, fact: Fact, *, original: Event) -> None:
        entry = self._build_entry(fact)
        self._record(entry)
        self._apply(entry, original=original)

    def _apply(self, entry: Entry, *, original: Event | None = None) -> None:
        self._seq = entry.seq
        self.facts.append(entry.fact)
        self.times.append(entry.at)
        # A reply goes back to its model unmasked: the model knows it, and signatures stay valid.
        fact = original if isinstance(original, ModelReplied) else entry.fact
        self.history.add(fact)
        self._answer(fact)
        if call_id := find_call_id(entry.fact):
            self._cause_of_call[call_id] = entry.seq
            return
        self._cause = entry.seq
        if isinstance(entry.fact, ModelReplied):
            for call in entry.fact.message.tool_calls:
                self._cause_of_call[call.id] = entry.seq

    def _notify(self, listener: Listener, event: Event) -> None:
        try:
            listener(event)
        except Exception:  # a front end that breaks must not take the session with it
            log.exception("a listener failed and was removed")
            self._listeners.remove(listener)
