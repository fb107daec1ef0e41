from xml.etree import ElementTree

from tests.pictures.cells import picture, screenshot
from tests.pictures.svg import svg
from tests.support.goldens import paint_of
from tests.support.scenes import SCENES


def test_scene_becomes_a_picture() -> None:
    paint = paint_of("dark", 80)
    shown = picture(SCENES["session"](paint), columns=80, theme=paint.theme)
    drawn = ElementTree.fromstring(svg(shown))
    texts = ["".join(element.itertext()) for element in drawn]
    papers = {element.get("fill") for element in drawn if element.tag.endswith("rect")}
    assert "> fix the divide bug in @calc.py" in texts
    assert papers == {"#18181a", "#12301c", "#1f5c35", "#3a1618"}


def test_screenshot_is_what_is_left_on_the_screen() -> None:
    theme = paint_of("light", 80).theme
    raw = b"\x1b[?2026hgone\r\x1b[K\x1b]8;;http://x\x1b\\kept\x1b]8;;\x1b\\\x1b[?2026l"
    shown = screenshot(raw, columns=20, rows=5, theme=theme)
    assert [(run.text.strip(), run.row) for run in shown.runs] == [("kept", 0)]
