"""Whether new_text drifted as old_text did, or is written like the file: what its lines tell.

Lines that old_text and new_text share tell it best, above all at their ends, where they are mostly
there to show the place. Where lines disagree nothing is certain.
"""

from collections.abc import Sequence
from typing import Literal

from agentcli.tools.editing.drift import LinePair
from agentcli.tools.editing.typography import to_plain_typography
from agentcli.tools.editing.whitespace import get_indent, get_trail, is_blank

Verdict = Literal["drifted", "own"]


def judge_new_text(known: Sequence[LinePair], new: Sequence[str]) -> Verdict | None:
    """None: unclear. Both have lines, and at least one known line is not blank."""
    at_ends = {_first_shared(known, new), _first_shared(known[::-1], new[::-1])}
    shared = _vote_by_shared(known, new)
    if not any(map(_depths, known)):
        return _agree((at_ends - {None}) or shared or _vote_by_trails(known, new))
    if _has_tabs_for_spaces(known):
        return _vote_by_tabs(known, new)
    if None not in at_ends:
        return _agree(at_ends | ({_vote_by_depth(*_shallowest(known, new))} - {None}))
    if len(known) == len(new):
        pairs = [pair for pair in zip(known, new, strict=True) if _depths(pair[0])]
        return _agree(shared | {_vote_by_line(*pair) or _vote_by_depth(*pair) for pair in pairs})
    if not shared:
        return None
    # Between texts of different length depth may be the change itself: it can only confirm.
    ends = [*_pair_ends(known, new), _shallowest(known, new)]
    drifted: set[Verdict | None] = {"drifted"}
    return _agree(shared | drifted | {_vote_by_line(*end) or _vote_by_depth(*end) for end in ends})


def _agree(votes: set[Verdict | None]) -> Verdict | None:
    return votes.pop() if len(votes) == 1 else None


def _vote_by_shared(known: Sequence[LinePair], new: Sequence[str]) -> set[Verdict | None]:
    lines = set(new)
    votes: set[Verdict | None] = set()
    for line in known:
        if line.drifted != line.own:
            votes |= {_vote_by_line(line, each) for each in line if each in lines}
    return votes


def _first_shared(known: Sequence[LinePair], new: Sequence[str]) -> Verdict | None:
    """What the lines say that both begin with."""
    for line, other in zip(known, new, strict=False):
        if other not in line:
            return None
        if line.drifted != line.own:
            return _vote_by_line(line, other)
    return None


def _vote_by_line(line: LinePair, new: str) -> Verdict | None:
    if line.drifted == line.own or new not in line:
        return None
    return "drifted" if new == line.drifted else "own"


def _vote_by_depth(line: LinePair, new: str) -> Verdict | None:
    return None if is_blank(new) else _depths(line).get(_indent(new))


def _depths(line: LinePair) -> dict[str, Verdict]:
    """What the indentation of a line like this one says; nothing if it did not drift."""
    drifted, own = _indent(line.drifted), _indent(line.own)
    return {} if drifted == own or is_blank(line.own) else {drifted: "drifted", own: "own"}


def _indent(line: str) -> str:
    return get_indent(to_plain_typography(line))


def _has_tabs_for_spaces(known: Sequence[LinePair]) -> bool:
    """Or spaces for tabs: how deep a line is says nothing then, but what it begins with does."""
    shifted = [line for line in known if _depths(line)]
    return all({line.drifted[:1], line.own[:1]} == {"\t", " "} for line in shifted)


def _vote_by_tabs(known: Sequence[LinePair], new: Sequence[str]) -> Verdict | None:
    own, others = _beginnings([line.own for line in known]), _beginnings(new)
    if len(own) > 1 or len(others) > 1:
        return None  # both may stand for themselves
    return "own" if own == others else "drifted"


def _beginnings(lines: Sequence[str]) -> set[str]:
    """Tabs, spaces, or both. A single space belongs to a comment."""
    return {begin for begin in ("\t", "  ") for line in lines if line.startswith(begin)}


def _vote_by_trails(known: Sequence[LinePair], new: Sequence[str]) -> set[Verdict | None]:
    """Where all known lines were given whitespace at their ends, a drifted text has it as well."""
    filled = [line for line in known if not is_blank(line.own)]
    if any(get_trail(line.drifted) == get_trail(line.own) for line in filled):
        return {"drifted"}
    return {"drifted" if get_trail(line) else "own" for line in new if not is_blank(line)}


def _pair_ends(known: Sequence[LinePair], new: Sequence[str]) -> list[tuple[LinePair, str]]:
    old_lines = [line for line in known if not is_blank(line.own)]
    new_lines = [line for line in new if not is_blank(line)] or [""]
    return [(old_lines[0], new_lines[0]), (old_lines[-1], new_lines[-1])]


def _shallowest(known: Sequence[LinePair], new: Sequence[str]) -> tuple[LinePair, str]:
    return (
        min((line for line in known if not is_blank(line.own)), key=lambda line: _depth(line.own)),
        min((line for line in new if not is_blank(line)), key=_depth, default=""),
    )


def _depth(line: str) -> int:
    return len(_indent(line))
