"""A parser for shell command lines that accepts only plain ones.

A plain line consists of literal words in simple commands joined by `; && || |` and newlines: it
shows what it runs. Comments do not count, nor do a few harmless variables before a command.
Everything else is an `OpaqueLine`, with the reason. The parser does not try to understand bash. It
knows one small part of it exactly and refuses the rest, so a construct that nobody thought of is
refused, too. It must never return other words than bash would run.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import dropwhile
from typing import TypeAlias

from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShellWord:
    text: str
    """The word as the program gets it, without quotes."""
    is_glob: bool = False
    """True if bash may replace it by file names, any number of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellPart:
    """One simple command of a line. It has at least one word, and the first has no quotes."""

    words: tuple[ShellWord, ...]
    argv: tuple[str, ...]
    """The texts of the words."""
    program: str
    """The first of them."""
    source: str
    """The text of the command in the line."""
    inputs: tuple[str, ...] = ()
    """The files that are redirected into it."""
    has_assignments: bool = False
    """True if harmless variables are set for it, which are not among the words."""


@dataclass(frozen=True, slots=True)
class PlainLine:
    parts: tuple[ShellPart, ...]


@dataclass(frozen=True, slots=True)
class OpaqueLine:
    reason: str
    """The obstacle, as a noun: `command substitution $(…)`."""


ShellLine: TypeAlias = PlainLine | OpaqueLine

_KEPT_LINES = 64

_BARE = (
    r"[A-Za-z0-9_./,:=+@%^*?\[\]\-]"
    r"|[^\x00-\x7f]"
    # At the start of a word, or after `=` or `:`, a tilde is a home directory.
    r"|(?<=[A-Za-z0-9_^~])~"
    # At the start of a word, `#` begins a comment.
    r"|(?<=[A-Za-z0-9_./-])\#"
)
# A dollar sign before these characters stands for itself, as at the end of a pattern.
_IN_QUOTES = r'[^"$`\\!]|\\[^!\n]|\$(?=["| )/])'
_TOKEN = compile_later(
    r"(?P<blank>[ \t]+)"
    r"|(?P<comment>(?<![^ \t\n])\#[^\n]*)"
    # Redirections that write no file, with both ends free: `2>&1x` and `f2>&1` mean something else.
    # Bash opens a connection for names such as /dev/tcp/host/80.
    r"|(?P<redirection>(?<=[ \t])(?:(?:[12]?>|&>|<)[ \t]*/dev/null|2>&1|1?>&2"
    r"|<[ \t]*(?!/(?:dev|proc)/)[A-Za-z0-9_./+-]+)(?=[ \t\n;|&]|\Z))"
    r"|(?P<joiner>(?:&&|\|\||;(?![;&])|\|(?!&)|\n)[ \t\n]*)"
    rf"""|(?P<word>(?:{_BARE}|'[^']*'|"(?:{_IN_QUOTES})*")+)"""
)
_QUOTED = compile_later(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")
_ESCAPED = compile_later(r'\\([$`"\\])')
"""Before other characters, a backslash in double quotes stands for itself."""

_PROGRAM = compile_later(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*|\[|:")

# Variables that tell a program how to print and whom for. None of them names code or a file.
_HARMLESS_ASSIGNMENT = compile_later(
    r"""(?:CI|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|TERM|COLUMNS|LINES|LANG|LC_[A-Z]+
    |NODE_ENV|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED|PYTHONHASHSEED|RUST_BACKTRACE
    |CARGO_TERM_COLOR)=(?P<quote>["']?)[A-Za-z0-9_.,:@-]*(?P=quote)""",
    re.VERBOSE,
)

_RESERVED = compile_later(
    r"if|then|else|elif|fi|case|esac|for|select|while|until|do|done|in|function|time|coproc|\[\[.*"
)

_OBSTACLES = (
    (r"\$\(\(|\$\[", "arithmetic $((…))"),
    (r"\$\(", "command substitution $(…)"),
    (r"`", "command substitution `…`"),
    (r"\$\{", "variable ${…}"),
    (r"\$['\"]", "quoting with $'…'"),
    (r"\$", "variable $…"),
    (r"\\\n", "line continuation"),
    (r"\\", "backslash"),
    (r"[<>]\(", "process substitution <(…)"),
    (r"<<<", "here-string <<<"),
    (r"<<", "here-document <<"),
    (r"&>|>|[0-9]+>", "redirection >"),
    (r"<", "redirection <"),
    (r"\(|\)", "subshell or function (…)"),
    (r"\{|\}", "braces {…}"),
    (r"\|&", "pipe of both streams |&"),
    (r"&", "background &"),
    (r";[;&]", "case branch ;;"),
    (r"!", "history or negation !"),
    (r"~", "home directory ~"),
    (r"#", "comment #"),
    (r"'[^']*\Z|\"[^\"]*\Z", "quote that is not closed"),
)
_OBSTACLE_IN_QUOTES = compile_later(rf'"(?:{_IN_QUOTES})*([$`\\!])')


class _Refused(Exception):
    """The reason why the line is refused."""


@lru_cache(maxsize=_KEPT_LINES)
def parse_line(line: str) -> ShellLine:
    """Parse a line. Cached, since judging a call parses its line several times."""
    try:
        _refuse_hidden_characters(line)
        return PlainLine(_parse_parts(line))
    except _Refused as refused:
        return OpaqueLine(str(refused))


def _refuse_hidden_characters(line: str) -> None:
    """Refuse control characters, blanks that bash does not split at, and invisible characters."""
    for character in line:
        if character in "\n\t" or " " <= character <= "~":
            continue
        category = unicodedata.category(character)
        if category[0] in "CZ":
            kind = "blank" if category[0] == "Z" else "control character"
            raise _Refused(f"{kind} U+{ord(character):04X}")


def _parse_parts(line: str) -> tuple[ShellPart, ...]:
    line = line.strip(" \t\n")
    commands: list[list[re.Match[str]]] = [[]]
    joiner = ""
    for token in _iter_tokens(line):
        if token.lastgroup == "joiner":
            is_comment_alone = not commands[-1] and not joiner
            joiner = token.group().strip()
            if is_comment_alone and not joiner:
                continue
            if not commands[-1]:
                raise _Refused(f"{joiner} without a command before it")
            commands.append([])
        elif token.lastgroup not in ("blank", "comment"):
            commands[-1].append(token)
    if len(commands) > 1 and not commands[-1] and joiner in (";", ""):
        commands.pop()
    if not commands[-1]:
        raise _Refused(f"{joiner} without a command after it" if joiner else "empty command")
    return tuple(_parse_part(line, tokens) for tokens in commands)


def _parse_part(line: str, tokens: list[re.Match[str]]) -> ShellPart:
    source = line[tokens[0].start() : tokens[-1].end()]
    command = list(dropwhile(_is_harmless_assignment, tokens))
    _check_program((command or tokens)[0])
    words = tuple(_parse_word(token.group()) for token in command if token.lastgroup == "word")
    argv = tuple(word.text for word in words)
    redirected = (token.group() for token in command if token.lastgroup == "redirection")
    return ShellPart(
        words=words,
        argv=argv,
        program=argv[0],
        source=source,
        inputs=tuple(one[1:].strip(" \t") for one in redirected if one.startswith("<")),
        has_assignments=len(command) < len(tokens),
    )


def _is_harmless_assignment(token: re.Match[str]) -> bool:
    raw = token.group()
    return "=" in raw and _HARMLESS_ASSIGNMENT.fullmatch(raw) is not None


def _iter_tokens(line: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(line):
        token = _TOKEN.match(line, position)
        if token is None:
            raise _Refused(_name_obstacle(line, position))
        yield token
        position = token.end()


def _check_program(first: re.Match[str]) -> None:
    """Refuse a quoted name, a keyword or an assignment: they are not what they seem."""
    raw = first.group()
    if first.lastgroup != "word":
        raise _Refused("redirection before the command")
    if _RESERVED.fullmatch(raw):
        raise _Refused(f"keyword {raw}")
    if not _PROGRAM.fullmatch(raw):
        raise _Refused("assignment NAME=…" if "=" in raw else "unusual program name")


def _parse_word(raw: str) -> ShellWord:
    bare = text = raw
    if "'" in raw or '"' in raw:
        bare = _QUOTED.sub("", raw)
        text = _QUOTED.sub(lambda one: one[1] or _ESCAPED.sub(r"\1", one[2] or ""), raw)
    return ShellWord(text, is_glob=raw != "[" and any(character in "*?[" for character in bare))


def _name_obstacle(line: str, position: int) -> str:
    if in_quotes := _OBSTACLE_IN_QUOTES.match(line, position):
        position = in_quotes.start(1)
    for pattern, name in _OBSTACLES:
        if re.compile(pattern).match(line, position):
            return name
    return f"character {line[position]!r}"
