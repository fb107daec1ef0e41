"""The live region from top to bottom: progress, the input, its menu, the toolbar.

No row reaches the last column, and the region never fills the whole screen. Both would break when
a terminal is resized.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cache import SimpleCache
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import (
    ANSI,
    AnyFormattedText,
    StyleAndTextTuples,
    to_formatted_text,
)
from prompt_toolkit.layout.containers import (
    AnyContainer,
    ConditionalContainer,
    Container,
    Window,
    to_container,
)
from prompt_toolkit.layout.controls import (
    BufferControl,
    FormattedTextControl,
    GetLinePrefixCallable,
    UIContent,
    UIControl,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen, WritePosition
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from agentcli.ui.repl.composer import Composer, ShowAtoms
from agentcli.ui.repl.live_view import LOW_ROWS, LiveView
from agentcli.ui.repl.state import ReplState
from agentcli.ui.repl.status import shorten_end
from agentcli.ui.repl.terminal import Terminal

# Our own parts of the prompt-toolkit layout: fast, because they are drawn so often


CACHED_ROWS = 256


class AnsiRows(UIControl):
    """Rows of terminal codes. If not all fit, the last ones are shown."""

    def __init__(self, rows: Callable[[], Sequence[str]]) -> None:
        self._rows = rows

    def preferred_height(
        self,
        width: int,
        max_available_height: int,
        wrap_lines: bool,
        get_line_prefix: GetLinePrefixCallable | None,
    ) -> int:
        return len(self._rows())

    def create_content(self, width: int, height: int) -> UIContent:
        rows = self._rows()[-height:]
        return UIContent(
            get_line=lambda index: _parse_fragments(rows[index]),
            line_count=len(rows),
            show_cursor=False,
        )


@lru_cache(maxsize=CACHED_ROWS)
def _parse_fragments(row: str) -> StyleAndTextTuples:
    """Return the row in a few fragments. prompt-toolkit's parser gives one for each character."""
    alike = groupby(to_formatted_text(ANSI(row)), key=itemgetter(0))
    return [(style, "".join(character for _, character, *_ in group)) for style, group in alike]


class Column(Container):
    """Containers one below the other, each as high as it wants to be. The upper ones give way."""

    def __init__(self, children: Iterable[AnyContainer]) -> None:
        self._children = [to_container(child) for child in children]
        self._heights: SimpleCache[tuple[int, int], list[int]] = SimpleCache(maxsize=1)

    def reset(self) -> None:
        for child in self._children:
            child.reset()

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        wanted = self._measure_heights(width - 1, max_available_height)
        return Dimension(preferred=sum(wanted))

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        width, left = write_position.width - 1, write_position.height
        heights: list[int] = []
        for wanted in reversed(self._measure_heights(width, left)):
            heights.append(min(wanted, left))
            left -= heights[-1]
        y = write_position.ypos
        for child, height in zip(self._children, reversed(heights), strict=True):
            position = WritePosition(xpos=write_position.xpos, ypos=y, width=width, height=height)
            child.write_to_screen(screen, mouse_handlers, position, parent_style, erase_bg, z_index)
            y += height

    def get_children(self) -> list[Container]:
        return self._children

    def _measure_heights(self, width: int, height: int) -> list[int]:
        """Return the heights, computed once though a drawing needs them twice."""

        def measure() -> list[int]:
            return [child.preferred_height(width, height).preferred for child in self._children]

        return self._heights.get((get_app().render_counter, width), measure)


INPUT_ROWS = 10
MENU_ROWS = 8
FREE_ROWS = 4
"""The rows of the terminal that stay free for committed text."""


class LiveScreen:
    def __init__(
        self, state: ReplState, composer: Composer, *, view: LiveView, terminal: Terminal
    ) -> None:
        self._state = state
        self._composer = composer
        self._view = view
        self._terminal = terminal
        self._live: list[str] = []
        self.answer = Buffer(multiline=False)
        self.search = SearchToolbar(
            ignore_case=True,
            forward_search_prompt="search forward: ",
            backward_search_prompt="search: ",
        )
        self.input_window = Window(
            BufferControl(
                composer.buffer,
                input_processors=[ShowAtoms(composer.pastes)],
                search_buffer_control=self.search.control,
                preview_search=True,
                include_default_input_processors=True,
            ),
            height=self._find_input_height,
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._render_input_prefix,
        )
        self.answer_window = Window(
            BufferControl(self.answer),
            height=1,
            dont_extend_height=True,
            get_line_prefix=lambda line, wrap: self._render_answer_prefix(),
        )
        self.layout = Layout(self._build_column(), focused_element=self.input_window)

    def _build_column(self) -> Column:
        is_answering = Condition(lambda: self._state.is_answering)
        is_low = Condition(lambda: self._terminal.size.rows < LOW_ROWS)
        return Column(
            [
                ConditionalContainer(
                    Window(AnsiRows(lambda: self._live), dont_extend_height=True),
                    filter=Condition(lambda: bool(self._live)),
                ),
                ConditionalContainer(self.input_window, filter=~is_answering),
                ConditionalContainer(self.answer_window, filter=is_answering),
                ConditionalContainer(self.search, filter=~is_low),
                ConditionalContainer(
                    Window(
                        FormattedTextControl(self._render_menu),
                        dont_extend_height=True,
                        wrap_lines=False,
                    ),
                    filter=Condition(
                        lambda: self._count_menu_rows() > 0 and self._count_completions() > 0
                    ),
                ),
                ConditionalContainer(
                    Window(FormattedTextControl(self._view.render_toolbar), height=1),
                    filter=~is_low,
                ),
            ]
        )

    # The line on which the user types the rest of an answer

    @property
    def is_answer_line_open(self) -> bool:
        return self.layout.has_focus(self.answer_window)

    def open_answer_line(self) -> None:
        self.answer.reset()
        self.layout.focus(self.answer_window)

    def close_answer_line(self) -> None:
        self.layout.focus(self.input_window)

    # The rows

    def _find_input_height(self) -> Dimension:
        most = max(1, min(INPUT_ROWS, self._terminal.size.rows - FREE_ROWS))
        return Dimension(min=1, max=most)

    def _render_answer_prefix(self) -> str:
        asked = self._state.pending
        return asked.being_typed.asks_for if asked and asked.being_typed else ""

    def _render_input_prefix(self, line: int, wrap: int) -> AnyFormattedText:
        first = line == 0 and wrap == 0
        return [("class:prompt", self._composer.prompt if first else "  ")]

    def _count_input_rows(self) -> int:
        lines = self._composer.buffer.document.line_count
        return min(max(1, lines), INPUT_ROWS)

    def _count_live_rows(self) -> int:
        rows = self._terminal.size.rows
        taken = self._count_input_rows() + (0 if rows < LOW_ROWS else 1)
        return max(0, rows - FREE_ROWS - taken) or (1 if rows >= 3 else 0)

    def prepare(self) -> None:
        """Make the rows above the input, once before each drawing."""
        room = self._count_live_rows()
        live = self._view.render_live(room)[-room:] if room else []
        gap = min(self._terminal.gap_rows, room - len(live))
        self._live = [*([""] * gap), *live]

    def _count_menu_rows(self) -> int:
        return min(
            MENU_ROWS, max(0, self._terminal.size.rows - FREE_ROWS - self._count_input_rows())
        )

    def _count_completions(self) -> int:
        state = self._composer.buffer.complete_state
        return len(state.completions) if state else 0

    def _render_menu(self) -> StyleAndTextTuples:
        state = self._composer.buffer.complete_state
        if state is None:
            return []
        room = self._count_menu_rows()
        at = state.complete_index or 0
        start = max(0, min(at - room + 1, len(state.completions) - room))
        shown = state.completions[start : start + room]
        width = max(get_cwidth(one.display_text) for one in shown)
        room = max(0, self._terminal.size.columns - width - 6)
        rows: StyleAndTextTuples = []
        for index, one in enumerate(shown, start):
            is_selected = index == state.complete_index
            mark = "> " if is_selected else "  "
            pad = " " * (width - get_cwidth(one.display_text))
            rows.append(("bold" if is_selected else "", f"{mark}{one.display_text}"))
            rows.append(("class:dim", f"{pad}  {shorten_end(one.display_meta_text, room)}\n"))
        last_style, last_text, *_ = rows[-1]
        rows[-1] = (last_style, last_text.rstrip("\n"))
        return rows
