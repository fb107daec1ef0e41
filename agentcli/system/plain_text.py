"""Terminal text to plain text: what a terminal would show in the end, as characters alone.

After `show_controls` or `to_plain_text` the only control characters left are newline and tab. None
that changes the writing direction or is never drawn is left either. So nothing a program printed
can move a cursor, set a title or hide text on a later screen. A control sequence never reaches past
the end of its line: one that is cut or never closed hides nothing.
"""

from agentcli.system.lazy import compile_later

_ORDER = "\u202a-\u202e\u2066-\u2069"
_UNDRAWN = "\U000e0000-\U000e007f"
_CONTROL = compile_later(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_ORDER}{_UNDRAWN}]")
_ACTIVE = compile_later(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")

_SEQUENCE = compile_later(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~]?)"
    # Strings (titles, links, images) are dropped only if they are closed.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
    r"|(?P<move>[\r\b])"
)

NAME_CHARS = 100

_FURTHEST_COLUMN = 256
"""The furthest column past the text: a number in a sequence must not cost memory."""


def show_controls(text: str) -> str:
    """Replace every control character but newline and tab by U+FFFD, one for one."""
    return _CONTROL.sub("\ufffd", text)


def abbreviate(name: str, limit_chars: int = NAME_CHARS) -> str:
    """Shorten a name that anybody may have chosen to a few harmless characters."""
    shown = show_controls(name).replace("\n", " ")
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 1] + "…"


def escape_controls(text: str) -> str:
    """Replace what a terminal would act on by U+FFFD and nothing else, for the text of files."""
    return _ACTIVE.sub("\ufffd", text)


def to_plain_text(text: str) -> str:
    """Drop sequences, apply carriage return, backspace and erasing, make the rest visible."""
    if not _CONTROL.search(text):
        return text
    return show_controls("\n".join(map(_overwrite, text.split("\n"))))


def _overwrite(line: str) -> str:
    """Return one line as it is after everything was written over it."""
    if not _SEQUENCE.search(line):
        return line
    row = _Row()
    written = 0
    for found in _SEQUENCE.finditer(line):
        row.write(line[written : found.start()])
        row.obey(found["move"] or found["final"] or "", found["parameters"] or "")
        written = found.end()
    row.write(line[written:])
    return "".join(row.cells)


class _Row:
    """A line of cells and a cursor; a cell is a character, however wide it is drawn."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.cursor = 0

    def write(self, run: str) -> None:
        if not run:
            return
        self.cells.extend(" " * (self.cursor - len(self.cells)))
        self.cells[self.cursor : self.cursor + len(run)] = run
        self.cursor += len(run)

    def obey(self, final: str, parameters: str) -> None:
        match final:
            case "\r":
                self.cursor = 0
            case "\b":
                self._move_to(self.cursor - 1)
            case "D":
                self._move_to(self.cursor - _count(parameters))
            case "C":
                self._move_to(self.cursor + _count(parameters))
            case "G":
                self._move_to(_count(parameters) - 1)
            case "K":
                self._erase(parameters)

    def _move_to(self, column: int) -> None:
        self.cursor = max(0, min(column, max(len(self.cells), _FURTHEST_COLUMN)))

    def _erase(self, parameters: str) -> None:
        if parameters == "2":
            # A program that erases a whole line goes on to write it from its start.
            self.cursor = 0
        if parameters in ("", "0", "2"):
            del self.cells[self.cursor :]


def _count(parameters: str) -> int:
    """Return the number in a sequence; 1 if there is none, or none that makes sense."""
    digits = parameters[:6]
    return max(1, int(digits)) if digits.isascii() and digits.isdigit() else 1
