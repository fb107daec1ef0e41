"""What the person says while a turn is running: told to the model before its next reply."""

from collections.abc import Sequence

from agentcli.agent.history import BY_THE_PERSON
from agentcli.agent.loop import Notices
from agentcli.types.events import Told, Warned


class Steering:
    def __init__(self, notices: Notices) -> None:
        """`notices`: what the model has to be told besides."""
        self._notices = notices
        self._waiting: list[str] = []

    def add(self, text: str) -> None:
        self._waiting.append(text)

    def take_back(self) -> list[str]:
        """What the turn ended too early to be told."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def notices(self) -> Sequence[Told | Warned]:
        said = [Told(text=text, why=BY_THE_PERSON) for text in self.take_back()]
        return [*self._notices(), *said]
