import os

from agentcli.ui.oneshot.pretty_view import TerminalView, open_view
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from tests.support.scenes import failing


def test_what_is_no_terminal_gets_a_size_all_the_same() -> None:
    reader, writer = os.pipe()
    try:
        shown = open_view(writer, {"TERM": "xterm"}).render_prose("word " * 40)
    finally:
        os.close(reader)
        os.close(writer)
    assert max(map(len, shown.split("\n"))) == 79


def test_dumb_terminal_gets_no_codes() -> None:
    shown = open_view(-1, {"TERM": "dumb"}).render_prose("# Title\n\n*text*")
    assert shown == "# Title\n\ntext\n"


def test_card_that_cannot_be_asked_for_has_no_number() -> None:
    view, one = (
        TerminalView(Paint(columns=100, theme=NONE, color="none", accessible=True)),
        failing(),
    )
    assert "/show" not in view.render_card(one.judged, one.finished, call=None)
