"""Themes of the user's own: a file `themes/NAME.toml` beside the settings changes one of ours.

base = "dark"                 # dark or light
background = "#1e1e2e"        # of your terminal, for the check of contrasts
accent = "#89b4fa"
added = "#e6e6e6 on #12301c"
[syntax]
keyword = "bold #cba6f7"
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from rich.color import Color
from rich.errors import StyleSyntaxError
from rich.style import Style

from agentcli.settings import find_theme_file, list_theme_files
from agentcli.system.files import read_regular
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.ui.render.theme import (
    DARK_LUMINANCE_MAX,
    LIGHT_LUMINANCE_MIN,
    SYNTAX_PARTS,
    THEMES,
    Colour,
    Theme,
    build_syntax,
    parse_colour,
)

CONTRAST_MIN = 4.5
_BASES = ("dark", "light")
_STYLES = tuple(one.name for one in fields(Theme) if one.type is Style or one.type == "Style")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThemeFile:
    theme: Theme
    warnings: tuple[str, ...]
    """Styles that are hard to read, as sentences."""


def load_theme(name: str) -> ThemeFile:
    """Load the theme of a file. Raise SettingsError if there is none, or if it has a fault."""
    path = find_theme_file(name)
    try:
        written = tomllib.loads(read_regular(path).decode("utf-8-sig"))
        return _build_theme(name, written)
    except FileNotFoundError:
        known = ", ".join((*THEMES, *list_theme_files()))
        raise SettingsError(f"there is no theme {name}", hint=f"themes: {known}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}", hint=f"edit {path}") from None
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise SettingsError(f"{path}: {error}", hint=f"edit {path}") from None


def _build_theme(name: str, written: Mapping[str, Any]) -> ThemeFile:
    base = written.get("base", "dark")
    if base not in _BASES:
        raise ValueError(f"base must be dark or light, not {base!r}")
    given = {key: value for key, value in written.items() if key not in ("base", "background")}
    parts = given.pop("syntax", {})
    if not isinstance(parts, dict):
        raise ValueError("syntax must be a table [syntax]")
    _require_known(given, _STYLES)
    _require_known(parts, SYNTAX_PARTS)
    styles: dict[str, Any] = {key: _parse_style(key, value) for key, value in given.items()}
    theme = replace(THEMES[base], name=name, **styles)
    if parts:
        for key, value in parts.items():
            _parse_style(f"syntax.{key}", value)
        theme = replace(theme, syntax={**theme.syntax, **build_syntax(parts)})
    luminance = DARK_LUMINANCE_MAX if base == "dark" else LIGHT_LUMINANCE_MIN
    if (background := written.get("background")) is not None:
        luminance = _parse_background(background).luminance
    return ThemeFile(theme=theme, warnings=tuple(_find_faint(theme, luminance)))


def _require_known(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"{key} is no part of a theme; {hint}")


def _parse_style(key: str, value: Any) -> Style:
    try:
        return Style.parse(value)
    except (StyleSyntaxError, AttributeError, TypeError):
        raise ValueError(f'{key} = {value!r} is no style; write it like "bold #5fb0e8"') from None


def _parse_background(value: Any) -> Colour:
    if not isinstance(value, str) or (colour := parse_colour(value)) is None:
        raise ValueError(f'background = {value!r} is no colour; write it like "#1e1e2e"')
    return colour


def _find_faint(theme: Theme, background: float) -> Iterator[str]:
    """Yield a sentence for each style whose colours are too much alike."""
    named = {name: getattr(theme, name) for name in _STYLES}
    named |= {f"syntax {kind!r}": style for kind, style in theme.syntax.items()}
    for name, style in named.items():
        if style.color is None:
            continue
        behind = _measure(style.bgcolor) if style.bgcolor else background
        high, low = sorted((_measure(style.color), behind), reverse=True)
        contrast = (high + 0.05) / (low + 0.05)
        if contrast < CONTRAST_MIN:
            yield f"{name} is hard to read: contrast {contrast:.1f} : 1, less than {CONTRAST_MIN}"


def _measure(color: Color) -> float:
    red, green, blue = color.get_truecolor()
    return Colour(red=red / 255, green=green / 255, blue=blue / 255).luminance
