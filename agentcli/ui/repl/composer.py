"""The input: text over several lines, with history, completion, pastes as atoms, and shell mode.

Typed text is never dropped: text that leaves the input was sent or queued, or can be recalled.
"""

import re
import time
from collections import deque
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DynamicCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.history import History
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

# Pastes: text that is too long to read in the input is shown there as one character, an atom


LINES_MIN = 10
CHARACTERS_MIN = 800
RECALLED_CHARACTERS_MIN = 20_000
"""The length from which a text of the history is shown as an atom. Shorter ones stay as written."""

_FIRST = 0x10F000
"""The first character for atoms: in a private plane, beyond the icons of fonts."""
_LAST = 0x10FFFD
_ATOM = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Pastes:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def insert_paste(self, data: str) -> str:
        """Return what to insert for a paste: the text itself, or an atom."""
        text = clean_paste(data)
        if _count_lines(text) < LINES_MIN and len(text) < CHARACTERS_MIN:
            return text
        return self._add_atom(text)

    def collapse_recalled(self, text: str) -> str:
        """Return what to show of an earlier message."""
        return self._add_atom(text) if len(text) >= RECALLED_CHARACTERS_MIN else text

    def find_repeated(self, data: str, before_cursor: str) -> str | None:
        """Return the text of the atom before the cursor if the same text was pasted again."""
        text = self._texts.get(before_cursor[-1:])
        return text if text is not None and text == clean_paste(data) else None

    def expand(self, text: str) -> str:
        return _ATOM.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def is_atom(self, character: str) -> bool:
        return character in self._texts

    def format_label(self, atom: str) -> str:
        text = self._texts.get(atom, "")
        lines = _count_lines(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[paste #{ord(atom) - _FIRST} · {size}]"

    def _add_atom(self, text: str) -> str:
        number = len(self._texts) + 1
        if number > _LAST - _FIRST:
            return text
        atom = chr(_FIRST + number)
        self._texts[atom] = text
        return atom


def _count_lines(text: str) -> int:
    """Return the number of lines. The last one may end in a newline."""
    return text.removesuffix("\n").count("\n") + 1


def clean_paste(data: str) -> str:
    """Return the text with one kind of line end. Atoms and surrogates are replaced."""
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    return _SURROGATES.sub("\ufffd", _ATOM.sub("\ufffd", text))


class ShowAtoms(Processor):
    def __init__(self, pastes: Pastes) -> None:
        self._pastes = pastes

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        line = fragment_list_to_text(fragments)
        if not _ATOM.search(line):
            return Transformation(fragments)
        shown: StyleAndTextTuples = []
        starts: list[int] = []
        position = 0
        for style, text, *_ in fragments:
            for character in text:
                label = (
                    self._pastes.format_label(character) if _ATOM.match(character) else character
                )
                shown.append((f"{style} class:atom" if label != character else style, label))
                starts.append(position)
                position += len(label)
        starts.append(position)
        return Transformation(
            shown,
            source_to_display=lambda index: starts[min(index, len(starts) - 1)],
            display_to_source=lambda index: max(
                (source for source, start in enumerate(starts) if start <= index), default=0
            ),
        )


SHELL = "!"


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

    def compute_alone_s(self) -> float:
        """Return how long no key may follow a letter for it to stand alone.

        Slow typists get longer: their words must not break up into answers.
        """
        return min(ALONE_MAX_S, max(ALONE_S, MARGIN * max(self._gaps, default=0.0)))


class Composer:
    def __init__(
        self,
        *,
        history: History,
        completer: Completer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rhythm = Rhythm(clock)
        self.pastes = Pastes()
        self.shell_mode = False
        self.buffer = Buffer(
            multiline=True,
            history=history,
            completer=DynamicCompleter(lambda: None if self.shell_mode else completer),
            complete_while_typing=True,
            enable_history_search=False,
            on_text_insert=self._handle_insert,
        )

    @property
    def text(self) -> str:
        """The whole text, with pastes expanded."""
        return self.pastes.expand(self.buffer.text)

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    @property
    def prompt(self) -> str:
        return "! " if self.shell_mode else "> "

    @property
    def is_used(self) -> bool:
        """True if the user writes in the input, or is about to."""
        return self.shell_mode or not self.is_empty

    def take(self) -> tuple[str, str]:
        """Return the text, and the text as shown. Empty the input and add it to the history."""
        text, shown = self.take_unrecorded()
        self.remember(text)
        return text, shown

    def take_unrecorded(self) -> tuple[str, str]:
        """Do the same as `take`, but leave the history unchanged."""
        shown, text = self._render_shown(), self.text
        if self.shell_mode and not text.startswith(SHELL):
            text = f"{SHELL}{text}"
        self.shell_mode = False
        self._clear_buffer()
        return text, shown

    def remember(self, text: str) -> None:
        self.buffer.history.append_string(text)

    def set_text(self, text: str) -> None:
        self.buffer.document = Document(self.pastes.collapse_recalled(clean_paste(text)))

    def prepend_text(self, text: str) -> None:
        """Insert text before what is being typed, which stays."""
        typed, before = self.buffer.text, self.pastes.collapse_recalled(clean_paste(text))
        self.buffer.document = Document(f"{before}\n{typed}" if typed else before)

    def clear(self) -> None:
        """Clear the input. Up brings the text back."""
        if self.buffer.text.strip():
            self.buffer.history.append_string(self.text)
        self.shell_mode = False
        self._clear_buffer()

    def _clear_buffer(self) -> None:
        self.buffer.document = Document()  # unlike a reset, this notifies the draft saver
        self.buffer.reset()

    def paste(self, data: str) -> None:
        before = self.buffer.document.text_before_cursor
        expanded = self.pastes.find_repeated(data, before)
        if expanded is not None:
            self.buffer.delete_before_cursor(1)
            self.buffer.insert_text(expanded)
        else:
            self.buffer.insert_text(self.pastes.insert_paste(data))

    def take_typed(self, text: str) -> None:
        """Insert what was typed at an open question. It is no answer, so it begins a message."""
        self.rhythm.touch()
        self.paste(text)

    def complete_slash(self) -> None:
        """Open the menu for a slash that was typed before the commands were loaded."""
        if self.buffer.text.startswith("/"):
            self.buffer.start_completion()

    def _handle_insert(self, buffer: Buffer) -> None:
        last_two = buffer.document.text_before_cursor[-2:]
        if last_two[-1:].isalpha():
            self.rhythm.add_letter(in_word=len(last_two) == 2 and last_two.isalpha())

    def insert_newline(self) -> None:
        self.buffer.insert_text("\n")

    def ends_in_backslash(self) -> bool:
        return self.buffer.document.text_before_cursor.endswith("\\")

    def _render_shown(self) -> str:
        return "".join(
            self.pastes.format_label(character) if self.pastes.is_atom(character) else character
            for character in self.buffer.text
        )
