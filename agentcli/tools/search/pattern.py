r"""The regular expressions of grep, rewritten for any version of ripgrep.

The dialect is Rust's: no look-around, no backreferences. Habits of models that only newer versions
or other engines support are accepted: `\"`, `(?<name>…)`, `\<word\>`, a `{` that counts nothing.
Line endings mean the same in files with CRLF: `$` also matches before `\r\n`, and `\n` matches
either ending. A pattern that names a line ending, or has `(?s)` or `[\s\S]`, matches across lines.
"""

import re
from collections.abc import Iterator

from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

_SPECIAL = compile_later(r"[\\.+*?()|\[\]{}^$]")
_ONLY_REGEX = compile_later(r"\\|\.[*+?]|\w\|\w|\(\?|\[\^|\w-\w\]")
_BASIC = compile_later(r"\\\|\\\||\\([|+?(){}])|\\.|\[\^?+\]?+(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An operator of a basic regular expression, or what must not be taken for one."""
_TELLING = frozenset("|+?")
_VERBOSE = compile_later(r"(?<!\\)\(\?[a-zA-Z]*x")
_ESCAPE = compile_later(r"\\(.)", re.DOTALL)
_NEEDLESS = frozenset("!\"%',/:;=@_` ")
"""Characters that need no escape; old versions of ripgrep reject them escaped."""

_TOKEN = compile_later(
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
_PLAIN_QUOTES = frozenset("'\"")
_ANY_QUOTES = str.maketrans({"'": "['‘’]", '"': '["“”„]'})
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
    """Return whether it has special characters, but nothing that is only written in a regex."""
    return bool(_SPECIAL.search(pattern)) and not _ONLY_REGEX.search(pattern)


def read_as_basic(pattern: str) -> list[str]:
    r"""Return what a pattern with `\|`, `\+` or `\?` may mean, for those used to plain grep.

    First with every operator unescaped, then with only those three: brackets may be characters.
    """
    found = {token[1] for token in _BASIC.finditer(pattern)}
    if found.isdisjoint(_TELLING):
        return []
    every = _BASIC.sub(lambda token: token[1] or token[0], pattern)
    some = _BASIC.sub(lambda token: token[1] if token[1] in _TELLING else token[0], pattern)
    return list(dict.fromkeys((every, some)))


def read_without_frame(pattern: str, *, literal: bool) -> Iterator[tuple[str, str]]:
    """Yield what a pattern in quotes, or one for the start of a line, may mean, and why."""
    if len(pattern) > 2 and pattern[0] == pattern[-1] and pattern[0] in "'\"`":
        yield pattern[1:-1], "Quotes count as text"
    if literal:
        return
    if pattern.startswith("^") and pattern[1:2] not in ("", "\\", " ", "(", "[", "$"):
        yield rf"^\s*{pattern[1:]}", "Lines with it are indented"
    if "\\" not in pattern and "[" not in pattern and not _PLAIN_QUOTES.isdisjoint(pattern):
        yield pattern.translate(_ANY_QUOTES), "The quotes there are typographic"


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
