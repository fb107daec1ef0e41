import pytest

from agentcli.ui.render.theme import Colour, parse_colour
from agentcli.ui.repl.held_terminal import TerminalReply, parse_reply

FORMS = [
    ("rgb:1e/1e/1e", "1e1e1e"),
    ("rgb:1e1e/1e1e/1e1e", "1e1e1e"),
    ("rgb:1e1/1e1/1e1", "1e1e1e"),
    ("rgb:f/f/0", "ffff00"),
    ("rgb:0/80/fff", "0080ff"),
    ("rgba:2828/2c2c/3434/ffff", "282c34"),
    ("rgba:28/2c/34/e6", "282c34"),
    ("RGB:FF/FF/FF", "ffffff"),
    ("#fdf6e3", "fdf6e3"),
    ("#fff", "ffffff"),
    ("#00002b2b3636", "002b36"),
    ("rgb:zz/00/00", ""),
    ("rgb:00/00", ""),
    ("rgb:00000/0/0", ""),
    ("#12345", ""),
    ("?", ""),
    ("", ""),
]


def as_hex(colour: Colour | None) -> str:
    if colour is None:
        return ""
    parts = (colour.red, colour.green, colour.blue)
    return "".join(f"{round(255 * part):02x}" for part in parts)


@pytest.mark.parametrize(("told", "colour"), FORMS)
@pytest.mark.parametrize("end", [b"\x07", b"\x1b\\"])
def test_colour_is_read_in_every_form_and_no_reply_is_taken_for_keys(
    told: str, colour: str, end: bytes
) -> None:
    answer = parse_reply(b"l\x1b]11;" + told.encode() + end + b"s\x1b[?62;c")
    assert (as_hex(parse_colour(answer.background)), answer.typed) == (colour, "ls")


@pytest.mark.parametrize(
    ("received", "answer"),
    [(b"ls\x1b[?6c -l", TerminalReply(typed="ls -l")), (b"", TerminalReply())],
)
def test_terminal_may_not_say(received: bytes, answer: TerminalReply) -> None:
    assert parse_reply(received) == answer


@pytest.mark.parametrize(("told", "luminance"), [("#000", 0), ("#fff", 1), ("#808080", 0.2159)])
def test_luminance_is_that_of_the_standard(told: str, luminance: float) -> None:
    colour = parse_colour(told)
    assert colour is not None
    assert colour.luminance == pytest.approx(luminance, abs=1e-4)
