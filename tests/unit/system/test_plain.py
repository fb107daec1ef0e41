import pytest

from agentcli.system.plain_text import show_controls, to_plain_text


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("", ""),
        ("plain\ttext\n\n", "plain\ttext\n\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b[38;2;1;2;3mred\x1b[m\x1b(B", "red"),
        ("\x1b[?25l\x1b[2J\x1b[Hhidden cursor\x1b[?25h", "hidden cursor"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2;0;0;0\x1b\\image", "image"),
        ("\x9dtitle\x9ctext", "text"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("line\r\n", "line\n"),
        ("abc\rX", "Xbc"),
        ("downloading\r\x1b[Kdone", "done"),
        ("downloading\x1b[2K\x1b[1Gdone", "done"),
        ("long line\r\x1b[0Kx", "x"),
        ("abc\b\bX", "aXc"),
        ("\b\bx", "x"),
        ("abc\x1b[2DX", "aXc"),
        ("a\x1b[3Cb", "a   b"),
        ("abc\x1b[2GX", "aXc"),
        ("m\ba\ban\bnual", "anual"),
    ],
)
def test_plain_is_what_a_terminal_shows_in_the_end(printed: str, shown: str) -> None:
    assert to_plain_text(printed) == shown


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b]0;no end of the title\nthe error", "0;no end of the title\nthe error"),
        ("\x1b[31\nthe error", "\nthe error"),
        ("\x1bPq\nthe error", "q\nthe error"),
        ("the error\x1b", "the error"),
        ("\x1b[", ""),
    ],
)
def test_sequence_that_is_not_closed_hides_no_line(printed: str, shown: str) -> None:
    assert to_plain_text(printed) == shown


@pytest.mark.parametrize("number", ["999999999", "9" * 500])
def test_number_in_a_sequence_costs_no_memory(number: str) -> None:
    assert len(to_plain_text(f"a\x1b[{number}Cb")) < 300
    assert len(to_plain_text(f"a\x1b[{number}Gb")) < 300


def test_other_controls_become_visible() -> None:
    assert to_plain_text("a\x00b\x07c\x0bd\x7fe\x85f") == "a�b�c�d�e�f"
    assert show_controls("\x1b[31m\r\n\tx\x9f") == "�[31m�\n\tx�"
