"""Pasted text that is too long to read in the input stands there as one character, an atom.

The cursor steps over it and Backspace takes all of it, because it is one character. It is shown as
`[paste #1 · 33 lines]`, and put in its place again before anything leaves the input.
"""

import re

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

LINES_MIN = 10
CHARACTERS_MIN = 800
RECALLED_CHARACTERS_MIN = 20_000
"""Of a text from the history: it is shown as it was written unless that would be a burden."""

_FIRST = 0x10F000
"""In a plane for private use, beyond those that fonts put icons in."""
_LAST = 0x10FFFD
_ATOM = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Pastes:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def insert_paste(self, data: str) -> str:
        """What to insert for a paste: itself, or an atom."""
        text = clean_paste(data)
        if _count_lines(text) < LINES_MIN and len(text) < CHARACTERS_MIN:
            return text
        return self._add_atom(text)

    def collapse_recalled(self, text: str) -> str:
        """What to show of an earlier message."""
        return self._add_atom(text) if len(text) >= RECALLED_CHARACTERS_MIN else text

    def find_repeated(self, data: str, before_cursor: str) -> str | None:
        """The text of the atom before the cursor, if just that was pasted again."""
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
    """Of lines, of which the last may have its end."""
    return text.removesuffix("\n").count("\n") + 1


def clean_paste(data: str) -> str:
    """One kind of line end, nothing a terminal would obey, nothing that cannot be encoded."""
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
