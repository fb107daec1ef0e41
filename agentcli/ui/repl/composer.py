"""The input: text over several lines, with history, completion, pastes as atoms, and shell mode.

Text that was typed is never dropped: what leaves the input was sent, queued, or can be had back.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from agentcli.ui.repl.foreign import Foreign
from agentcli.ui.repl.mentions import Files, as_typed, typed_mention
from agentcli.ui.repl.paste import Pastes, cleaned
from agentcli.ui.repl.rhythm import Rhythm

SHELL = "!"


class Menu(Protocol):
    """What the slash menu offers."""

    def offers(self, typed: str) -> Iterable[tuple[str, str, int]]:
        """For a line that begins with a slash: a text, what it is, and how much it replaces."""
        ...


class Composer:
    def __init__(
        self, *, history: History, menu: Menu, files: Files, foreign: Foreign, rhythm: Rhythm
    ) -> None:
        self.rhythm = rhythm
        self.pastes = Pastes()
        self.shell_mode = False
        self.buffer = Buffer(
            multiline=True,
            history=history,
            completer=_Offers(menu, files, foreign, self),
            complete_while_typing=True,
            enable_history_search=False,
            on_text_insert=self._inserted,
        )

    @property
    def text(self) -> str:
        """All of it, with pastes in their places."""
        return self.pastes.expanded(self.buffer.text)

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    @property
    def prompt(self) -> str:
        return "! " if self.shell_mode else "> "

    @property
    def is_used(self) -> bool:
        """Whether somebody writes in it, or is about to."""
        return self.shell_mode or not self.is_empty

    def take(self) -> tuple[str, str]:
        """The text, and as it was shown; the input is empty then, and the history has it."""
        text, shown = self.lift()
        self.remember(text)
        return text, shown

    def lift(self) -> tuple[str, str]:
        """The same, and nobody remembers it yet."""
        shown, text = self._shown(), self.text
        if self.shell_mode and not text.startswith(SHELL):
            text = f"{SHELL}{text}"
        self.shell_mode = False
        self._empty()
        return text, shown

    def remember(self, text: str) -> None:
        self.buffer.history.append_string(text)

    def put(self, text: str) -> None:
        self.buffer.document = Document(self.pastes.recalled(cleaned(text)))

    def put_before(self, text: str) -> None:
        """In front of what is being typed, which stays."""
        typed, before = self.buffer.text, self.pastes.recalled(cleaned(text))
        self.buffer.document = Document(f"{before}\n{typed}" if typed else before)

    def clear(self) -> None:
        """Up brings it back."""
        if self.buffer.text.strip():
            self.buffer.history.append_string(self.text)
        self.shell_mode = False
        self._empty()

    def _empty(self) -> None:
        self.buffer.document = Document()  # unlike a reset, this is told to who keeps the draft
        self.buffer.reset()

    def paste(self, data: str) -> None:
        before = self.buffer.document.text_before_cursor
        expanded = self.pastes.repeated(data, before)
        if expanded is not None:
            self.buffer.delete_before_cursor(1)
            self.buffer.insert_text(expanded)
        else:
            self.buffer.insert_text(self.pastes.taken_in(data))

    def _inserted(self, buffer: Buffer) -> None:
        last_two = buffer.document.text_before_cursor[-2:]
        if last_two[-1:].isalpha():
            self.rhythm.add_letter(in_word=len(last_two) == 2 and last_two.isalpha())

    def newline(self) -> None:
        self.buffer.insert_text("\n")

    def ends_in_backslash(self) -> bool:
        return self.buffer.document.text_before_cursor.endswith("\\")

    def _shown(self) -> str:
        return "".join(
            self.pastes.label(character) if self.pastes.is_atom(character) else character
            for character in self.buffer.text
        )


class _Offers(Completer):
    def __init__(self, menu: Menu, files: Files, foreign: Foreign, composer: Composer) -> None:
        self._menu = menu
        self._files = files
        self._foreign = foreign
        self._composer = composer

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Only the asynchronous way is used."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            for text, what, replaced in self._menu.offers(before):
                yield Completion(text, start_position=-replaced, display=text, display_meta=what)
            for text, what in await self._foreign.prompts(before):
                yield Completion(text, start_position=-len(before), display=text, display_meta=what)
            return
        mention = typed_mention(document.current_line_before_cursor)
        if mention is None or self._composer.shell_mode:
            return
        quote, typed = mention
        for path in await self._files.matching(typed):
            yield Completion(
                as_typed(path), start_position=-len(typed) - len(quote) - 1, display=path
            )
        for name, what in await self._foreign.resources(typed):
            yield Completion(
                as_typed(name),
                start_position=-len(typed) - len(quote) - 1,
                display=name,
                display_meta=what,
            )
