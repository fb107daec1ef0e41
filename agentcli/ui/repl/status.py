"""The one line that says what is going on: a verb, how long, how many tokens, how to stop it."""

import time
from collections.abc import Callable

from prompt_toolkit.utils import get_cwidth

from agentcli.ui.render.summary import tokens

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_FRAMES = "|/-\\"
FRAME_S = 0.125
SILENCE_S = 10.0
"""Without a byte from the model for so long, the line says so."""

MODEL_VERBS = frozenset({"Waiting for model", "Thinking", "Writing"})
CHARACTERS_PER_TOKEN = 4
VERB_COLUMNS_MIN = 12


class Status:
    def __init__(self, *, is_ascii: bool = False, clock: Callable[[], float] = time.monotonic):
        self._frames = ASCII_FRAMES if is_ascii else FRAMES
        self._dot = " - " if is_ascii else " · "
        self._up, self._down = ("in ", "out ") if is_ascii else ("↑", "↓")
        self._clock = clock
        self.began: float | None = None
        """None: nothing is running."""
        self.verb = ""
        self.sent_tokens = 0
        self.received_tokens = 0
        self._arriving_characters = 0
        self._heard = 0.0
        self._retry_at = 0.0
        self._retry = ""

    def begin(self, verb: str) -> None:
        self.began = self._heard = self._clock()
        self.verb = verb
        self.sent_tokens = self.received_tokens = self._arriving_characters = 0
        self._retry = ""

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self.began is None else self._clock() - self.began

    def end(self) -> None:
        self.began = None

    def doing(self, verb: str) -> None:
        self.verb = verb
        self._heard = self._clock()
        self._retry = ""

    def hears(self, verb: str, text: str) -> None:
        """Something of a reply has come."""
        self.doing(verb)
        self._arriving_characters += len(text)

    def replied(self, *, sent: int, received: int) -> None:
        self.sent_tokens += sent
        self.received_tokens += received
        self._arriving_characters = 0

    def retries(self, why: str, *, wait_s: float, attempt: int, attempts: int) -> None:
        self._retry_at = self._clock() + wait_s
        self._retry = f"{why}{self._dot}retrying in {{}}s{self._dot}try {attempt} of {attempts}"
        self._retry += f"{self._dot}enter now{self._dot}esc cancel"

    @property
    def is_waiting_to_retry(self) -> bool:
        return bool(self._retry) and self._clock() < self._retry_at

    def line(self, width: int) -> str:
        """Empty while nothing runs. It changes eight times a second, frame and clock together.

        Where it is too narrow for all of it, the verb is shortened first."""
        if self.began is None:
            return ""
        now, elapsed_s = self._clock(), self.elapsed_s
        frame = self._frames[int(elapsed_s / FRAME_S) % len(self._frames)]
        if self._retry and now < self._retry_at:
            return cut(f"{frame} {self._retry.format(round(self._retry_at - now))}", width)
        fields = [f"{elapsed_s:.0f}s", *self._tokens()]
        if self.verb in MODEL_VERBS and now - self._heard >= SILENCE_S:
            fields.append(f"no data for {now - self._heard:.0f}s")
        rest = self._dot.join(["", *fields, "esc to interrupt"])
        verb = cut(self.verb, max(VERB_COLUMNS_MIN, width - len(rest) - 2))
        return cut(f"{frame} {verb}{rest}", width)

    def _tokens(self) -> list[str]:
        received = self.received_tokens + self._arriving_characters // CHARACTERS_PER_TOKEN
        if not (self.sent_tokens or received):
            return []
        sent = f"{self._up}{tokens(self.sent_tokens)} " if self.sent_tokens else ""
        return [f"{sent}{self._down}{tokens(received)} tok"]


def cut(text: str, width: int) -> str:
    """At most so many columns, the last of them an ellipsis where something is missing."""
    if get_cwidth(text) <= width:
        return text
    kept, used = [], 1
    for character in text:
        used += get_cwidth(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + ("…" if width > 0 else "")
