"""The status line: a verb, the time, the number of tokens, how to interrupt."""

import time
from collections.abc import Callable
from math import ceil

from prompt_toolkit.utils import get_cwidth

from agentcli.ui.render.wording import format_tokens

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_FRAMES = "|/-\\"
FRAME_S = 0.125
SILENCE_S = 10.0
"""The time without a byte from the model after which the line says so."""

MODEL_VERBS = frozenset({"Waiting for model", "Thinking", "Writing", "Compacting"})
CHARACTERS_PER_TOKEN = 4
VERB_COLUMNS_MIN = 7

StatusField = tuple[str, int]
"""A text, and its priority if not all fields fit."""


class Status:
    def __init__(
        self,
        *,
        is_ascii: bool = False,
        stop_key: str = "esc",
        clock: Callable[[], float] = time.monotonic,
    ):
        self._stop_key = stop_key
        self._frames = ASCII_FRAMES if is_ascii else FRAMES
        self._dot = " - " if is_ascii else " · "
        self._up, self._down = ("in ", "out ") if is_ascii else ("↑", "↓")
        self._clock = clock
        self.began: float | None = None
        """The start time, or None if nothing is running."""
        self.verb = ""
        self.sent_tokens = 0
        self.received_tokens = 0
        self._arriving_characters = 0
        self._heard_at = 0.0
        self._retry_at = 0.0
        self._retry = ""
        """The reason why a request is sent again, or empty if it is not."""
        self._tries = ""

    def begin(self, verb: str) -> None:
        self.began = self._heard_at = self._clock()
        self.verb = verb
        self.sent_tokens = self.received_tokens = self._arriving_characters = 0
        self._retry = ""

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self.began is None else self._clock() - self.began

    def end(self) -> None:
        self.began = None

    def set_verb(self, verb: str) -> None:
        self.verb = verb
        self._heard_at = self._clock()
        self._retry = ""

    def add_received(self, verb: str, text: str) -> None:
        """Note that part of a reply has arrived."""
        self.set_verb(verb)
        self._arriving_characters += len(text)

    def add_usage(self, *, sent: int, received: int) -> None:
        self.sent_tokens += sent
        self.received_tokens += received
        self._arriving_characters = 0

    def set_retry(self, why: str, *, wait_s: float, attempt: int, attempts: int) -> None:
        self._retry_at = self._clock() + wait_s
        self._retry, self._tries = why, f"try {attempt} of {attempts}"
        self._arriving_characters = 0

    @property
    def is_waiting_to_retry(self) -> bool:
        return bool(self._retry) and self._clock() < self._retry_at

    def render_line(self, width: int) -> str:
        """Return the line, or an empty string while nothing runs.

        It changes eight times a second, frame and clock together.
        """
        if self.began is None:
            return ""
        now, elapsed_s = self._clock(), self.elapsed_s
        frame = self._frames[int(elapsed_s / FRAME_S) % len(self._frames)]
        if self.is_waiting_to_retry:
            what, fields = self._retry, self._build_countdown(ceil(self._retry_at - now))
        else:
            what, fields = self.verb, self._build_progress(elapsed_s, silent_s=now - self._heard_at)
        return f"{frame} {self._fit_fields(what, fields, width=max(0, width - 2))}"

    def _build_countdown(self, left_s: int) -> list[StatusField]:
        return [
            (f"retrying in {left_s}s", 3),
            (self._tries, 0),
            ("enter now", 1),
            (f"{self._stop_key} cancel", 2),
        ]

    def _build_progress(self, elapsed_s: float, *, silent_s: float) -> list[StatusField]:
        is_silent = self.verb in MODEL_VERBS and silent_s >= SILENCE_S
        return [
            (f"{elapsed_s:.0f}s", 2),
            *((text, 0) for text in self._format_tokens()),
            *([(f"no data for {silent_s:.0f}s", 3)] if is_silent else []),
            (f"{self._stop_key} to interrupt", 1),
        ]

    def _fit_fields(self, what: str, fields: list[StatusField], *, width: int) -> str:
        """Return a line that fits. If there is not enough space, the verb is shortened first.

        Then the fields of the lowest priority go."""
        kept = list(fields)
        while kept and VERB_COLUMNS_MIN + len(self._join_fields(kept)) > width:
            kept.remove(min(kept, key=lambda field: field[1]))
        rest = self._join_fields(kept)
        return shorten_end(what, width - len(rest)) + rest

    def _join_fields(self, fields: list[StatusField]) -> str:
        return "".join(f"{self._dot}{text}" for text, _ in fields)

    @property
    def arriving_tokens(self) -> int:
        """The approximate number of tokens of the reply that have arrived."""
        return self._arriving_characters // CHARACTERS_PER_TOKEN

    def _format_tokens(self) -> list[str]:
        received = self.received_tokens + self.arriving_tokens
        if not (self.sent_tokens or received):
            return []
        sent = f"{self._up}{format_tokens(self.sent_tokens)} " if self.sent_tokens else ""
        return [f"{sent}{self._down}{format_tokens(received)} tok"]


def shorten_end(text: str, width: int) -> str:
    """Return at most `width` columns, with an ellipsis at the end if something is cut."""
    if get_cwidth(text) <= width:
        return text
    kept, used = [], 1
    for character in text:
        used += get_cwidth(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + ("…" if width > 0 else "")
