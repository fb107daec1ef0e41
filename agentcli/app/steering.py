"""What the person says while a turn is running: told to the model before its next reply."""

from collections.abc import Sequence
from itertools import takewhile

from agentcli.agent.loop import CollectNotes
from agentcli.types.events import ContextNote, NoteReason, Warned
from agentcli.types.messages import Content
from agentcli.types.record import dataclass


@dataclass(slots=True, kw_only=True)
class SteeringMessage:
    """A message that waits to be told."""

    text: str
    attachments: Content | None = None
    """What goes with it; None: that is still being read, and the message waits for it."""


class Steering:
    def __init__(self, collect_notes: CollectNotes) -> None:
        """`notices`: what the model has to be told besides."""
        self._collect_notes = collect_notes
        self._waiting: list[SteeringMessage] = []

    def add(self, text: str) -> SteeringMessage:
        """To be told as soon as somebody says what is attached to it."""
        steered = SteeringMessage(text=text)
        self._waiting.append(steered)
        return steered

    @property
    def waiting(self) -> list[str]:
        """What the model has not been told yet."""
        return [steered.text for steered in self._waiting]

    def take_unsent(self) -> list[str]:
        """What the turn ended too early to be told."""
        waiting, self._waiting = self._waiting, []
        return [steered.text for steered in waiting]

    def collect_notes(self) -> Sequence[ContextNote | Warned]:
        """In the order in which it was said."""
        ready = [*takewhile(lambda one: one.attachments is not None, self._waiting)]
        self._waiting = self._waiting[len(ready) :]
        said = [
            ContextNote(text=one.text, why=NoteReason.USER, attached=one.attachments or ())
            for one in ready
        ]
        return [*self._collect_notes(), *said]
