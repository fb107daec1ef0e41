"""What the person says while a turn is running: told to the model before its next reply."""

from collections.abc import Sequence
from itertools import takewhile

from agentcli.agent.loop import Notices
from agentcli.types.events import Told, Warned, Why
from agentcli.types.messages import Content
from agentcli.types.record import dataclass


@dataclass(slots=True, kw_only=True)
class Steered:
    """A message that waits to be told."""

    text: str
    attached: Content | None = None
    """What goes with it; None: that is still being read, and the message waits for it."""


class Steering:
    def __init__(self, notices: Notices) -> None:
        """`notices`: what the model has to be told besides."""
        self._notices = notices
        self._waiting: list[Steered] = []

    def add(self, text: str) -> Steered:
        """To be told as soon as somebody says what is attached to it."""
        steered = Steered(text=text)
        self._waiting.append(steered)
        return steered

    @property
    def waiting(self) -> list[str]:
        """What the model has not been told yet."""
        return [steered.text for steered in self._waiting]

    def take_back(self) -> list[str]:
        """What the turn ended too early to be told."""
        waiting, self._waiting = self._waiting, []
        return [steered.text for steered in waiting]

    def notices(self) -> Sequence[Told | Warned]:
        """In the order in which it was said."""
        ready = [*takewhile(lambda one: one.attached is not None, self._waiting)]
        self._waiting = self._waiting[len(ready) :]
        said = [Told(text=one.text, why=Why.PERSON, attached=one.attached or ()) for one in ready]
        return [*self._notices(), *said]
