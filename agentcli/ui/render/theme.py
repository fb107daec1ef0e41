"""Which theme a terminal gets, and how many colours it may use."""

from collections.abc import Mapping
from typing import Literal

from agentcli.ui.render.colour import Colour
from agentcli.ui.render.palette import (
    DARK_LUMINANCE_MAX,
    LIGHT_LUMINANCE_MIN,
    THEMES,
    ColorDepth,
    DiffColors,
    Theme,
    ThemeName,
    build_theme,
)

ColorWhen = Literal["auto", "always", "never"]
_LIGHT_IN_COLORFGBG = frozenset(("7", "15"))
_DARK_IN_COLORFGBG = frozenset(map(str, (0, 1, 2, 3, 4, 5, 6, 8)))


def choose_theme(
    setting: str,
    background: Colour | None,
    environ: Mapping[str, str],
    is_tty: bool,
    *,
    color: ColorWhen = "auto",
    diff: DiffColors = "green-red",
) -> tuple[Theme, ColorDepth]:
    """`setting` is auto or a theme's name; `background` None: the terminal has not told it."""
    depth = find_color_depth(environ, is_tty=is_tty, color=color)
    named = next((name for name in THEMES if name == setting), None)
    return build_theme(
        named or _choose_theme_name(background, environ), depth=depth, diff=diff
    ), depth


def find_color_depth(
    environ: Mapping[str, str], *, is_tty: bool, color: ColorWhen = "auto"
) -> ColorDepth:
    """`--color`, then NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE, then the terminal."""
    if color == "never" or (color == "auto" and environ.get("NO_COLOR")):
        return "none"
    forced = environ.get("FORCE_COLOR") or environ.get("CLICOLOR_FORCE") or "0"
    if color == "always" or forced != "0":
        return _find_terminal_depth(environ) or "16"
    return (_find_terminal_depth(environ) or "none") if is_tty else "none"


def _find_terminal_depth(environ: Mapping[str, str]) -> ColorDepth | None:
    term = environ.get("TERM", "")
    if term in ("", "dumb") and "WT_SESSION" not in environ:
        return None
    if environ.get("COLORTERM", "") in ("truecolor", "24bit") or "WT_SESSION" in environ:
        return "truecolor"
    if term.endswith("-direct"):
        return "truecolor"
    return "256" if "256color" in term else "16"


def _choose_theme_name(background: Colour | None, environ: Mapping[str, str]) -> ThemeName:
    """By the background as far as it is known; `ansi` is readable on any."""
    if background is not None:
        if background.luminance <= DARK_LUMINANCE_MAX:
            return "dark"
        return "light" if background.luminance >= LIGHT_LUMINANCE_MIN else "ansi"
    told = environ.get("COLORFGBG", "").rpartition(";")[2]
    if told in _LIGHT_IN_COLORFGBG:
        return "light"
    return "dark" if told in _DARK_IN_COLORFGBG else "ansi"
