"""`python -m tests.pictures [DIRECTORY]` draws the screens and the real session as SVG and PNG.

`python -m tests.pictures --goldens` writes the screens that the tests compare with.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

from agentcli.ui.render.theme import ThemeName
from tests.pictures.cells import Picture, picture, screenshot
from tests.pictures.live import screens
from tests.pictures.png import write_png
from tests.pictures.svg import svg
from tests.support.goldens import paint_of, write_goldens
from tests.support.scenes import SCENES

SIZES = ((80, 24), (120, 40))
README = Path(__file__).parents[2] / "docs" / "pictures"
BEST = {
    "session": "failing-dark-120",
    "approval": "approval-light-120",
    "streaming": "streaming-dark-80",
}
THEMES: tuple[ThemeName, ...] = ("dark", "light", "ansi", "none")
LIVE_THEMES: tuple[ThemeName, ...] = ("dark", "light")


def drawn() -> Iterator[tuple[str, Picture]]:
    for theme in THEMES:
        for columns, _ in SIZES:
            paint = paint_of(theme, columns)
            for scene, draw in SCENES.items():
                shown = picture(draw(paint), columns=columns, theme=paint.theme)
                yield f"{scene}-{theme}-{columns}", shown


def taken() -> Iterator[tuple[str, Picture]]:
    for theme in LIVE_THEMES:
        for columns, rows in SIZES:
            paint = paint_of(theme, columns)
            for moment, raw in screens(theme, columns=columns, rows=rows):
                shown = screenshot(raw, columns=columns, rows=rows, theme=paint.theme)
                yield f"{moment}-{theme}-{columns}", shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("build/pictures"))
    parser.add_argument("--goldens", action="store_true")
    parser.add_argument("--readme", action="store_true", help="write docs/pictures, too")
    given = parser.parse_args()
    if given.goldens:
        write_goldens()
        return
    given.directory.mkdir(parents=True, exist_ok=True)
    for pictures in (drawn(), taken()):
        for name, shown in pictures:
            (given.directory / f"{name}.svg").write_text(svg(shown), encoding="utf-8")
            write_png(shown, given.directory / f"{name}.png")
    if given.readme:
        README.mkdir(parents=True, exist_ok=True)
        for name, best in BEST.items():
            copyfile(given.directory / f"{best}.svg", README / f"{name}.svg")


main()
