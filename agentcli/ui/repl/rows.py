"""The live region's own parts of a prompt-toolkit layout: quick, because they are drawn so often.

Rows are terminal codes, each complete in itself, so a row that was shown before need not be read
again. Nothing is drawn in the last column.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from prompt_toolkit.application import get_app
from prompt_toolkit.cache import SimpleCache
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout.containers import AnyContainer, Container, to_container
from prompt_toolkit.layout.controls import GetLinePrefixCallable, UIContent, UIControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen, WritePosition

CACHED_ROWS = 256


class AnsiRows(UIControl):
    """Rows of terminal codes. Where there is not room for all, the last of them are shown."""

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
    """The reader of codes gives a fragment for each character."""
    alike = groupby(to_formatted_text(ANSI(row)), key=itemgetter(0))
    return [(style, "".join(character for _, character, *_ in group)) for style, group in alike]


class Column(Container):
    """One below the other, each as high as it wants to be; the upper ones give way."""

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
            place = WritePosition(xpos=write_position.xpos, ypos=y, width=width, height=height)
            child.write_to_screen(screen, mouse_handlers, place, parent_style, erase_bg, z_index)
            y += height

    def get_children(self) -> list[Container]:
        return self._children

    def _measure_heights(self, width: int, height: int) -> list[int]:
        """Asked for twice in a drawing, and found out once."""

        def measure() -> list[int]:
            return [child.preferred_height(width, height).preferred for child in self._children]

        return self._heights.get((get_app().render_counter, width), measure)
