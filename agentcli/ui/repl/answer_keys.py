"""The keys that answer an open question: those that cannot begin a message.

A letter is held until it is certain that it stands alone. If another key follows, both make a
word. The word goes to the input, and the question waits for the input again. A letter never gives
an answer that lasts longer than the session: the letter selects it, and Enter agrees.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from agentcli.ui.repl.approval import (
    GRACE_S,
    LETTERS,
    ApprovalPrompt,
    Letter,
    PendingApproval,
    PendingPlan,
)

CONFIRMED: frozenset[Letter] = frozenset({"a"})
"""The letters that only select their answer."""
BACKSPACE = frozenset({"\x7f", "\x08"})
ONE_READ_S = 0.02
"""Keys that come within this time were not typed by hand."""


class AnswerKeys:
    def __init__(
        self,
        approvals: ApprovalPrompt,
        *,
        alone_s: Callable[[], float],
        answer: Callable[[str], None],
        write: Callable[[str], None],
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`answer` takes a letter or `stop`; `write` puts text into the input."""
        self._approvals = approvals
        self._alone_s = alone_s
        self._clock = clock
        self._answer = answer
        self._write = write
        self._changed = changed
        self._held: Letter | None = None
        """A typed letter that is neither an answer nor text yet."""
        self._held_at = 0.0
        self._enter_from = 0.0
        """The time from which Enter agrees to what the held letter has selected."""
        self._timer: asyncio.TimerHandle | None = None

    def press(self, key: str) -> None:
        """Take a letter of the answers, `enter`, `up`, `down` or `stop`."""
        asked = self._approvals.pending
        if asked is None:
            return
        match key:
            case "stop":
                self._drop()
                self._answer("stop")
            case "up" | "down":
                self._drop()
                self._approvals.select(-1 if key == "up" else 1)
            case "enter":
                self._enter(asked)
            case _:
                self._letter(key, asked)

    def type(self, text: str) -> None:
        """Take any other key. It means that the user is not answering."""
        held = self._drop()
        self._approvals.postpone()
        is_key = text.startswith("\x1b") or (len(text) == 1 and not text.isprintable())
        written = ("" if text in BACKSPACE else held) + ("" if is_key else text)
        if written:
            self._write(written)

    def paste(self, text: str) -> None:
        """Put pasted text into the input, after a held letter. It answers nothing."""
        self.release()
        self._approvals.postpone()
        self._write(text)

    def release(self) -> None:
        """Give a held letter that can no longer be an answer to the input."""
        if held := self._drop():
            self._write(held)

    def _letter(self, key: str, asked: PendingApproval | PendingPlan) -> None:
        letter = next((one for one in asked.letters if one == key), None)
        if letter is None or self._held is not None:
            self.type(key)
            return
        self._held, self._held_at = letter, self._clock()
        if asked.offers(letter):
            asked.selected = LETTERS.index(letter)
        self._timer = asyncio.get_running_loop().call_later(
            self._alone_s(), self._stand_alone, asked
        )

    def _enter(self, asked: PendingApproval | PendingPlan) -> None:
        now = self._clock()
        if self._held is not None and self._timer is not None:
            if now - self._held_at < ONE_READ_S:
                self.type("")
            else:
                self._enter_from = now + GRACE_S
                self._stand_alone(asked)
        elif asked.selected is not None and now >= self._enter_from:
            letter = LETTERS[asked.selected]
            self._drop()
            self._answer(letter)

    def _stand_alone(self, asked: PendingApproval | PendingPlan) -> None:
        """Act on the held letter after no other key has followed it, or Enter has."""
        self._stop_timer()
        letter = self._held
        if letter is None or asked is not self._approvals.pending:
            self.release()
        elif letter in CONFIRMED and asked.offers(letter):
            asked.awaits_enter = True
        else:
            self._drop()
            self._answer(letter)
        self._changed()

    def _drop(self) -> str:
        """Return the held letter, and no longer hold or select it."""
        self._stop_timer()
        held, self._held = self._held, None
        asked = self._approvals.pending
        if held is not None and asked is not None:
            asked.selected, asked.awaits_enter = None, False
        return held or ""

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# The rhythm of typing: when the last key came, and how quickly letters follow each other


ALONE_S = 0.25
"""A letter is not part of a word if no key follows within at least this time."""
ALONE_MAX_S = 1.0
MARGIN = 1.2
"""The factor for a typist who may be a little slower the next time."""
REMEMBERED = 32


class Rhythm:
    """The rhythm of the user's typing. Times come from `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_key = float("-inf")
        self._last_letter = float("-inf")
        self._gaps: deque[float] = deque(maxlen=REMEMBERED)

    def touch(self) -> None:
        """Note a key that belongs to the input."""
        self._last_key = self._clock()

    def add_letter(self, *, in_word: bool) -> None:
        """Note a letter of the input. `in_word` is True if it follows another letter."""
        now = self._clock()
        gap_s = now - self._last_letter
        if in_word and gap_s <= ALONE_MAX_S:
            self._gaps.append(gap_s)
        self._last_letter = now

    def quiet_s(self) -> float:
        return self._clock() - self._last_key

    def alone_s(self) -> float:
        """Return how long no key may follow a letter for it to stand alone.

        Slow typists get longer: their words must not break up into answers.
        """
        return min(ALONE_MAX_S, max(ALONE_S, MARGIN * max(self._gaps, default=0.0)))
