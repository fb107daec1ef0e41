r"""The regular expressions of grep, and what a ripgrep of any version is given for one.

The dialect is Rust's: no look-around, no backreferences. What models write out of habit and only
newer versions or other engines know is accepted: `\"`, `(?<name>…)`, `\<word\>`, a `{` that counts
nothing. The end of a line means the same in files with CRLF: `$` also stands before `\r\n`, and
`\n` is either ending. A pattern that names the end of a line, or says `(?s)` or `[\s\S]`, matches
across lines.
"""

import re
from dataclasses import dataclass

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_ONLY_REGEX = re.compile(r"\\|\.[*+?]|\w\|\w|\(\?|\[\^|\w-\w\]")
_VERBOSE = re.compile(r"(?<!\\)\(\?[a-zA-Z]*x")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NEEDLESS = frozenset("!\"%',/:;=@_` ")
"""What is not special: old versions of ripgrep refuse to see it escaped."""

_TOKEN = re.compile(
    r"""
      (?P<newline>  \n | \\n )
    | (?P<anything> \[\\s\\S\] | \[\\S\\s\] )
    | (?P<dotall>   \(\?[a-zA-Z]*s[a-zA-Z-]*[:)] )
    | (?P<word>     \\<(?=\w) | (?<=\w)\\> )
    | (?P<plain>    \\[pPxuUb]\{[^}]*\} | \{\d+(?:,\d*)?\} )
    | (?P<upto>     \{,\d+\} )
    | (?P<escaping> \\. | \[\^?+\]?+(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] )
    | (?P<named>    \(\?<(?=[A-Za-z_]) )
    | (?P<brace>    \{ )
    | (?P<dollar>   \$ )
    """,
    re.VERBOSE | re.DOTALL,
)
_CROSSES_LINES = frozenset({"newline", "anything", "dotall"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    text: str
    literal: bool
    multiline: bool


def translate_pattern(pattern: str, *, literal: bool) -> Pattern:
    if literal and "\n" not in pattern:
        return Pattern(text=pattern, literal=True, multiline=False)
    if literal:
        lines = (_SPECIAL.sub(r"\\\g<0>", line) for line in pattern.split("\n"))
        return Pattern(text=r"\r?\n".join(lines), literal=False, multiline=True)
    if _VERBOSE.search(pattern):
        return Pattern(text=pattern, literal=False, multiline=r"\n" in pattern)
    crosses_lines = any(token.lastgroup in _CROSSES_LINES for token in _TOKEN.finditer(pattern))
    return Pattern(text=_TOKEN.sub(_rewrite_token, pattern), literal=False, multiline=crosses_lines)


def may_be_meant_literally(pattern: str) -> bool:
    """Whether it has special characters, but none of the things one writes only in a regex."""
    return bool(_SPECIAL.search(pattern)) and not _ONLY_REGEX.search(pattern)


def _rewrite_token(token: re.Match[str]) -> str:
    text = token.group()
    match token.lastgroup:
        case "newline":
            return r"(?:\r?\n)"
        case "upto":
            return text.replace("{", "{0")
        case "escaping":
            return _ESCAPE.sub(lambda one: one[1] if one[1] in _NEEDLESS else one[0], text)
        case "word":
            return r"\b"
        case "named":
            return "(?P<"
        case "brace":
            return r"\{"
        case "dollar":
            return r"\r?$"
        case _:
            return text
