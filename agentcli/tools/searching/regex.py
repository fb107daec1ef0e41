r"""Rust's regular expressions as Python's, for the search that runs where there is no ripgrep.

What Python cannot say is refused in a sentence: `\p{…}`, classes within classes, `&&`, `\A` and
`\z`, a quantifier after a quantifier, flags other than i, m and s or not at the start. What only
Python knows (look-around, backreferences) is refused as ripgrep refuses it.

Bytes that are not UTF-8 are expected as lone surrogates (surrogateescape), and nothing matches
them. `\w`, `\b` and case folding follow Python's tables, which differ from Rust's in combining
marks and a few symbols.
"""

import re

_NOT_TEXT = r"\udc80-\udcff"
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_OUTSIDE = {
    "d": r"\d",
    "D": rf"[^\d{_NOT_TEXT}]",
    "w": r"\w",
    "W": rf"[^\w{_NOT_TEXT}]",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}{_NOT_TEXT}]",
    "b": r"\b",
    "B": r"\B",
    "<": r"\b(?=\w)",
    ">": r"\b(?<=\w)",
}
_INSIDE = {
    "d": r"\d",
    "D": r"\D",
    "w": r"\w",
    "W": r"\W",
    "s": _SPACE,
    "S": (
        r"\x00-\x08\x0e-\x1f!-\x84\x86-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e"
        r"\u2030-\u205e\u2060-\u2fff\u3001-\U0010ffff"
    ),
}
_CONTROLS = frozenset("ntrfva")
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}

_FLAGS = re.compile(r"\(\?([ims]+)\)")
_HEX = re.compile(
    r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\}"
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})\??")
_GROUP = re.compile(r"\(\?:|\(\?P<[A-Za-z_]\w*>|\(\?<[A-Za-z_]\w*>|\(\?-?i:|\((?!\?)")
_POSIX_CLASS = re.compile(r"\[:(\w+):\]")


class RegexError(ValueError):
    """A pattern that cannot be searched for. The message is the end of a sentence."""


def compiled(pattern: str, *, literal: bool, ignore_case: bool) -> re.Pattern[str]:
    """Raises RegexError. `^` and `$` mean lines."""
    if literal:
        return re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else re.NOFLAG)
    translation = _Translation(pattern)
    text = translation.run()
    flags = re.MULTILINE
    if ignore_case or translation.ignore_case:
        flags |= re.IGNORECASE
    try:
        return re.compile(text, flags)
    except re.error as error:
        raise RegexError(error.msg) from None
    except (OverflowError, RecursionError) as error:
        raise RegexError(str(error)) from None


class _Translation:
    def __init__(self, pattern: str) -> None:
        self.ignore_case = False
        self._pattern = pattern
        self._position = 0
        self._dot = rf"[^\n{_NOT_TEXT}]"

    def run(self) -> str:
        while flags := self._take(_FLAGS):
            self.ignore_case |= "i" in flags[1]
            self._dot = f"[^{_NOT_TEXT}]" if "s" in flags[1] else self._dot
        written: list[str] = []
        while self._position < len(self._pattern):
            written.append(self._next())
        return "".join(written)

    def _next(self) -> str:
        match self._peek():
            case "\\":
                return self._escape(_OUTSIDE)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case "*" | "+" | "?" | "{":
                return self._quantifier()
            case ".":
                self._position += 1
                return self._dot
            case "^" | "$" | "|" | ")" as character:
                self._position += 1
                return character
            case character:
                self._position += 1
                return re.escape(character)

    def _peek(self, ahead: int = 0) -> str:
        """The character there, or nothing past the end."""
        at = self._position + ahead
        return self._pattern[at : at + 1]

    def _take(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        found = expected.match(self._pattern, self._position)
        if found:
            self._position = found.end()
        return found

    def _group(self) -> str:
        found = self._take(_GROUP)
        if found:
            return found.group().replace("(?<", "(?P<")
        if re.match(r"\(\?<?[=!]", self._pattern[self._position :]):
            raise RegexError("look-around is not supported")
        raise RegexError("this kind of group, or a flag that is not at the start, needs ripgrep")

    def _quantifier(self) -> str:
        found = self._take(_QUANTIFIER)
        if found is None:
            raise RegexError("a { does not begin a count such as {2,3}")
        if self._peek() in ("*", "+", "?", "{"):
            raise RegexError("a quantifier after a quantifier needs ripgrep")
        return found.group()

    def _escape(self, meanings: dict[str, str]) -> str:
        self._position += 1
        if found := self._take(_HEX):
            return _character(int(found[found.lastindex or 0], 16))
        name = self._peek()
        self._position += 1
        if name == "b" and self._peek() == "{":
            raise RegexError(r"\b{…} needs ripgrep")
        if name in meanings:
            return meanings[name]
        if name in _CONTROLS:
            return "\\" + name
        if name.isdigit():
            raise RegexError("backreferences are not supported")
        if name in ("p", "P", "A", "z"):
            raise RegexError(rf"\{name} needs ripgrep")
        if not name or name.isalpha():
            raise RegexError(rf"unrecognized escape sequence \{name}")
        return re.escape(name)

    def _class(self) -> str:
        self._position += 1
        negated = self._peek() == "^"
        self._position += negated
        members = [self._member()]
        while self._peek() != "]":
            members.append(self._member())
        self._position += 1
        body = "".join(members)
        if negated:
            return f"[^{body}{_NOT_TEXT}]"
        if any(member in (_INSIDE["D"], _INSIDE["W"], _INSIDE["S"]) for member in members):
            return f"(?:(?![{_NOT_TEXT}])[{body}])"
        return f"[{body}]"

    def _member(self) -> str:
        """A character, a range or a set within a class."""
        low = self._character_or_set()
        if self._peek() != "-" or self._peek(1) in ("]", ""):
            return low
        self._position += 1
        return f"{low}-{self._character_or_set()}"

    def _character_or_set(self) -> str:
        character = self._peek()
        if not character:
            raise RegexError("unclosed character class")
        if character == "\\":
            return self._escape(_INSIDE)
        if character == "[":
            return self._posix()
        if character in "&-~" and self._peek(1) == character:
            raise RegexError(f"{character * 2} in a class needs ripgrep")
        self._position += 1
        return re.escape(character)

    def _posix(self) -> str:
        found = self._take(_POSIX_CLASS)
        if found is None or found[1] not in _POSIX:
            raise RegexError(r"a [ within a class must be written \[")
        return _POSIX[found[1]]


def _character(code: int) -> str:
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise RegexError(f"there is no character {code:#x}")
    return re.escape(chr(code))
