from pathlib import Path

from prompt_toolkit.data_structures import Size
from rich.style import Style

from agentcli.types.deltas import TextDelta
from agentcli.types.errors import Ending
from agentcli.types.events import TurnEnded, TurnWithdrawn
from agentcli.types.settings import Settings
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.transcript import LiveTranscript
from agentcli.ui.repl.transcript_blocks import ScreenPainter
from tests.support.record import DONE, asked, replied

LINKING = Paint(columns=60, rows=24, theme=NONE, color="truecolor")


class Page:
    """A display that keeps what is committed."""

    def __init__(self) -> None:
        self.committed: list[str] = []

    @property
    def size(self) -> Size:
        return Size(rows=24, columns=60)

    def commit(self, ansi: str) -> None:
        self.committed.append(ansi)


def transcript(page: Page) -> LiveTranscript:
    settings = Settings(workspace=Path("/nowhere"), theme="none")
    painter = ScreenPainter(settings, page, background="", color="never")
    return LiveTranscript(page, painter, status=Status())


def told(*texts: str) -> tuple[str, list[str]]:
    """What was committed of a text, and the tail below it."""
    page = Page()
    story = transcript(page)
    for text in texts:
        story(TextDelta(text=text))
    return "".join(page.committed), story.render_tail(8)


def test_tail_of_code_goes_on_right_below_the_lines_before_it() -> None:
    assert told("```python\n", "one = 1\n", "two =") == ("\none = 1\n", ["two ="])


def test_tail_is_apart_where_its_block_will_be() -> None:
    assert told("Some") == ("", ["", "Some"])
    assert told("A paragraph.\n\n", "Another") == ("\nA paragraph.\n", ["", "Another"])


def test_marks_that_say_nothing_yet_are_not_shown() -> None:
    assert told("A paragraph.\n\n", "``") == ("\nA paragraph.\n", [])


def test_resumed_session_shows_the_last_exchange_that_was_not_withdrawn() -> None:
    page = Page()
    story = transcript(page)
    failed = TurnEnded(ending=Ending.PROVIDER_FAILED)
    story.load_session([asked("first"), replied(), DONE, asked("lost"), failed, TurnWithdrawn()])
    assert page.committed == ["\n\x1b[1m> first\x1b[0m\n", "\nI will.\n"]


def test_plain_transcript_has_the_words_of_a_link_and_no_codes() -> None:
    story = transcript(Page())
    story.say(LINKING.apply_style("the page", Style(bold=True, link="https://example.org/a?b=1;c")))
    assert "\x1b]8;;https://example.org" in story.render_full()
    assert story.render_plain() == "the page\n"
