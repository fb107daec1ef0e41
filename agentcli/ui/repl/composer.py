"""The input: text over several lines, with history, completion, pastes as atoms, and shell mode.

Typed text is never dropped: text that leaves the input was sent or queued, or can be recalled.
"""

import re
from collections.abc import AsyncGenerator, Iterable
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.history import History
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from agentcli.ui.repl.answer_keys import Rhythm
from agentcli.ui.repl.completion import ServerCompletions
from agentcli.ui.repl.mentions import WorkspaceFiles, find_typed_mention, format_mention

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


class SlashMenu(Protocol):
    """The completions of the slash menu."""

    def list_completions(self, typed: str) -> Iterable[tuple[str, str, int]]:
        """Return texts for a line that begins with a slash.

        Each has its description and the number of letters it replaces.
        """
        ...


class Composer:
    def __init__(
        self,
        *,
        history: History,
        menu: SlashMenu,
        files: WorkspaceFiles,
        server_completions: ServerCompletions,
        rhythm: Rhythm,
    ) -> None:
        self.rhythm = rhythm
        self.pastes = Pastes()
        self.shell_mode = False
        self.buffer = Buffer(
            multiline=True,
            history=history,
            completer=_InputCompleter(menu, files, server_completions, self),
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


class _InputCompleter(Completer):
    def __init__(
        self,
        menu: SlashMenu,
        files: WorkspaceFiles,
        server_completions: ServerCompletions,
        composer: Composer,
    ) -> None:
        self._menu = menu
        self._files = files
        self._server_completions = server_completions
        self._composer = composer

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Return nothing: only the asynchronous method is used."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            for text, what, replaced in self._menu.list_completions(before):
                yield Completion(text, start_position=-replaced, display=text, display_meta=what)
            for text, what in await self._server_completions.complete_prompts(before):
                yield Completion(text, start_position=-len(before), display=text, display_meta=what)
            return
        mention = find_typed_mention(document.current_line_before_cursor)
        if mention is None or self._composer.shell_mode:
            return
        quote, typed = mention
        for path in await self._files.find_matches(typed):
            yield Completion(
                format_mention(path), start_position=-len(typed) - len(quote) - 1, display=path
            )
        for name, what in await self._server_completions.complete_resources(typed):
            yield Completion(
                format_mention(name),
                start_position=-len(typed) - len(quote) - 1,
                display=name,
                display_meta=what,
            )
