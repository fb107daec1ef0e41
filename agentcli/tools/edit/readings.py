"""Other readings of an edit's arguments: with what was pasted around the text, or written out.

Line numbers, the marks of a diff, a code fence, escapes, entities of HTML. A reading applies only
if all of old_text has that form, and new_text has it too or not at all.
"""

import json
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from agentcli.system.lazy import compile_later
from agentcli.system.text import to_lf
from agentcli.tools.edit.whitespace import to_plain_typography
from agentcli.types.fast_dataclass import dataclass

_NUMBERED = (
    compile_later(r" *(\d{1,9})(?: ?\t(.*))?"),
    compile_later(r" *(\d{1,9})(?: ?→(.*))?"),
)
"""Line numbers before a mark that code does not have after numbers."""
_NUMBERED_LIKE_CODE = (
    compile_later(r" *[L\[]?(\d{1,9})(?: ?[]|:.)-](.*))?"),
    compile_later(r" *[L\[]?(\d{1,9})(?:(?: ?[]|:.)-])? (.*)| ?[]|:.)-])?"),
)
"""Those before a mark that code has, too: they count only where the numbers fit the file."""
_FENCE_MARK = "```"
_FENCE = compile_later(r"\s*```[\w+-]*\n(?P<inner>.*?)\n?```\s*", re.DOTALL)
_ENTITIES = {
    "&lt;": "<",
    "&gt;": ">",
    "&amp;": "&",
    "&quot;": '"',
    "&#34;": '"',
    "&apos;": "'",
    "&#39;": "'",
    "&#x27;": "'",
}
_ENTITY = compile_later("|".join(_ENTITIES))
_ESCAPE = compile_later(r'\\(\\|n|r|t|")')
_UNESCAPED = {"\\": "\\\\", "n": "\n", "r": "\r", "t": "\t", '"': '"'}
_OTHER_ESCAPE = compile_later(r'\\[^nrt"]')
"""Escapes other than those that are undone; a text with its own backslashes may have any."""
_DOUBLED, _QUOTE = "\\\\", '\\"'
_QUOTES = "\"'`"


@dataclass(frozen=True, slots=True)
class Reading:
    old: str
    new: str
    without: str = ""
    """A description of what was removed, for the result; empty if nothing was."""
    first_line: int | None = None
    """The number that the first line with text had. Between numbers, no blank line slips in."""
    needs_first_line: bool = False
    """True if only lines of these numbers can be meant."""


def list_other_readings(given: Reading) -> list[Reading]:
    plain = [given, *_unescape(given.old, given.new), *_unwrap(given.old, given.new)]
    return [*plain[1:], *(reading for one in plain for reading in _without_numbers(one))]


def _without_numbers(reading: Reading) -> Iterator[Reading]:
    for form in (*_NUMBERED, *_NUMBERED_LIKE_CODE):
        old, new = _strip_numbers(reading.old, form), _strip_numbers(reading.new, form)
        if old is None or not old.text.strip():
            continue
        if new is None and any(map(form.fullmatch, filter(None, reading.new.split("\n")))):
            continue
        if new is None or new.first == old.first:
            yield Reading(
                old.text,
                new.text if new else reading.new,
                f"{reading.without} and line numbers" if reading.without else "line numbers",
                first_line=old.first_filled,
                needs_first_line=form in _NUMBERED_LIKE_CODE,
            )


class _Numbered(NamedTuple):
    first: int
    first_filled: int
    """The number of the first line with text, or of the line after the last."""
    text: str
    """The text without its line numbers."""


def _strip_numbers(text: str, form: re.Pattern[str]) -> _Numbered | None:
    """Return the text without line numbers if all lines have them, in sequence."""
    body = text.strip("\n")
    matches = [form.fullmatch(line) for line in body.split("\n")]
    lines = [match for match in matches if match]
    numbers = [int(match[1]) for match in lines]
    if len(lines) < len(matches) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    plain = [match[2] or "" for match in lines]
    blank_lines = len(list(takewhile(lambda line: not line.strip(), plain)))
    return _Numbered(numbers[0], numbers[0] + blank_lines, text.replace(body, "\n".join(plain), 1))


def _unescape(old: str, new: str) -> Iterator[Reading]:
    if "\n" in old:
        return
    # Doubled backslashes mean that everything was escaped once too often, so all of it is undone.
    unescape = _as_json if _DOUBLED in old else _as_written
    plain_old = unescape(old)
    plain_new = unescape(new) if "\n" not in new else new
    if plain_old is None or plain_old == old or plain_new is None:
        return
    plain_old, plain_new = to_lf(plain_old), to_lf(plain_new)
    if "\n" in new and _ESCAPE.search(new):
        return  # its newlines are real, but its other escapes may not be
    if (_DOUBLED in old and _DOUBLED in new) or _is_sure(plain_old, new, plain_new=plain_new):
        yield Reading(plain_old, plain_new, "escapes")


def _unwrap(old: str, new: str) -> Iterator[Reading]:
    """Yield readings without a code fence, the marks of a diff, entities or escaped quotes."""
    if fenced := _FENCE.fullmatch(old):
        inner = _FENCE.fullmatch(new)
        end = "\n" if new.endswith("\n") and not inner else ""
        meant = inner["inner"] if inner else new
        # Further fences may be of the file itself. Nothing may mean a blank line, or none at all.
        if meant.strip() and _FENCE_MARK not in fenced["inner"] + meant:
            yield Reading(fenced["inner"] + end, meant, "a code fence")
    marked = _strip_marks(old, "-"), _strip_marks(new, "+")
    if marked[0] is not None and marked[1] is not None:
        yield Reading(marked[0], marked[1], "the marks of a diff")
    if _ENTITY.search(old) and (plain := _undo_entities(new)) is not None:
        yield Reading(_undo_entities(old) or "", plain, "HTML entities")
    if "\n" not in old + new:
        return
    if _QUOTE in old and _DOUBLED not in old and new.count(_QUOTE) in (0, new.count('"')):
        yield Reading(old.replace(_QUOTE, '"'), new.replace(_QUOTE, '"'), "escapes")


def _strip_marks(text: str, mark: str) -> str | None:
    """Return the lines of one side of a diff without their marks; None if a line has none."""
    lines = text.removesuffix("\n").split("\n")
    if not text or any(line[:1] not in (mark, " ", "") for line in lines):
        return None
    is_marked = any(line.startswith(mark) for line in lines)
    end = "\n" if text.endswith("\n") else ""
    return "\n".join(line[1:] for line in lines) + end if is_marked else None


def _undo_entities(text: str) -> str | None:
    """Return a text without entities; None if it has both entities and what they stand for."""
    plain = _ENTITY.sub(lambda entity: _ENTITIES[entity[0]], text)
    rest = _ENTITY.sub("", text)
    return None if plain != text and any(char in rest for char in "<>&") else plain


def _as_json(text: str) -> str | None:
    try:
        plain = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return None
    return plain if isinstance(plain, str) else None


def _as_written(text: str) -> str:
    return _ESCAPE.sub(lambda escape: _UNESCAPED[escape[1]], text)


def _is_sure(plain_old: str, new: str, *, plain_new: str) -> bool:
    """Return whether the escapes undone in new_text cannot be escapes of the code itself."""
    if plain_new == new:
        return True
    old_lines, lines = set(plain_old.split("\n")), plain_new.split("\n")
    if _OTHER_ESCAPE.search(new) or (len(lines) > 1 and old_lines.isdisjoint(lines)):
        return False
    added = [to_plain_typography(line) for line in lines if line not in old_lines]
    # An unbalanced quote, or a tab within a line, was an escape inside a string before.
    is_torn = any(line.count(quote) % 2 for line in added for quote in _QUOTES)
    return not is_torn and not ("\\t" in new and any("\t" in line.lstrip() for line in added))
