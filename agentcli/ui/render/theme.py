"""Themes, and the choice of a theme and a colour depth for a terminal."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pygments.token import Token, _TokenType
from rich.style import Style

from agentcli.system.lazy import compile_later

# Colours as terminals report them, and their luminance


_CHANNELS = compile_later(r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})(/[0-9a-f]{1,4})?")
_HASH = compile_later(r"#((?:[0-9a-f]{3}){1,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Colour:
    """Red, green and blue, each from 0 to 1."""

    red: float
    green: float
    blue: float

    @property
    def luminance(self) -> float:
        """The relative luminance as WCAG 2 defines it, from 0 (black) to 1 (white)."""
        red, green, blue = map(_to_linear, (self.red, self.green, self.blue))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def parse_colour(text: str) -> Colour | None:
    """Read `rgb:1e/1e/1e`, `rgba:1e1e/1e1e/1e1e/ffff` or `#1e1e1e`, with 1 to 4 digits each."""
    text = text.strip().lower()
    if found := _CHANNELS.fullmatch(text):
        digits = [found[1], found[2], found[3]]
    elif found := _HASH.fullmatch(text):
        size = len(found[1]) // 3
        digits = [found[1][at : at + size] for at in range(0, 3 * size, size)]
    else:
        return None
    red, green, blue = (int(one, 16) / (16 ** len(one) - 1) for one in digits)
    return Colour(red=red, green=green, blue=blue)


def _to_linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


# Themes: the style of each part of a screen.


ColorDepth = Literal["truecolor", "256", "16", "none"]
ThemeName = Literal["dark", "light", "ansi", "none"]
DiffColors = Literal["green-red", "blue-orange"]

DARK_LUMINANCE_MAX = 0.036
"""The lightest background for `dark`: about #303446."""
LIGHT_LUMINANCE_MIN = 0.8
"""The darkest background for `light`: about #e7e7e7."""

Syntax = Mapping[_TokenType, Style]
PLAIN = Style.null()
_BOLD = Style(bold=True)
_UNDERLINED = Style(underline=True)
_REVERSED = Style(reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    name: str
    dim: Style = PLAIN
    strong: Style = _BOLD
    accent: Style = _BOLD
    ok: Style = PLAIN
    failed: Style = _BOLD
    warning: Style = _BOLD
    heading: Style = _BOLD
    code: Style = _BOLD
    link: Style = _UNDERLINED
    escaped: Style = _REVERSED
    added: Style = PLAIN
    added_word: Style = PLAIN
    removed: Style = PLAIN
    removed_word: Style = PLAIN
    syntax: Syntax = field(default_factory=dict)
    syntax_in_diffs: bool = False
    """True if these colours can be read on the backgrounds of changed lines."""

    def find_token_style(self, kind: _TokenType) -> Style:
        """Return the style of a token, or of the nearest kind it belongs to."""
        while kind not in self.syntax:
            if kind.parent is None:
                return PLAIN
            kind = kind.parent
        return self.syntax[kind]


SYNTAX_PARTS = ("keyword", "name", "kind", "string", "number", "comment")
_SYNTAX_TOKENS: dict[str, tuple[_TokenType, ...]] = {
    "keyword": (Token.Keyword, Token.Operator.Word, Token.Name.Tag, Token.Generic.Heading),
    "name": (Token.Name.Function, Token.Name.Attribute, Token.Name.Decorator),
    "kind": (
        Token.Name.Class,
        Token.Name.Builtin,
        Token.Name.Exception,
        Token.Keyword.Type,
    ),
    "string": (Token.Literal.String, Token.Literal.Scalar, Token.Generic.Inserted),
    "number": (Token.Literal.Number, Token.Keyword.Constant),
    "comment": (Token.Comment,),
}


def build_syntax(styles: Mapping[str, str]) -> dict[_TokenType, Style]:
    """Return the styles of tokens, from those of the parts in `SYNTAX_PARTS`."""
    return {
        token: Style.parse(style)
        for part, style in styles.items()
        for token in _SYNTAX_TOKENS[part]
    }


DARK = Theme(
    name="dark",
    dim=Style.parse("#a0a0a0"),
    accent=Style.parse("#5fb0e8"),
    ok=Style.parse("#5fd38a"),
    failed=Style.parse("#ff7b72"),
    warning=Style.parse("#e3b341"),
    heading=Style.parse("bold #7cc4ff"),
    code=Style.parse("bold #5fb0e8"),
    link=Style.parse("underline #7cc4ff"),
    added=Style.parse("#e6e6e6 on #12301c"),
    added_word=Style.parse("#ffffff on #1f5c35"),
    removed=Style.parse("#e6e6e6 on #3a1618"),
    removed_word=Style.parse("#ffffff on #74262b"),
    syntax=build_syntax(
        {
            "keyword": "#5fb0e8",
            "name": "#4ecdb6",
            "kind": "#7cc4ff",
            "string": "#d9c46a",
            "number": "#c9a7f5",
            "comment": "#9a9fa6",
        }
    ),
    syntax_in_diffs=True,
)

LIGHT = Theme(
    name="light",
    dim=Style.parse("#626262"),
    accent=Style.parse("#0b5cad"),
    ok=Style.parse("#15692d"),
    failed=Style.parse("#b3261e"),
    warning=Style.parse("#8a5a00"),
    heading=Style.parse("bold #0b5cad"),
    code=Style.parse("bold #0b5cad"),
    link=Style.parse("underline #0b5cad"),
    added=Style.parse("#1f1f1f on #e2f6e6"),
    added_word=Style.parse("#101010 on #a9e3b8"),
    removed=Style.parse("#1f1f1f on #fdeaea"),
    removed_word=Style.parse("#101010 on #f6b8b8"),
    syntax=build_syntax(
        {
            "keyword": "#0b5cad",
            "name": "#00695c",
            "kind": "#1f5f8b",
            "string": "#7a5c00",
            "number": "#7a2bb0",
            "comment": "#5f6368",
        }
    ),
    syntax_in_diffs=True,
)

ANSI = Theme(
    name="ansi",
    dim=Style(dim=True),
    accent=Style.parse("cyan"),
    ok=Style.parse("green"),
    failed=Style.parse("red"),
    warning=Style.parse("yellow"),
    heading=Style.parse("bold"),
    code=Style.parse("bold cyan"),
    link=Style.parse("underline"),
    added=Style.parse("green"),
    added_word=Style.parse("bold green"),
    removed=Style.parse("red"),
    removed_word=Style.parse("bold red"),
    syntax=build_syntax(
        {
            "keyword": "cyan",
            "name": "blue",
            "kind": "bright_blue",
            "string": "yellow",
            "number": "magenta",
            "comment": "dim",
        }
    ),
)

NONE = Theme(name="none")

THEMES: dict[ThemeName, Theme] = {"dark": DARK, "light": LIGHT, "ansi": ANSI, "none": NONE}

_BLUE_ORANGE: dict[ThemeName, tuple[str, str, str, str]] = {
    "dark": (
        "#e6e6e6 on #0f2a45",
        "#ffffff on #1b4f80",
        "#e6e6e6 on #40250a",
        "#ffffff on #7a4410",
    ),
    "light": (
        "#1f1f1f on #e3f0fd",
        "#101010 on #a9d2f7",
        "#1f1f1f on #fdf0e0",
        "#101010 on #f7cf9c",
    ),
    "ansi": ("blue", "bold blue", "yellow", "bold yellow"),
}

# A colour cube of six steps has no dark green between black and #005f00.
_CUBE: dict[tuple[ThemeName, DiffColors], tuple[str, str, str, str]] = {
    ("dark", "green-red"): (
        "color(254) on color(22)",
        "bold color(231) on color(28)",
        "color(254) on color(52)",
        "bold color(231) on color(88)",
    ),
    ("light", "green-red"): (
        "color(234) on color(194)",
        "bold color(233) on color(157)",
        "color(234) on color(224)",
        "bold color(233) on color(217)",
    ),
    ("dark", "blue-orange"): (
        "color(254) on color(17)",
        "bold color(231) on color(24)",
        "color(254) on color(52)",
        "bold color(231) on color(94)",
    ),
    ("light", "blue-orange"): (
        "color(234) on color(189)",
        "bold color(233) on color(153)",
        "color(234) on color(223)",
        "bold color(233) on color(216)",
    ),
}


def build_theme(
    name: ThemeName, *, depth: ColorDepth = "truecolor", diff: DiffColors = "green-red"
) -> Theme:
    """Return the theme as a terminal of that colour depth can show it."""
    if depth == "none" or name == "none":
        return NONE
    theme = ANSI if depth == "16" else THEMES[name]
    known = next(one for one in THEMES if THEMES[one] is theme)
    styles = _BLUE_ORANGE[known] if diff == "blue-orange" else None
    if depth == "256":
        styles = _CUBE.get((known, diff), styles)
    if styles is None:
        return theme
    added, added_word, removed, removed_word = map(Style.parse, styles)
    return replace(
        theme,
        added=added,
        added_word=added_word,
        removed=removed,
        removed_word=removed_word,
        syntax_in_diffs=theme.syntax_in_diffs and depth == "truecolor",
    )


ColorWhen = Literal["auto", "always", "never"]
_LIGHT_IN_COLORFGBG = frozenset(("7", "15"))
_DARK_IN_COLORFGBG = frozenset(map(str, (0, 1, 2, 3, 4, 5, 6, 8)))


def choose_theme(
    setting: str,
    background: Colour | None,
    *,
    environ: Mapping[str, str],
    is_tty: bool,
    color: ColorWhen = "auto",
    diff: DiffColors = "green-red",
    own: Theme | None = None,
) -> tuple[Theme, ColorDepth]:
    """Return the theme and the colour depth for a terminal.

    `setting` is auto or the name of a theme; `background` is None if the terminal did not report
    it. `own` is a theme of the user's own, for terminals with enough colours.
    """
    depth = find_color_depth(environ, is_tty=is_tty, color=color)
    if own is not None and depth in ("truecolor", "256"):
        return own, depth
    named = next((name for name in THEMES if name == setting), None)
    return build_theme(
        named or _choose_theme_name(background, environ), depth=depth, diff=diff
    ), depth


def find_color_depth(
    environ: Mapping[str, str], *, is_tty: bool, color: ColorWhen = "auto"
) -> ColorDepth:
    """Return the depth set by `--color`, NO_COLOR, FORCE_COLOR or CLICOLOR_FORCE, or the terminal.

    The first of these that says something decides.
    """
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
    """Choose by the background, if it is known. `ansi` is readable on any."""
    if background is not None:
        if background.luminance <= DARK_LUMINANCE_MAX:
            return "dark"
        return "light" if background.luminance >= LIGHT_LUMINANCE_MIN else "ansi"
    color = environ.get("COLORFGBG", "").rpartition(";")[2]
    if color in _LIGHT_IN_COLORFGBG:
        return "light"
    return "dark" if color in _DARK_IN_COLORFGBG else "ansi"
