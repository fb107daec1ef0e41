"""The answer of a turn, joined from its replies. Only this module decides what belongs to it.

The next reply continues one that paused or stopped at the output limit. The answer is all of its
parts in order, joined exactly as the model wrote them.
"""

from collections.abc import Iterable

from agentcli.types.events import ContextNote, Event, ModelReplied, NoteReason, TurnStarted
from agentcli.types.messages import AssistantMessage

CONTINUED = ("length", "paused")


class AnswerParts:
    """A listener that collects the answer from a session's events."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.last_said = ""
        """The latest reply that is not blank, with everything that it continues."""
        self._before = ""
        """The text that the latest reply continues."""
        self._latest = ""
        self._has_calls = False
        self._stop_reason = ""
        for event in events:
            self(event)

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._before, self._latest, self._has_calls, self._stop_reason = "", "", False, ""
            case ContextNote(why=NoteReason.WRAP_UP) if self._is_continued:
                # A last word is a paragraph of its own, after the text that it interrupts.
                self._latest += "\n\n"
            case ModelReplied(message=message):
                self._add(message)
            case _:
                pass

    @property
    def whole(self) -> str:
        """The latest reply with everything that it continues, even if it makes calls."""
        return self._before + self._latest

    @property
    def text(self) -> str:
        """The answer so far; empty while the latest reply makes calls."""
        return "" if self._has_calls else self.whole

    @property
    def _is_continued(self) -> bool:
        return self._stop_reason in CONTINUED

    def _add(self, message: AssistantMessage) -> None:
        if self._is_continued:
            self._before = self.whole
        elif self._stop_reason != "error":  # after an error the next reply replaces this one
            self._before = ""
        self._latest = message.text
        self._has_calls = bool(message.tool_calls)
        # A reply with calls is no answer yet, and a call that was cut off is made again.
        self._stop_reason = "end" if message.tool_calls or message.cut_off else message.stop
        if self.whole.strip():
            self.last_said = self.whole
