"""Messages that were sent while a turn was running: they wait for its end, or go back to edit."""

from collections.abc import Sequence

SHOWN_ROWS = 3


class MessageQueue:
    def __init__(self) -> None:
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> None:
        self._texts.append(text)

    def take(self) -> str:
        """All of them as one message; the queue is empty then."""
        text = "\n".join(self._texts)
        self._texts.clear()
        return text

    def render_rows(self) -> list[str]:
        return render_waiting_rows(self._texts, "queued")


def render_waiting_rows(texts: Sequence[str], what: str) -> list[str]:
    """What stands above the input of messages that wait: never more than three rows."""
    shown = [f"  {what}: {' '.join(text.split())}" for text in texts[-SHOWN_ROWS:]]
    if len(texts) > SHOWN_ROWS:
        shown[0] = f"  … {len(texts) - SHOWN_ROWS + 1} more {what}"
    return shown
