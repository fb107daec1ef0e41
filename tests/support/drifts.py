"""The ways in which models drift when they write down text that they have read."""

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

from agentcli.system.text import splice
from agentcli.tools.edit.edit import EditRequest, plan_edit
from agentcli.types.errors import ToolError

Drift = Callable[[str, int], str | None]
"""Text and the number of its first line to what a model makes of it; None: it does not apply."""


def _each_line(change: Callable[[str], str]) -> Drift:
    return lambda text, first: "\n".join(
        change(line) if line.strip() else line for line in text.split("\n")
    )


def _indented(prefix: str) -> Drift:
    return _each_line(lambda line: prefix + line)


def _dedented(prefix: str) -> Drift:
    def dedented(text: str, first: int) -> str | None:
        lines = text.split("\n")
        if not all(line.startswith(prefix) for line in lines if line.strip()):
            return None
        return "\n".join(line.removeprefix(prefix) for line in lines)

    return dedented


def _reindented(change: Callable[[str], str]) -> Drift:
    def changed(line: str) -> str:
        body = line.lstrip(" \t")
        return change(line[: len(line) - len(body)]) + body

    return _each_line(changed)


def _numbered(mark: str) -> Drift:
    def numbered(text: str, first: int) -> str:
        lines = text.removesuffix("\n").split("\n") if text else []
        end = "\n" if text.endswith("\n") else ""
        return "\n".join(f"{number}{mark}{line}" for number, line in enumerate(lines, first)) + end

    return numbered


def _curly(text: str, first: int) -> str:
    quotes = cycle("“”")
    return re.sub('"', lambda _: next(quotes), text).replace("'", "’")


DRIFTS: dict[str, Drift] = {
    "trailing whitespace lost": _each_line(lambda line: line.rstrip()),
    "trailing whitespace added": _each_line(lambda line: line + "  "),
    "trailing tab added": _each_line(lambda line: line + "\t"),
    "indented by 4": _indented("    "),
    "indented by 2": _indented("  "),
    "indented by a tab": _indented("\t"),
    "dedented by 4": _dedented("    "),
    "dedented by 1": _dedented(" "),
    "4 spaces to a tab": _reindented(lambda indent: indent.replace("    ", "\t")),
    "2 spaces to a tab": _reindented(lambda indent: indent.replace("  ", "\t")),
    "one level to a tab": _reindented(lambda indent: "\t" if indent == "    " else indent),
    "a tab to 4 spaces": _reindented(lambda indent: indent.replace("\t", "    ")),
    "line numbers": _numbered("\t"),
    "line numbers with an arrow": _numbered("→"),
    "line numbers with a bar": _numbered("|"),
    "line numbers with a colon": _numbered(":"),
    "newlines as \\n": lambda text, first: text.replace("\n", "\\n"),
    "escaped as JSON": lambda text, first: json.dumps(text, ensure_ascii=False)[1:-1],
    "curly quotes": _curly,
    "long dashes": lambda text, first: text.replace("-", "–"),
    "no-break spaces": lambda text, first: text.replace(" ", "\u00a0"),
    "decomposed": lambda text, first: unicodedata.normalize("NFD", text),
    "CRLF": lambda text, first: text.replace("\n", "\r\n"),
    "blank first line": lambda text, first: "\n" + text,
    "blank last line": lambda text, first: text + "\n",
    "blank ends": lambda text, first: "\n" + text + "\n",
}

PAIRS: tuple[tuple[str, str], ...] = (
    ("trailing whitespace added", "indented by 4"),
    ("dedented by 4", "line numbers"),
    ("curly quotes", "long dashes"),
    ("curly quotes", "indented by 2"),
    ("4 spaces to a tab", "trailing whitespace added"),
    ("indented by 4", "blank ends"),
    ("dedented by 4", "CRLF"),
    ("curly quotes", "newlines as \\n"),
    ("no-break spaces", "trailing whitespace added"),
    ("line numbers", "CRLF"),
)


def _both(one: Drift, other: Drift) -> Drift:
    def drifted(text: str, first: int) -> str | None:
        once = one(text, first)
        return None if once is None else other(once, first)

    return drifted


DRIFTS |= {f"{one} + {other}": _both(DRIFTS[one], DRIFTS[other]) for one, other in PAIRS}


@dataclass(frozen=True)
class Change:
    """One edit as it would be called exactly, and the text it leads to."""

    text: str
    old: str
    new: str
    start: int

    @property
    def wanted(self) -> str:
        return self.text[: self.start] + self.new + self.text[self.start + len(self.old) :]

    @property
    def first_line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1


def outcome(change: Change, old: str, new: str, *, ending: str = "\n") -> str:
    """Return how a call ends on the text with these line endings."""
    raw = change.text.replace("\n", ending)
    try:
        result = plan_edit(raw, EditRequest(path="f", old=old, new=new))
    except ToolError:
        return "refused"
    after = splice(raw, result.splices)
    if after.count(ending) != after.count("\n"):
        return "wrong"
    after = after.replace(ending, "\n")
    if after == change.wanted:
        return "recovered"
    untouched = change.text[: change.start], change.text[change.start + len(change.old) :]
    in_place = after.startswith(untouched[0]) and after.endswith(untouched[1].lstrip("\n"))
    return "wrong" if in_place else "elsewhere"
