"""Screens kept as text: what every theme shows at every width, style by style."""

from pathlib import Path

from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import THEMES, ColorDepth, ThemeName, build_theme
from tests.support.scenes import SCENES

SCREENS = Path(__file__).parents[2] / "fixtures" / "screens"
WIDTHS = (40, 80, 120)
NAMES = [
    *(f"{scene}-{theme}-{columns}" for scene in SCENES for theme in THEMES for columns in WIDTHS),
    *(f"{scene}-accessible-{columns}" for scene in SCENES for columns in WIDTHS),
]


def paint_of(theme: ThemeName, columns: int) -> Paint:
    depths: dict[ThemeName, ColorDepth] = {"ansi": "16", "none": "none"}
    depth = depths.get(theme, "truecolor")
    return Paint(columns=columns, rows=40, theme=build_theme(theme, depth=depth), color=depth)


def drawn(name: str) -> str:
    """The escape character as a visible sign, so that the file can be read and compared."""
    scene, theme, columns = name.split("-")
    if theme == "accessible":
        paint = Paint(
            columns=int(columns),
            rows=40,
            theme=build_theme("none"),
            color="none",
            ascii=True,
            accessible=True,
        )
    else:
        paint = paint_of(next(known for known in THEMES if known == theme), int(columns))
    return SCENES[scene](paint).replace("\x1b", "␛")


def write_goldens() -> None:
    SCREENS.mkdir(exist_ok=True)
    for old in SCREENS.glob("*.txt"):
        old.unlink()
    for name in NAMES:
        (SCREENS / f"{name}.txt").write_text(drawn(name), encoding="utf-8")
