"""Values that are secret because of the text beside them, and values too ordinary to hide.

There are three cases: `NAME=value` with a name that suggests a secret, the password in an address,
and the secret access key of AWS in several notations. Only that occurrence is hidden, not the same
value elsewhere. Candidates are found by a literal. Most texts have none, so the check is fast.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from agentcli.permissions.secret_shapes import Span, is_example, to_bytes
from agentcli.system.environment import is_secret_name
from agentcli.types.hidden import BEGIN

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
_NAME_END = f"=(?<={_LAST_LETTERS}=)(?:{'|'.join(f'(?<=({end})=)' for end in _NAME_ENDS)})"
"""Finds the `=`, then compares the last letters before it, which is fast, and then the endings."""
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
_STAND_INS = (
    "changeme change example placeholder dummy fake sample insert replace todo fixme xxx xxxx your "
    "test testing tests dev development insecure local localhost demo default here foo"
)
_AROUND_STAND_INS = (
    f"{_STAND_INS} a me my the this in with of for to not so very super secret secrets key keys "
    "token password passwd pass api app user admin root db value bar baz it please only env prod "
    "production django postgres mysql redis access client auth jwt"
)


def is_ordinary(value: str) -> bool:
    """Return whether a value reveals nothing: one word, number or character, or an example key."""
    is_word = len(value) <= _LONGEST_WORD and value.isascii() and _is_run(value)
    return is_word or len(set(value)) == 1 or is_example(value)


def _is_run(value: str) -> bool:
    return value.isalpha() or value.isdigit()


def iter_hidden_spans(text: str, start: int) -> Iterator[Span]:
    """Yield the spans of hidden values that begin at `start` or later."""
    if "=" not in text and ":" not in text:
        return
    after, lowered = max(0, start - CONTEXT_CHARS), _lower(text)
    found = [
        *_find_assigned(text, lowered, after),
        *_find_passwords(text, after),
        *_find_aws(lowered, after),
    ]
    for begin, end in found:
        if begin >= start and not _is_harmless(text[begin:end]):
            yield begin, end


def open_from(text: str) -> int:
    """Return where an incomplete value may begin; the text's length if there is none."""
    line = max(text.rfind("\n"), text.rfind("\r"), len(text) - _LONGEST - CONTEXT_CHARS - 1) + 1
    tail, lowered = text[line:], _lower(text[line:])
    found = [
        *_find_assigned(tail, lowered, 0, is_open=True),
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
    return to_bytes(text).lower().decode("latin-1")


def _find_assigned(text: str, lowered: str, start: int, *, is_open: bool = False) -> Iterator[Span]:
    """Yield the values of names that suggest a secret. With `is_open`, those that end the text."""
    if not _may_assign(lowered):
        return
    reached: dict[int | None, int] = {}
    """Where the latest value ends, for each ending of a name."""
    pattern = _compile(_NAME_END if is_open else _NAME_END + _BEFORE_VALUE)
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
    return _is_stand_in(value) or (
        bool(_compile(_CODE).fullmatch(value)) and not _is_one_case(value)
    )


def _is_one_case(value: str) -> bool:
    return value.isalpha() and (value.islower() or value.isupper())


def _is_stand_in(value: str) -> bool:
    """Return whether it is a placeholder for a value: your-api-key-here, test-secret-1."""
    words = set(re.findall("[a-z]+", value.lower()))
    digits = sum(char.isdigit() for char in value)
    if digits > 4 or not words <= set(_AROUND_STAND_INS.split()):
        return False
    return not words.isdisjoint(_STAND_INS.split())
