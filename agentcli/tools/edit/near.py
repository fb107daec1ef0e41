"""The message when old_text is not in a file: the likely reason, and the closest lines."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice, zip_longest

from agentcli.system.diff import count_common_start
from agentcli.system.lazy import compile_later
from agentcli.system.text import STRAY_SHOWN, show_strays
from agentcli.tools.edit.drift import normalize_line
from agentcli.tools.edit.readings import Reading
from agentcli.tools.edit.view import LfView
from agentcli.tools.edit.whitespace import get_indent, get_trail
from agentcli.types.words import pluralize

SHOWN_LINES = 12
SHOWN_LINE_CHARS = 240
SEARCHED_LINES = 20_000
SEARCHED_WORDS = 50
COMMON_LINE = 50
"""The number of occurrences above which a line says nothing about the place."""
_MOST_LEFT_OUT = 200
_TELLING_CHARS = 12
"""The least length of a text that is hardly in a file by chance."""
_INNER_CHARS = 4
"""The greatest length of a spelled difference: too short to tell a part of a hidden value."""

_ELISION = compile_later(r"^[ \t]*(?:#|//|/\*|<!--|--|;|%)?[ \t]*(?:\.\.\.|…)", re.MULTILINE)
_NAMES = {" ": "space", "\t": "tab"}
_LOOK = "Is it another file? grep for a few words of it, and copy the lines you find."
_ESCAPED_NEWLINE = compile_later(r"(?<!\\)(?:\\r)?\\n")
_MARKERS = compile_later(r"^(?:<{5,}|>{5,}) ?(?:SEARCH|REPLACE|ORIGINAL|UPDATED)", re.MULTILINE)
_EXPRESSION = compile_later(r"\\[wsdSWDb.()\[]|\.[*+]|\[\^")
_EXPRESSION_CHARS = 60
_NOT_PLAIN = compile_later(r"\\.|\[[^\]]*\]|\{[\d,]*\}|[.*+?^$()\[\]{}|\\]")
_WORD = compile_later(r"\w{3,}")


def explain_not_found(view: LfView, reading: Reading, *, path: str) -> str:
    text = f"old_text is not in {path}."
    is_telling = len(reading.new.strip()) >= _TELLING_CHARS and not _only_removes(reading)
    already = view.text.find(reading.new) if is_telling else -1
    if already >= 0:
        return (
            f"{text} new_text is already at line {view.find_line_number(already)}; nothing to do?"
        )
    if why := explain_strays(view, reading.old, name="old_text"):
        text += f" {why}"
    if _ELISION.search(reading.old):
        text += ' old_text must not leave code out ("...").'
    if not view.text.strip():
        has = "has nothing but blanks" if view.text else "is empty"
        return f"{text} The file {has}: write_file fills it."
    if _MARKERS.search(reading.old):
        return f"{text} Give the lines between the markers alone, as old_text and as new_text."
    if "\n" not in reading.old and _ESCAPED_NEWLINE.search(reading.old):
        text += " It has \\n written out: send the newlines themselves."
    if _is_expression_for(reading.old, view.text):
        text += " It is taken as it is, not as a regular expression."
    closest = show_closest(view, reading.old, name="old_text")
    return f"{text} {closest or f'Nothing in it is like it. {_LOOK}'}"


def explain_strays(view: LfView, wanted: str, *, name: str) -> str:
    """Return why a text that has the sign for stray bytes is not found; nothing if it has none."""
    if STRAY_SHOWN not in wanted or show_strays(view.text) == view.text:
        return ""
    return (
        f"The {STRAY_SHOWN} stands for a byte of the file that is not UTF-8, which no text "
        f"matches: leave it out of {name}."
    )


def _is_expression_for(old: str, text: str) -> bool:
    """Return whether a text is a regular expression that matches in a file, as it seems.

    It is not matched, since that may take for ever: its plain parts are in the file, in order."""
    if len(old) > _EXPRESSION_CHARS or not _EXPRESSION.search(old):
        return False
    at = 0
    for part in _NOT_PLAIN.split(old):
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _only_removes(reading: Reading) -> bool:
    """Return whether all of new_text is in old_text: then it may well be in the file, too."""
    old, new = (set(map(normalize_line, text.split("\n"))) for text in (reading.old, reading.new))
    return new <= old


def show_closest(view: LfView, old: str, *, name: str) -> str:
    """Show the lines of a file that are closest to a text, and a difference that they do not show.

    Return an empty string if none are close. `name` says where the text is from."""
    wanted = old.strip("\n").split("\n")
    first = _find_closest(view.lines, wanted)
    if first is None:
        return ""
    last = min(first + min(len(old.split("\n")), SHOWN_LINES), len(view.lines))
    shown = f"Closest, line {first + 1}:\n{number_lines(view.lines[first:last], first + 1)}"
    notes = chain(
        _list_left_out(view.lines[first:], wanted, first=first + 1, name=name),
        _list_invisible(view.lines[first:], wanted, first=first + 1, name=name),
        _list_ends(view, old, wanted=wanted, first=first, name=name),
    )
    return "\n".join([shown, *islice(notes, 1)])


def number_lines(lines: Sequence[str], first: int) -> str:
    """Number lines as read_file does, beginning with `first`."""
    shown = map(_cut, map(show_strays, lines))
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(shown, first))


def _list_left_out(
    lines: Sequence[str], wanted: Sequence[str], *, first: int, name: str
) -> Iterator[str]:
    """Describe lines of the file that a text goes on without, as if they were not there."""
    own, forms = ([*map(normalize_line, part)] for part in (lines, wanted))
    same = next((at for at, form in enumerate(forms) if own[at : at + 1] != [form]), len(forms))
    rest = forms[same:]
    past = next(
        (at for at in range(same + 1, same + _MOST_LEFT_OUT) if own[at : at + len(rest)] == rest), 0
    )
    if same and past and any(rest):
        lines_out = pluralize(past - same, "line")
        yield f"[{name} leaves out {lines_out} of the file, from line {first + same}]"


def _list_invisible(
    lines: Sequence[str], wanted: Sequence[str], *, first: int, name: str
) -> Iterator[str]:
    """Describe invisible differences between lines that are otherwise equal."""
    for number, (own, old) in enumerate(zip(lines, wanted, strict=False), first):
        if own == old:
            continue
        if normalize_line(own) != normalize_line(old):
            how = _spell_inner(own, old, name=name)
        elif get_indent(own) != get_indent(old):
            how = (
                f"begins with {_spell_blank(get_indent(own))}, in {name} "
                f"{_spell_blank(get_indent(old))}"
            )
        elif get_trail(own) != get_trail(old):
            how = (
                f"ends with {_spell_blank(get_trail(own))}, in {name} "
                f"{_spell_blank(get_trail(old))}"
            )
        else:
            there, given = next(
                pair for pair in zip_longest(own, old, fillvalue="") if pair[0] != pair[1]
            )
            how = f"has {_spell_char(there)}, {name} {_spell_char(given)}"
        if how:
            yield f"[line {number} {how}]"


def _spell_inner(own: str, old: str, *, name: str) -> str:
    """Spell out the part in which two lines differ; return nothing if the lines show it."""
    start = count_common_start(own, old)
    end = count_common_start(own[start:][::-1], old[start:][::-1])
    parts = own[start : len(own) - end], old[start : len(old) - end]
    if start >= SHOWN_LINE_CHARS:
        return f"differs from {name} at column {start + 1}"
    does_show = all(part.isascii() and part.isprintable() for part in parts)
    if max(map(len, parts)) > _INNER_CHARS or (does_show and "".join(parts).strip()):
        return ""
    own_part, old_part = map(_spell_char, parts)
    return f"has {own_part} at column {start + 1}, {name} {old_part}"


def _spell_char(text: str) -> str:
    """Spell out a text; if it is one character that may be invisible, with its name."""
    if text != show_strays(text):
        return "what is not UTF-8"
    name = unicodedata.name(text, "") if len(text) == 1 and not text.isascii() else ""
    return f"{text!a} ({name.lower()})" if name else ascii(text)


def _list_ends(
    view: LfView, old: str, *, wanted: Sequence[str], first: int, name: str
) -> Iterator[str]:
    """Describe what a text has before or after lines that are all as in the file."""
    own = view.lines[first : first + len(wanted)]
    if own != wanted[: len(own)]:
        return
    last = first + len(own)
    if len(own) < len(wanted):
        more = pluralize(len(wanted) - len(own), "more line")
        yield f"[the file ends with line {last}; {name} has {more}]"
    before, after = len(old) - len(old.lstrip("\n")), len(old) - len(old.rstrip("\n"))
    start = view.find_line_start(first)
    rest = view.text[start + len("\n".join(own)) :]
    if len(rest) - len(rest.lstrip("\n")) < after:
        there = pluralize(len(rest) - len(rest.lstrip("\n")), "newline")
        yield f"[line {last} is followed by {there}, in {name} by {after}]"
    if not view.text[:start].endswith("\n" * before):
        yield f"[{name} begins with {pluralize(before, 'newline')}, line {first + 1} does not]"


def _spell_blank(blank: str) -> str:
    """Spell out whitespace, such as `1 tab, 2 spaces`."""
    runs = ((char, len(list(run))) for char, run in groupby(blank))
    named = (f"{count} {_NAMES[char]}{'s' * (count != 1)}" for char, count in runs)
    return ", ".join(named) or "none"


def _cut(line: str) -> str:
    return line if len(line) <= SHOWN_LINE_CHARS else line[:SHOWN_LINE_CHARS] + "…"


def _find_closest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    first = _find_by_lines(lines, wanted)
    return _find_by_words(lines, wanted) if first is None else first


def _find_by_lines(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the start that most of the wanted lines agree on."""
    offsets: dict[str, list[int]] = {}
    for offset, line in enumerate(wanted):
        if normalize_line(line):
            offsets.setdefault(normalize_line(line), []).append(offset)
    found: dict[str, list[int]] = {form: [] for form in offsets}
    for index, line in enumerate(lines):
        form = normalize_line(line)
        if form in found:
            found[form].append(index)
    votes = Counter(
        index - offset
        for form, indices in found.items()
        if len(indices) <= COMMON_LINE
        for index in indices
        for offset in offsets[form]
        if index >= offset
    )
    return max(votes, key=lambda first: (votes[first], -first)) if votes else None


def _iter_words(line: str) -> Iterator[str]:
    return (word[0].lower() for word in _WORD.finditer(line))


def _find_by_words(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the line with the most words of the longest wanted line, if it has half of them."""
    longest = max(wanted, key=len)
    words = set(islice(_iter_words(longest), SEARCHED_WORDS))
    best, most = None, (len(words) + 1) // 2
    for index, line in enumerate(lines[:SEARCHED_LINES]):
        lowered = line.lower()
        shared = sum(word in lowered for word in words)
        if shared >= max(most, 1):
            best, most = index, shared + 1
    return best
