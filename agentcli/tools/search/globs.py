"""Globs, read the way ripgrep reads them, as regular expressions over paths with `/`.

`*` and `?` stay within a component; `**` as a whole component crosses them. `[a-z]` and `[!a]` are
classes, `{a,b}` alternatives, and a backslash takes the next character literally. A search also
finds names that have the brackets of a class in them, such as `[slug]` in web projects.
"""

import re
from functools import lru_cache
from itertools import pairwise

from agentcli.system.lazy import compile_later

EXPANSION_LIMIT = 256

_ALTERNATIVES = compile_later(r"\\.|\[[!^]?+\]?+[^\]]*\]|[{},]", re.DOTALL)
_CLASS = compile_later(r"\[([!^]?+)(\]?+[^\]]*)\]")
_MEMBERS = compile_later(r"(.)-(.)|(.)", re.DOTALL)
_WILD = compile_later(r"[*?\[\\]")
_NARROW = compile_later(r"(\\.)|\[[!^]?+\]?+[^\]]*\]|[*?]+", re.DOTALL)


class GlobError(ValueError):
    """An invalid glob. The message is the end of a sentence."""


def expand_braces(glob: str) -> list[str]:
    """Return the globs without braces that a glob with braces stands for."""
    done: list[str] = []
    todo = [glob]
    while todo:
        first = todo.pop()
        span = _find_first_group(first)
        if span is None:
            done.append(first)
        else:
            start, commas, end = span
            edges = [start, *commas, end]
            alternatives = [first[a + 1 : b] for a, b in pairwise(edges)]
            todo += [first[:start] + one + first[end + 1 :] for one in reversed(alternatives)]
        if len(done) + len(todo) > EXPANSION_LIMIT:
            raise GlobError("it has too many {alternatives}")
    return done


def _find_first_group(glob: str) -> tuple[int, list[int], int] | None:
    """Return where the first outermost group opens, its commas, and where it closes."""
    opened: list[int] = []
    commas: list[int] = []
    for token in _ALTERNATIVES.finditer(glob):
        match token.group():
            case "{":
                opened.append(token.start())
            case "," if len(opened) == 1:
                commas.append(token.start())
            case "}" if not opened:
                raise GlobError("a } has no { before it; write \\} for the character")
            case "}":
                start = opened.pop()
                if not opened:
                    return start, commas, token.start()
    if opened:
        raise GlobError("a { is not closed; write \\{ for the character")
    return None


def is_literal(component: str) -> bool:
    return not _WILD.search(component)


def find_literal_part(component: str) -> str:
    """Return the longest text without wildcards that every match contains."""
    runs = [""] if re.search(r"[?\[\\]", component) else component.split("*")
    return max(runs, key=len)


def widen_glob(component: str) -> str:
    """Return a glob for file names that matches all that `component` does, using only `*`.

    ripgrep compares names byte by byte, so its `?` and classes miss characters beyond ASCII.
    """
    return re.sub(r"\*+", "*", _NARROW.sub(lambda token: token[1] or "*", component))


@lru_cache(maxsize=10_000)
def compile_glob(glob: str) -> re.Pattern[bytes]:
    """Compile a glob that matches whole paths byte by byte, as ripgrep does."""
    return re.compile(translate_glob(glob).encode(), re.DOTALL)


def translate_glob(glob: str, *, also_literal: bool = False) -> str:
    """Return the regular expression of a glob without braces; it must match the whole path.

    With `also_literal`, a component may also mean the text of its classes, brackets included.
    """
    translate = _translate_either if also_literal else _translate_component
    *parents, last = glob.split("/")
    between = [""]
    for part in parents:
        if part == "**":
            between.append("")
        else:
            between[-1] += f"{translate(part)}/"
    end = ".*" if last == "**" else translate(last)
    first, *rest = between
    if not rest:
        return f"{first}{end}"
    *middle, final = rest
    # As with stars: what stands between two `**` is matched at its first occurrence for good.
    taken = "".join(f"(?>(?:[^/]*/)*?{segment})" for segment in middle if segment)
    return f"{first}{taken}(?:.*/)?{final}{end}"


def _translate_either(glob: str) -> str:
    escaped = _NARROW.sub(_escape_class, glob)
    literal = _translate_component(escaped)
    if escaped == glob:
        return literal
    try:
        return f"(?:{_translate_component(glob)}|{literal})"
    except GlobError:  # [user-id] is no class: its range from r to i is empty
        return literal


def _escape_class(token: re.Match[str]) -> str:
    text = token.group()
    return re.sub(r"(.)", r"\\\1", text, flags=re.DOTALL) if text[0] == "[" else text


def _translate_component(glob: str) -> str:
    between_stars = [""]
    position = 0
    while position < len(glob):
        if glob[position] == "*":
            between_stars.append("")
            position += 1
        else:
            piece, position = _translate_piece(glob, position)
            between_stars[-1] += piece
    first, *rest = between_stars
    if not rest:
        return first
    *middle, last = rest
    # The text between two stars may be matched at its first occurrence for good. Without that,
    # a glob with many stars, perhaps from somebody else's .gitignore, could take for ever.
    taken = "".join(f"(?>[^/]*?{segment})" for segment in middle)
    return f"{first}{taken}[^/]*{last}"


def _translate_piece(glob: str, position: int) -> tuple[str, int]:
    """Return the meaning of the next element of a component, and where the one after begins."""
    match glob[position]:
        case "?":
            return "[^/]", position + 1
        case "[":
            found = _CLASS.match(glob, position)
            if found is None:
                raise GlobError("a [ is not closed; write \\[ for the character")
            return _translate_class(found[1], found[2]), found.end()
        case "\\":
            if position + 1 == len(glob):
                raise GlobError("it ends in a backslash")
            return re.escape(glob[position + 1]), position + 2
        case character:
            return re.escape(character), position + 1


def _translate_class(negation: str, members: str) -> str:
    written = ["[^" if negation else "["]
    for low, high, single in _MEMBERS.findall(members):
        if high < low:
            raise GlobError(f"the range {low}-{high} in [{members}] is empty")
        written.append(re.escape(single) or f"{re.escape(low)}-{re.escape(high)}")
    return "".join([*written, "]"])
