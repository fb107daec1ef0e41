from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.color import Color, ColorSystem
from rich.style import Style

from agentcli.ui.render.theme import (
    THEMES,
    ColorDepth,
    Colour,
    DiffColors,
    Theme,
    ThemeName,
    build_theme,
    choose_theme,
    parse_colour,
)

ENOUGH = 4.5
ENVIRON = {
    "truecolor": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    "256": {"TERM": "xterm-256color"},
}
SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT}


REAL_BACKGROUNDS: dict[str, ThemeName] = {
    "#000000": "dark",  # xterm, Linux console
    "#1e1e1e": "dark",  # VS Code, macOS Terminal Pro
    "#282c34": "dark",  # One Dark
    "#002b36": "dark",  # Solarized Dark
    "#2e3440": "dark",  # Nord
    "#300a24": "dark",  # Ubuntu
    "#282a36": "dark",  # Dracula
    "#ffffff": "light",
    "#fdf6e3": "light",  # Solarized Light
    "#eff1f5": "light",  # Catppuccin Latte
    "#fafafa": "light",  # One Light
    "#fbf1c7": "light",  # Gruvbox Light
}


def color_luminance(color: Color, depth: ColorDepth) -> float:
    red, green, blue = (part / 255 for part in color.downgrade(SYSTEMS[depth]).get_truecolor())
    return Colour(red=red, green=green, blue=blue).luminance


def contrast(one: float, other: float) -> float:
    light, dark = max(one, other), min(one, other)
    return (light + 0.05) / (dark + 0.05)


def texts(theme: Theme) -> Iterator[tuple[str, Style]]:
    """Every style of text that can stand on the terminal's own background."""
    for name in theme.__slots__:
        style = getattr(theme, name)
        if isinstance(style, Style) and style.bgcolor is None and style.color is not None:
            yield name, style
    for token, style in theme.syntax.items():
        yield str(token), style


def filled(theme: Theme) -> Iterator[tuple[str, Style]]:
    """Every text on a background of ours."""
    for name in ("added", "added_word", "removed", "removed_word"):
        yield name, getattr(theme, name)
    for token, style in theme.syntax.items() if theme.syntax_in_diffs else ():
        for name in ("added", "removed"):
            yield f"{token} on {name}", getattr(theme, name) + style


def weak_texts(background: Colour, theme: Theme, depth: ColorDepth) -> dict[str, float]:
    ratios = {
        name: contrast(color_luminance(style.color, depth), background.luminance)
        for name, style in texts(theme)
        if style.color is not None
    }
    return {name: round(ratio, 2) for name, ratio in ratios.items() if ratio < ENOUGH}


@pytest.mark.parametrize("depth", ["truecolor", "256"])
@pytest.mark.parametrize(("told", "name"), REAL_BACKGROUNDS.items())
def test_every_text_stands_out_from_the_background_of_a_real_terminal(
    told: str, name: ThemeName, depth: ColorDepth
) -> None:
    background = parse_colour(told)
    theme, _ = choose_theme("auto", background, environ=ENVIRON[depth], is_tty=True)
    assert background is not None
    assert (theme.name, weak_texts(background, theme, depth)) == (name, {})


@given(parts=st.tuples(*3 * [st.integers(0, 255)]), depth=st.sampled_from(["truecolor", "256"]))
@example(parts=(0x30, 0x34, 0x46), depth="truecolor")
@example(parts=(0xE8, 0xE8, 0xE8), depth="256")
def test_no_theme_is_chosen_for_a_background_it_cannot_be_read_on(
    parts: tuple[int, int, int], depth: ColorDepth
) -> None:
    red, green, blue = (part / 255 for part in parts)
    background = Colour(red=red, green=green, blue=blue)
    theme, _ = choose_theme("auto", background, environ=ENVIRON[depth], is_tty=True)
    assert theme.name == "ansi" or weak_texts(background, theme, depth) == {}


@pytest.mark.parametrize("depth", ["truecolor", "256"])
@pytest.mark.parametrize("diff", ["green-red", "blue-orange"])
@pytest.mark.parametrize("name", ["dark", "light"])
def test_every_text_stands_out_from_a_background_of_ours(
    name: ThemeName, diff: DiffColors, depth: ColorDepth
) -> None:
    weak = {}
    for place, style in filled(build_theme(name, depth=depth, diff=diff)):
        assert style.color is not None and style.bgcolor is not None, place
        ratio = contrast(color_luminance(style.color, depth), color_luminance(style.bgcolor, depth))
        if ratio < ENOUGH:
            weak[place] = round(ratio, 2)
    assert weak == {}


def test_sixteen_colours_have_no_backgrounds() -> None:
    theme = build_theme("dark", depth="16")
    assert theme is THEMES["ansi"]
    styles = [value for name in theme.__slots__ if isinstance(value := getattr(theme, name), Style)]
    assert [style for style in (*styles, *theme.syntax.values()) if style.bgcolor] == []


def test_no_colours_leave_attributes_alone() -> None:
    theme = build_theme("dark", depth="none")
    styles = [value for name in theme.__slots__ if isinstance(value := getattr(theme, name), Style)]
    assert [style for style in styles if style.color or style.bgcolor] == []
    assert theme.strong.bold


def test_diff_colours_are_those_of_the_design() -> None:
    def on(theme: Theme) -> list[str]:
        styles = (theme.added, theme.added_word, theme.removed, theme.removed_word)
        return [style.bgcolor.name for style in styles if style.bgcolor]

    assert on(build_theme("dark")) == ["#12301c", "#1f5c35", "#3a1618", "#74262b"]
    assert on(build_theme("light")) == ["#e2f6e6", "#a9e3b8", "#fdeaea", "#f6b8b8"]
    assert [str(build_theme(name).dim) for name in ("dark", "light", "ansi")] == [
        "#a0a0a0",
        "#626262",
        "dim",
    ]
