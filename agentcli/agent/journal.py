"""The events of a session, recorded and published to its listeners in one order.

A fact is recorded before any listener sees it. If it cannot be recorded, the session stops. A
listener that fails is only a broken display: it is dropped, and the session continues.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from agentcli.agent.history import History
from agentcli.types import events
from agentcli.types.answers import AnswerParts
from agentcli.types.deltas import Delta
from agentcli.types.events import (
    NO_PAST,
    Entry,
    Event,
    Fact,
    ModelReplied,
    PastFacts,
    TurnEnded,
    TurnStarted,
    find_call_id,
    find_last_turn,
)

Record: TypeAlias = Callable[[Entry], Callable[[], None] | None]
"""Records a fact. Returns what lets it be read from there from now on, if that is possible."""
Listener: TypeAlias = Callable[[Event], None]
Mask: TypeAlias = Callable[[Event], Iterable[Event]]
"""Returns an event without secrets, after the parts of earlier events that were held back."""

RECENT_FACTS = 100
"""The number of facts that stay in memory: more than are read again and again."""

log = logging.getLogger(__name__)


class Journal:
    def __init__(
        self,
        session: str,
        *,
        record: Record,
        listeners: Iterable[Listener] = (),
        past: PastFacts = NO_PAST,
        last_seq: int = 0,
        mask: Mask = lambda event: (event,),
    ) -> None:
        """`past` is the past of a resumed session. `last_seq` is the number of its last record,
        which this version may not know."""
        self.session = session
        self.facts: list[Fact] = list(past.facts)
        self.times: list[str] = list(past.times)
        """The time of each of the facts."""
        self._record = record
        self._listeners = list(listeners)
        self._mask = mask
        self.is_in_turn = False
        """True if a turn was started and has not ended."""
        self.history = History(self.facts)
        """The conversation that the facts make."""
        self._recent: deque[Callable[[], None]] = deque()
        """For each of the latest facts, what lets it be read from the log."""
        self._answer = AnswerParts()
        self._seq = 0
        self._cause: int | None = None
        self._cause_of_call: dict[str, int] = {}
        for at in range(find_last_turn(self.facts) if past.facts else 0, len(self.facts)):
            self._answer(self.facts[at])
            self._follow(self.facts[at], past.seqs[at])
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
            at=events.read_clock(),
            session=self.session,
            parent=self._cause_of_call.get(find_call_id(fact), self._cause),
            fact=fact,
        )

    def _record_fact(self, fact: Fact, *, original: Event) -> None:
        entry = self._build_entry(fact)
        self._put_away_old(self._record(entry))
        self.facts.append(fact)
        self.times.append(entry.at)
        # A reply goes back to its model unmasked: the model knows it, and signatures stay valid.
        known = original if isinstance(original, ModelReplied) else fact
        self.history.add(known)
        self._answer(known)
        self._follow(fact, entry.seq)

    def _put_away_old(self, put_away: Callable[[], None] | None) -> None:
        """Let the fact be read from the log once `RECENT_FACTS` others have come."""
        if put_away is not None:
            self._recent.append(put_away)
        if len(self._recent) > RECENT_FACTS:
            self._recent.popleft()()

    def _follow(self, fact: Fact, seq: int) -> None:
        """Note what later facts of the same turn are caused by."""
        self._seq = seq
        if call_id := find_call_id(fact):
            self._cause_of_call[call_id] = seq
            return
        self._cause = seq
        match fact:
            case TurnStarted() | TurnEnded():
                self.is_in_turn = isinstance(fact, TurnStarted)
            case ModelReplied():
                self._cause_of_call |= dict.fromkeys(
                    (one.id for one in fact.message.tool_calls), seq
                )

    def _notify(self, listener: Listener, event: Event) -> None:
        try:
            listener(event)
        except Exception:  # a front end that breaks must not take the session with it
            log.exception("a listener failed and was removed")
            self._listeners.remove(listener)
