"""Text that looks like a secret: where one is in a text, and where one may have begun.

Keys are known by their shape. Every search is linear: a shape begins with a literal, and if one is
not completed, its run of characters is not searched again. Other values are secret because of the
text beside them. Patterns are compiled when needed, which is rare: this module is imported on the
way to the first request.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from agentcli.system.environment import is_secret_name
from agentcli.types.hidden import BEGIN

Span = tuple[int, int]


def is_example(value: str) -> bool:
    """Return whether it is an example key from the AWS documentation; these all end alike."""
    return value.endswith(("EXAMPLE", "EXAMPLEKEY"))


class SecretShape(NamedTuple):
    prefix: str
    """The literal that it begins with."""
    characters: str
    """The characters that may continue it, as a pattern."""
    rest: str
    """What must follow the prefix, as a pattern."""

    def iter_spans(self, text: str, start: int) -> Iterator[Span]:
        at = text.find(self.prefix, start)
        if at < 0:
            return
        run, rest = re.compile(f"{self.characters}*+"), re.compile(self.rest)
        while at >= 0:
            body = at + len(self.prefix)
            # In the middle of a word it is no key: "task-…" is not "sk-…".
            is_word = at > 0 and text[at - 1].isascii() and text[at - 1].isalnum()
            found = None if is_word else rest.match(text, body)
            if found and not is_example(found[0]):
                yield at, found.end()
            following = found or (None if is_word else run.match(text, body))
            at = text.find(self.prefix, following.end() if following else at + 1)


_KEY = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"

# A row must match SHORTEST_REST characters or more after its prefix, and only TOKEN_CHARACTERS, and
# its prefix must have one of _SIGNS: no other text is searched. A test holds every row to it. What
# is known by other text around it, as in an address, has a function such as `_find_passwords`.
SHAPES: tuple[SecretShape, ...] = (
    *(SecretShape(prefix, _KEY, f"{_KEY}{{16,}}+") for prefix in ("sk-", "sk_live_", "rk_live_")),
    *(SecretShape(f"gh{kind}_", _ALNUM, f"{_ALNUM}{{20,}}+") for kind in "pousr"),
    SecretShape("github_pat_", "[A-Za-z0-9_]", "[A-Za-z0-9_]{20,}+"),
    SecretShape("glpat-", _KEY, f"{_KEY}{{16,}}+"),
    *(SecretShape(begin, "[A-Z0-9]", "[A-Z0-9]{16}(?![A-Z0-9])") for begin in ("AKIA", "ASIA")),
    SecretShape("AIza", _KEY, f"{_KEY}{{30,}}+"),
    *(SecretShape(f"xox{kind}-", "[A-Za-z0-9-]", "[A-Za-z0-9-]{10,}+") for kind in "abeoprs"),
    SecretShape("xapp-", "[A-Za-z0-9-]", "[A-Za-z0-9-]{10,}+"),
    SecretShape("npm_", _ALNUM, f"{_ALNUM}{{30,}}+"),
    SecretShape("pypi-", _KEY, f"{_KEY}{{50,}}+"),
    SecretShape("hf_", _ALNUM, f"{_ALNUM}{{30,}}+"),
    SecretShape("eyJ", _KEY, rf"{_KEY}{{8,}}+\.{_KEY}{{8,}}+(?:\.{_KEY}*+)+"),
)

TOKEN_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_BEGUN_PREFIXES = frozenset(
    shape.prefix[:size] for shape in SHAPES for size in range(1, len(shape.prefix))
)
_LONGEST_PREFIX = max(len(shape.prefix) for shape in SHAPES)

# Between the lines of a key block, also if it was quoted or has line numbers.
_BREAK = r"(?:\s|\\[nr]|\d{1,6}[\t:|])"
_KIND = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_HEADERS = rf"(?:{_BREAK}+[A-Za-z-]{{1,40}}: [^\n\\]{{0,200}})*"
# Groups are not repeated possessively: the first releases of Python 3.11 get that wrong.
_BLOCK = (
    rf"-----BEGIN {_KIND}-----{_HEADERS}((?:{_BREAK}+[A-Za-z0-9+/=]{{16,}}+)*"
    rf"(?:{_BREAK}+[A-Za-z0-9+/=]++(?={_BREAK}*-----END {_KIND}-----))?)"
)
_BLOCK_LINE = rf"{_BREAK}+([A-Za-z0-9+/=]++)"
_BLOCK_BEGIN = "-----BEGIN "
_BLOCK_HEADER = rf"-----BEGIN {_KIND}-----"
_BLOCK_FOOTER = rf"-----END {_KIND}-----"
_BLOCK_HEADER_BEGUN = r"-----B[A-Z0-9 ]*-{0,5}\Z|-{1,5}\Z"
_LONGEST_HEADER = 80
_LONGEST_BLOCK = 16 * 1024


SHORTEST_REST = 10
_SIGNS = "-_AJ"
"""Every prefix has one of these. Looking for one character is by far the fastest search."""
_LONG_CHARS = 8_000


@cache
def _list_shapes(sign: str) -> tuple[SecretShape, ...]:
    return tuple(shape for shape in SHAPES if sign in shape.prefix)


@cache
def _compile_beginnings(sign: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns that find beginnings of keys whose prefix has this sign.

    There is one for each first letter: a pattern that begins with a literal is faster than
    `str.find`."""
    beginnings: dict[str, list[str]] = {}
    for prefix, *_ in _list_shapes(sign):
        beginning = f"{prefix}(?<!{_ALNUM}{prefix})(?=[{TOKEN_CHARACTERS}]{{{SHORTEST_REST}}})"
        beginnings.setdefault(prefix[0], []).append(beginning)
    return tuple(re.compile("|".join(group)) for group in beginnings.values())


def _iter_candidates(text: str) -> Iterator[SecretShape]:
    """Yield the shapes that the text may have. For a short one, patterns are not worth it."""
    for sign in _SIGNS:
        if sign in text and (
            len(text) < _LONG_CHARS or any(one.search(text) for one in _compile_beginnings(sign))
        ):
            yield from (shape for shape in _list_shapes(sign) if shape.prefix in text)


def find_spans(text: str, start: int) -> Iterator[Span]:
    """Yield the spans of keys, and of values beside names, that begin at `start` or later."""
    yield from _find_keys(text, start)
    yield from _find_values(text, start)


def find_open_secret(text: str) -> int:
    """Return where an incomplete secret may begin; the text's length if there is none."""
    return min(_open_token(text), _open_block(text), _open_value(text))


def _find_keys(text: str, start: int) -> Iterator[Span]:
    for shape in _iter_candidates(text):
        yield from shape.iter_spans(text, start)
    at = text.find(_BLOCK_BEGIN, start) if "-" in text else -1
    while at >= 0:
        if block := re.compile(_BLOCK, re.ASCII).match(text, at):
            # Each line by itself, so that the masked text has as many lines as the original.
            lines = re.compile(_BLOCK_LINE, re.ASCII).finditer(text, *block.span(1))
            yield from (line.span(1) for line in lines)
        at = text.find(_BLOCK_BEGIN, block.end() if block else at + 1)


def _open_token(text: str) -> int:
    """Return where an incomplete key may begin. Keys have no blanks: only the last run counts."""
    start = len(text.rstrip(TOKEN_CHARACTERS))
    run = text[start:]
    if not run:
        return start
    found = [at for shape in SHAPES if (at := run.find(shape.prefix)) >= 0]
    begun = [
        len(run) - size
        for size in range(1, min(_LONGEST_PREFIX, len(run) + 1))
        if run[-size:] in _BEGUN_PREFIXES
    ]
    return start + min([*found, *begun, len(run)])


def _open_block(text: str) -> int:
    recent = max(0, len(text) - _LONGEST_BLOCK)
    if text.find(_BLOCK_BEGIN, recent) >= 0:
        for header in re.compile(_BLOCK_HEADER).finditer(text, recent):
            if not re.compile(_BLOCK_FOOTER).search(text, header.end()):
                return header.start()
    tail = text[-_LONGEST_HEADER:]
    begun = re.search(_BLOCK_HEADER_BEGUN, tail) if "-" in tail else None
    return len(text) - len(tail) + begun.start() if begun else len(text)


# Values that are secret because of the text beside them, and values too ordinary to hide: `NAME=
# value` with a name that suggests a secret, the password in an address, and the secret access key
# of AWS in several notations. Only that occurrence is hidden, not the same value elsewhere.
# Candidates are found by a literal. Most texts have none, so the check is fast.


CONTEXT_CHARS = 64
"""The longest context before a value. That much of a stream must be kept."""

_SHORTEST = 6
_LONGEST = 4096
_LONGEST_SEARCHED = 1024
_LONGEST_NAME = 40
_NAME = rf"[A-Za-z0-9_.-]{{1,{_LONGEST_NAME}}}\Z"
_PLAIN = "[^\\s\"'`(){}\\[\\]<>\\\\]"
_IN_QUERY = "[^\\s\"'`(){}\\[\\]<>\\\\&;,|#]"
_MANY = f"{{{_SHORTEST},{_LONGEST}}}+"
_SOME = f"{{1,{_LONGEST}}}+"
_VALUE, _QUERY_VALUE = (
    rf"""\"([^"\r\n]{_MANY})"|'([^'\r\n]{_MANY})'|({plain}{{{_SHORTEST},}}+)(?![(){{}}\[`])"""
    for plain in (_PLAIN, _IN_QUERY)
)
_OPEN_VALUE, _OPEN_QUERY_VALUE = (
    rf"""\"([^"\r\n]{_SOME})\Z|'([^'\r\n]{_SOME})\Z|({plain}{_SOME})\Z"""
    for plain in (_PLAIN, _IN_QUERY)
)
_BEFORE_VALUE = rf"(?=[\"']|(?!=)\S{{{_SHORTEST}}})"
_NAME_ENDS = (
    *("token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "pass"),
    *("credential", "credentials", "key", "keys", "pwd"),
)
"""Endings of names in lower case. None of them is the end of another."""
_LONG_CHARS = 20_000
_LAST_LETTERS = "".join(
    f"[{''.join(sorted({*letters}))}]"
    for letters in zip(*(end[-3:] for end in _NAME_ENDS), strict=True)
)
_EQUALS = f"=(?<={_LAST_LETTERS}=)"
"""Finds the `=` and compares the last letters before it, which is fast."""
_NAME_END = f"(?:{'|'.join(f'(?<=({end})=)' for end in _NAME_ENDS)})"
"""Compares the endings, which is slow: it comes last."""
_USER = "[^/\\s:@\"'<>]{0,48}"
_PASSWORD = "[^/\\s@\"'<>]"
_ADDRESS = rf"://{_USER}:({_PASSWORD}{_MANY})@"
_OPEN_ADDRESS = rf"://{_USER}:({_PASSWORD}{_SOME})\Z"
_SET_OFF = r"access[_-]?key[\"']?[ \t]{0,4}(?:=>|[:=])[ \t]{0,4}[\"']?"
_AWS = rf"{_SET_OFF}([a-z0-9/+]{{40}})(?![a-z0-9/+=])"
_OPEN_AWS = rf"{_SET_OFF}([a-z0-9/+]{{1,40}})\Z"
_is_secret_name = lru_cache(maxsize=1024)(is_secret_name)
_TOKEN_IN_BYTES = BEGIN.encode().decode("latin-1")

_CODE = r"[A-Za-z_]+(?:\.[A-Za-z_]+)*"
_PATH = r"(?:~|\.{0,2})/[\w.-]+(?:/[\w.-]*)*"
_TEMPLATE = ("$", "%(", "{", "<", "=", "*")
_LONGEST_WORD = 15
_PLACEHOLDER_WORDS = (
    "changeme change example placeholder dummy fake sample insert replace todo fixme xxx xxxx your "
    "test testing tests dev development insecure local localhost demo default here foo"
)
_WORDS_AROUND_PLACEHOLDERS = (
    f"{_PLACEHOLDER_WORDS} a me my the this in with of for to not so very super secret secrets key "
    "keys token password passwd pass api app user admin root db value bar baz it please only env "
    "prod production django postgres mysql redis access client auth jwt"
)


def is_ordinary(value: str) -> bool:
    """Return whether a value reveals nothing: one word, number or character, or an example key."""
    is_word = len(value) <= _LONGEST_WORD and value.isascii() and _is_run(value)
    return is_word or len(set(value)) == 1 or is_example(value)


def _is_run(value: str) -> bool:
    return value.isalpha() or value.isdigit()


def _find_values(text: str, start: int) -> Iterator[Span]:
    """Yield the spans of values beside names that begin at `start` or later."""
    if "=" not in text and ":" not in text:
        return
    after, lowered = max(0, start - CONTEXT_CHARS), _lower(text)
    found = [
        *_find_assigned(text, lowered, start=after),
        *_find_passwords(text, after),
        *_find_aws(lowered, after),
    ]
    for begin, end in found:
        if begin >= start and not _is_harmless(text[begin:end]):
            yield begin, end


def _open_value(text: str) -> int:
    """Return where an incomplete value may begin; the text's length if there is none."""
    line = max(text.rfind("\n"), text.rfind("\r"), len(text) - _LONGEST - CONTEXT_CHARS - 1) + 1
    tail, lowered = text[line:], _lower(text[line:])
    found = [
        *_find_assigned(tail, lowered, start=0, is_open=True),
        *_find_passwords(tail, 0, is_open=True),
        *_find_aws(lowered, 0, is_open=True),
    ]
    return line + min((begin for begin, _ in found), default=len(tail))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed, which is rare."""
    return re.compile(pattern, re.ASCII)


def _lower(text: str) -> str:
    """Return the text with ASCII letters in lower case, in as many characters."""
    return text.encode("latin-1", "replace").lower().decode("latin-1")  # others may become `?`


def _find_assigned(text: str, lowered: str, *, start: int, is_open: bool = False) -> Iterator[Span]:
    """Yield the values of names that suggest a secret. With `is_open`, those that end the text."""
    if not _may_assign(lowered):
        return
    reached: dict[int | None, int] = {}
    """Where the latest value ends, for each ending of a name."""
    pattern = _compile(_EQUALS + ("" if is_open else _BEFORE_VALUE) + _NAME_END)
    for equals in pattern.finditer(lowered, start):
        ending = equals.lastindex
        if equals.start() < reached.get(ending, 0):
            continue
        found = _match_value(text, equals.start(), is_open=is_open)
        if found is None:
            continue
        begin, stop = found.span(found.lastindex or 0)
        # Do not search inside a hidden value, nor again and again in a very long run.
        if stop - begin > _LONGEST_SEARCHED or not _is_harmless(text[begin:stop]):
            reached[ending] = stop
        if stop - begin <= _LONGEST:
            yield begin, stop


def _may_assign(lowered: str) -> bool:
    """Return whether a value may be assigned to such a name: a fast first check.

    For a short text the pattern is not worth compiling, for a long one it is faster."""
    if len(lowered) > _LONG_CHARS:
        return True
    at = lowered.find("=")
    while at >= 0:
        if lowered.endswith(_NAME_ENDS, max(0, at - _LONGEST_NAME), at):
            return True
        at = lowered.find("=", at + 1)
    return False


def _match_value(text: str, equals: int, *, is_open: bool) -> re.Match[str] | None:
    """Match the value after the `=`, if the name before it suggests a secret."""
    name = _compile(_NAME).search(text, max(0, equals - _LONGEST_NAME), equals)
    if name is None or not _is_secret_name(name[0]):
        return None
    is_query = text[max(0, name.start() - 1) : name.start()] in ("?", "&", ";")
    patterns = (_OPEN_VALUE, _OPEN_QUERY_VALUE) if is_open else (_VALUE, _QUERY_VALUE)
    return _compile(patterns[is_query]).match(text, equals + 1)


def _find_passwords(text: str, start: int, *, is_open: bool = False) -> Iterator[Span]:
    if (is_open or "@" in text) and "://" in text:
        pattern = _compile(_OPEN_ADDRESS if is_open else _ADDRESS)
        yield from (one.span(1) for one in pattern.finditer(text, start))


def _find_aws(lowered: str, start: int, *, is_open: bool = False) -> Iterator[Span]:
    if "access" in lowered and "key" in lowered:
        pattern = _compile(_OPEN_AWS if is_open else _AWS)
        yield from (one.span(1) for one in pattern.finditer(lowered, start))


@lru_cache(maxsize=1024)
def _is_harmless(value: str) -> bool:
    """Return whether it is no secret: ordinary, a placeholder, a path, code, or hidden already."""
    if is_ordinary(value) or value.startswith(_TEMPLATE) or "://" in value:
        return True
    if sum(map(str.isascii, value)) < _SHORTEST:  # the same for characters as for bytes
        return True
    if BEGIN in value or _TOKEN_IN_BYTES in value or _compile(_PATH).fullmatch(value):
        return True
    return _is_placeholder(value) or (
        bool(_compile(_CODE).fullmatch(value)) and not _is_one_case(value)
    )


def _is_one_case(value: str) -> bool:
    return value.isalpha() and (value.islower() or value.isupper())


def _is_placeholder(value: str) -> bool:
    """Return whether it is a placeholder for a value: your-api-key-here, test-secret-1."""
    words = set(re.findall("[a-z]+", value.lower()))
    digits = sum(char.isdigit() for char in value)
    if digits > 4 or not words <= set(_WORDS_AROUND_PLACEHOLDERS.split()):
        return False
    return not words.isdisjoint(_PLACEHOLDER_WORDS.split())
