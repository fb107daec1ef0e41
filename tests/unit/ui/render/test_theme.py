import pytest

from agentcli.ui.render.theme import (
    ColorDepth,
    ColorWhen,
    Colour,
    ThemeName,
    choose_theme,
    find_color_depth,
    parse_colour,
)

XTERM = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


@pytest.mark.parametrize(
    ("environ", "is_tty", "color", "depth"),
    [
        (XTERM, True, "auto", "truecolor"),
        ({"TERM": "xterm-256color"}, True, "auto", "256"),
        ({"TERM": "xterm"}, True, "auto", "16"),
        ({"TERM": "dumb"}, True, "auto", "none"),
        ({}, True, "auto", "none"),
        (XTERM, False, "auto", "none"),
        (XTERM | {"NO_COLOR": "1"}, True, "auto", "none"),
        (XTERM | {"NO_COLOR": ""}, True, "auto", "truecolor"),
        (XTERM | {"NO_COLOR": "1"}, False, "always", "truecolor"),
        (XTERM | {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, "auto", "none"),
        (XTERM | {"FORCE_COLOR": "1"}, False, "auto", "truecolor"),
        (XTERM | {"CLICOLOR_FORCE": "1"}, False, "auto", "truecolor"),
        (XTERM | {"FORCE_COLOR": "0"}, False, "auto", "none"),
        (XTERM | {"FORCE_COLOR": "1"}, True, "never", "none"),
        ({"FORCE_COLOR": "1"}, False, "auto", "16"),
    ],
)
def test_depth_follows_flag_then_environment_then_terminal(
    environ: dict[str, str], is_tty: bool, color: ColorWhen, depth: ColorDepth
) -> None:
    assert find_color_depth(environ, is_tty=is_tty, color=color) == depth


@pytest.mark.parametrize(
    ("setting", "background", "environ", "name"),
    [
        ("auto", parse_colour("#1e1e1e"), {}, "dark"),
        ("auto", parse_colour("#fdf6e3"), {}, "light"),
        ("auto", None, {"COLORFGBG": "15;0"}, "dark"),
        ("auto", None, {"COLORFGBG": "0;default;15"}, "light"),
        ("auto", parse_colour("#808080"), {"COLORFGBG": "15;0"}, "ansi"),
        ("auto", None, {"COLORFGBG": "default;default"}, "ansi"),
        ("auto", None, {}, "ansi"),
        ("light", parse_colour("#1e1e1e"), {}, "light"),
        ("none", None, {}, "none"),
        ("dark", None, {"NO_COLOR": "1"}, "none"),
    ],
)
def test_theme_follows_setting_then_background(
    setting: str, background: Colour | None, environ: dict[str, str], name: ThemeName
) -> None:
    theme, _ = choose_theme(setting, background, environ=XTERM | environ, is_tty=True)
    assert theme.name == name
