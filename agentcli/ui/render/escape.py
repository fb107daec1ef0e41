"""Characters that would act on a terminal or hide on it, shown as escapes instead.

After `escape` a text holds no control character but newline and tab, nothing that reorders a line
and nothing invisible, except the joiners that scripts and emoji are written with.
"""

import re

from rich.style import Style
from rich.text import Text

from agentcli.ui.render.paint import make_run

_JOINABLE = "\u0600-\u0dff\u200d\u2600-\u27bf\ufe0f\U0001f000-\U0001faff"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u00ad\u115f\u1160\u180e\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufe00-\ufe0d\ufff9-\ufffb\U000e0000-\U000e0fff"
    "\ud800-\udfff]"
    f"|[\u200c\u200d](?![{_JOINABLE}])|(?<![{_JOINABLE}])[\u200c\u200d]"
)


TextRange = tuple[int, int]


def escape(text: str) -> str:
    return _HIDDEN.sub(_format_code_point, text)


def escape_with_ranges(text: str) -> tuple[str, list[TextRange]]:
    """The text, and where in it an escape stands."""
    if _HIDDEN.search(text) is None:
        return text, []
    pieces: list[str] = []
    marks: list[TextRange] = []
    end = size = 0
    for found in _HIDDEN.finditer(text):
        code = _format_code_point(found)
        pieces += (text[end : found.start()], code)
        size += found.start() - end + len(code)
        marks.append((size - len(code), size))
        end = found.end()
    return "".join((*pieces, text[end:])), marks


def style_escaped(text: str, style: Style, *, escape_style: Style) -> Text:
    """The text in a style, with what had to be escaped standing out."""
    if _HIDDEN.search(text) is None:
        return make_run(text, style)
    return append_escaped(Text(), text, style, escape_style=escape_style)


def append_escaped(shown: Text, text: str, style: Style, *, escape_style: Style) -> Text:
    safe, marks = escape_with_ranges(text)
    before = len(shown)
    shown.append(safe, style)
    for start, end in marks:
        shown.stylize(escape_style, before + start, before + end)
    return shown


def _format_code_point(found: re.Match[str]) -> str:
    number = ord(found.group())
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
