from collections.abc import Iterator

import pytest
from rich.color import Color, ColorSystem
from rich.style import Style

from agentcli.ui.render.palette import THEMES, ColorDepth, DiffColors, Theme, ThemeName, themed

ENOUGH = 4.5
SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT}


def luminance(color: Color, depth: ColorDepth) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, color.downgrade(SYSTEMS[depth]).get_truecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(text: Color, background: Color, depth: ColorDepth) -> float:
    light, dark = sorted((luminance(text, depth), luminance(background, depth)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def pairs(theme: Theme) -> Iterator[tuple[str, Style]]:
    """Every text in a colour of ours and the background it can stand on."""
    background = Style.parse(f"on {theme.background}")
    for name in ("dim", "accent", "ok", "failed", "warning", "heading", "code", "link"):
        yield name, background + getattr(theme, name)
    for name in ("added", "added_word", "removed", "removed_word"):
        yield name, getattr(theme, name)
    places = {"page": background}
    if theme.syntax_in_diffs:
        places |= {"added": theme.added, "removed": theme.removed}
    for token, style in theme.syntax.items():
        for name, base in places.items():
            yield f"{token} on {name}", base + style


@pytest.mark.parametrize("depth", ["truecolor", "256"])
@pytest.mark.parametrize("diff", ["green-red", "blue-orange"])
@pytest.mark.parametrize("name", ["dark", "light"])
def test_every_text_stands_out_from_its_background(
    name: ThemeName, diff: DiffColors, depth: ColorDepth
) -> None:
    weak = {}
    for place, style in pairs(themed(name, depth=depth, diff=diff)):
        assert style.color is not None and style.bgcolor is not None, place
        ratio = contrast(style.color, style.bgcolor, depth)
        if ratio < ENOUGH:
            weak[place] = round(ratio, 2)
    assert weak == {}


def test_sixteen_colours_have_no_backgrounds() -> None:
    theme = themed("dark", depth="16")
    assert theme is THEMES["ansi"]
    styles = [value for name in theme.__slots__ if isinstance(value := getattr(theme, name), Style)]
    assert [style for style in (*styles, *theme.syntax.values()) if style.bgcolor] == []


def test_no_colours_leave_attributes_alone() -> None:
    theme = themed("dark", depth="none")
    styles = [value for name in theme.__slots__ if isinstance(value := getattr(theme, name), Style)]
    assert [style for style in styles if style.color or style.bgcolor] == []
    assert theme.strong.bold


def test_diff_colours_are_those_of_the_design() -> None:
    def on(theme: Theme) -> list[str]:
        styles = (theme.added, theme.added_word, theme.removed, theme.removed_word)
        return [style.bgcolor.name for style in styles if style.bgcolor]

    assert on(themed("dark")) == ["#12301c", "#1f5c35", "#3a1618", "#74262b"]
    assert on(themed("light")) == ["#e2f6e6", "#a9e3b8", "#fdeaea", "#f6b8b8"]
    assert [str(themed(name).dim) for name in ("dark", "light", "ansi")] == [
        "#8a8a8a",
        "#666666",
        "dim",
    ]
