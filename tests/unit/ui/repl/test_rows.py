from collections.abc import Sequence

from prompt_toolkit.layout import Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen, WritePosition

from agentcli.ui.repl.screen import AnsiRows, Column


def shown(rows: Sequence[str]) -> Window:
    return Window(AnsiRows(lambda: rows), dont_extend_height=True)


def drawn(*parts: Sequence[str], rows: int, columns: int) -> list[str]:
    column = Column(map(shown, parts))
    screen = Screen()
    place = WritePosition(xpos=0, ypos=0, width=columns, height=rows)
    column.write_to_screen(screen, MouseHandlers(), place, "", erase_bg=False, z_index=None)
    cells = [[screen.data_buffer[y][x].char for x in range(columns)] for y in range(rows)]
    return ["".join(row).rstrip() for row in cells]


def test_parts_stand_below_each_other_as_high_as_they_are() -> None:
    assert drawn(["one", "two"], [], ["three"], rows=5, columns=10) == [
        "one",
        "two",
        "three",
        "",
        "",
    ]


def test_last_column_stays_empty() -> None:
    assert drawn(["abcdef"], rows=1, columns=6) == ["abcde"]


def test_upper_parts_give_way_and_show_their_last_rows() -> None:
    assert drawn(["one", "two", "three"], ["a", "b"], rows=3, columns=10) == ["three", "a", "b"]


def test_codes_become_styles_that_end_with_their_row() -> None:
    rows = ["\x1b[1mbold", "plain \x1b[31mred\x1b[0m"]
    content = AnsiRows(lambda: rows).create_content(20, 2)
    assert [list(content.get_line(y)) for y in range(content.line_count)] == [
        [("bold", "bold")],
        [("", "plain "), ("ansired", "red")],
    ]


def test_column_wants_the_height_of_all_its_parts() -> None:
    parts = (["one", "two"], ["three"])
    column = Column(map(shown, parts))
    assert column.preferred_height(80, 24).preferred == 3
