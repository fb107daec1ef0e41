"""The lines after a tolerant edit: the file's own lines wherever nothing was meant to change.

The input is the file's lines, the same lines as the model remembers them, and the lines it wants
instead. The result is certain, or there is none.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Literal

from agentcli.system.diff import LineChange, find_changes
from agentcli.tools.edit.drift import (
    BLOCK_OPENERS,
    LineMap,
    LinePair,
    learn_line_map,
    normalize_line,
)
from agentcli.tools.edit.view import Style
from agentcli.tools.edit.whitespace import (
    BLANK,
    find_typography,
    get_indent,
    get_trail,
    is_blank,
    is_kind_of_indent,
    is_twice_or_half,
    to_plain_typography,
)

# Evidence from the lines of new_text: it drifted like old_text, or is written like the file.


Verdict = Literal["drifted", "own"]


def judge_new_text(known: Sequence[LinePair], new: Sequence[str]) -> Verdict | None:
    """Return the verdict, or None if unclear.

    Both texts must have lines, and at least one known line must not be blank."""
    at_ends = {_vote_by_first(known, new), _vote_by_first(known[::-1], new[::-1])}
    shared = _vote_by_shared(known, new)
    if not any(map(_map_depths, known)):
        return _agree((at_ends - {None}) or shared or _vote_by_trails(known, new))
    if _has_tabs_for_spaces(known):
        return _vote_by_tabs(known, new)
    if not all(map(_map_depths, _filter_filled(known))):
        return _agree(shared)  # only some lines drifted, so the depth of others says nothing
    if None not in at_ends:
        return _agree(at_ends | ({_vote_by_depth(*_choose_shallowest(known, new))} - {None}))
    if len(known) == len(new):
        pairs = [pair for pair in zip(known, new, strict=True) if _map_depths(pair[0])]
        return _agree(shared | {_vote_by_line(*pair) or _vote_by_depth(*pair) for pair in pairs})
    if not shared:
        return None
    # If the lengths differ, depth may be the change itself, so it can only confirm.
    ends = [*_pair_ends(known, new), _choose_shallowest(known, new)]
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


def _vote_by_first(known: Sequence[LinePair], new: Sequence[str]) -> Verdict | None:
    """Return what the first lines of both, as far as they are shared, say."""
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
    return None if is_blank(new) else _map_depths(line).get(_read_indent(new))


def _map_depths(line: LinePair) -> dict[str, Verdict]:
    """Map indentations to verdicts for a line like this; empty if its indentation did not drift."""
    drifted, own = _read_indent(line.drifted), _read_indent(line.own)
    return {} if drifted == own or is_blank(line.own) else {drifted: "drifted", own: "own"}


def _read_indent(line: str) -> str:
    return get_indent(to_plain_typography(line))


def _has_tabs_for_spaces(known: Sequence[LinePair]) -> bool:
    """Return whether tabs and spaces were swapped in all shifted lines.

    The depth of a line says nothing then, but its first character does."""
    shifted = [line for line in known if _map_depths(line)]
    return all({line.drifted[:1], line.own[:1]} == {"\t", " "} for line in shifted)


def _vote_by_tabs(known: Sequence[LinePair], new: Sequence[str]) -> Verdict | None:
    own, others = _find_beginnings([line.own for line in known]), _find_beginnings(new)
    if len(own) > 1:
        return None  # both may stand for themselves
    return "own" if own == others else "drifted"


def _find_beginnings(lines: Sequence[str]) -> set[str]:
    """Return whether lines begin with tabs, spaces, or both; one space belongs to a comment."""
    return {begin for begin in ("\t", "  ") for line in lines if line.startswith(begin)}


def _filter_filled(known: Sequence[LinePair]) -> list[LinePair]:
    return [line for line in known if not is_blank(line.own)]


def _vote_by_trails(known: Sequence[LinePair], new: Sequence[str]) -> set[Verdict | None]:
    """Vote by trailing whitespace: if all known lines gained it, a drifted text has it too."""
    filled = _filter_filled(known)
    if any(get_trail(line.drifted) == get_trail(line.own) for line in filled):
        return {"drifted"}
    return {"drifted" if get_trail(line) else "own" for line in new if not is_blank(line)}


def _pair_ends(known: Sequence[LinePair], new: Sequence[str]) -> list[tuple[LinePair, str]]:
    old_lines = _filter_filled(known)
    new_lines = [line for line in new if not is_blank(line)] or [""]
    return [(old_lines[0], new_lines[0]), (old_lines[-1], new_lines[-1])]


def _choose_shallowest(known: Sequence[LinePair], new: Sequence[str]) -> tuple[LinePair, str]:
    return (
        min(_filter_filled(known), key=lambda line: _measure_depth(line.own)),
        min((line for line in new if not is_blank(line)), key=_measure_depth, default=""),
    )


def _measure_depth(line: str) -> int:
    return len(_read_indent(line))


_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", str),
    ("trailing whitespace", lambda line: line.rstrip(BLANK)),
    ("typographic characters", lambda line: to_plain_typography(line).rstrip(BLANK)),
    ("indentation", normalize_line),
)

_CLOSING = ("}", ")", "]")


def describe_difference(own: Sequence[str], old: Sequence[str]) -> str:
    """Return what must be ignored for the old lines to match the file; empty if nothing."""
    return _find_level(own, old)[0]


def _find_level(own: Sequence[str], old: Sequence[str]) -> tuple[str, Callable[[str], str]]:
    """Return the first level at which the lines are equal; equal normalized lines have one."""
    return next(
        (name, form)
        for name, form in _LEVELS
        if all(form(one) == form(other) for one, other in zip(own, old, strict=True))
    )


def is_own_text(own: Sequence[str], old: Sequence[str], *, new: Sequence[str]) -> bool:
    """Return whether old_text drifted, but new_text is written like the file."""
    return (
        bool(describe_difference(own, old)) and judge_new_text(_pair_lines(own, old), new) == "own"
    )


def rebuild_lines(
    own: Sequence[str], old: Sequence[str], *, new: Sequence[str], style: Style
) -> list[str] | None:
    """Return the lines to write, or None if it is not certain what is meant."""
    _, form = _find_level(own, old)
    if [form(line) for line in old] == [form(line) for line in new]:
        return None  # the edit changes only what was ignored to find the place
    known = _pair_lines(own, old)
    match _judge_certainly(known, new, style=style):
        case "drifted" if _is_flat([*old, *new]) and not _is_flat(own) and _opens_block(new):
            return None  # all indentation was lost, also that of the block
        case "drifted":
            result = _merge_lines(
                known, new, meant=_retain_copies(known, learn_line_map(known, style))
            )
        case "own":
            result = _merge_lines([LinePair(line, line) for line in own], new, meant=_keep_verbatim)
        case None:
            return None
    looks_drifted = _build_drift_detector(known, style)
    lines: list[str] = []
    for line, is_added in result:
        if line is None or (is_added and looks_drifted(line)):
            return None
        lines.append(line)
    return lines


def _pair_lines(own: Sequence[str], old: Sequence[str]) -> list[LinePair]:
    return [LinePair(drifted, line) for drifted, line in zip(old, own, strict=True)]


def _retain_copies(known: Sequence[LinePair], meant: LineMap) -> LineMap:
    """Return a map that also knows added lines which repeat one of the old ones, at any depth.

    If the file has typographic characters there, they are meant in the copy, too."""
    owns: dict[str, set[str]] = defaultdict(set)
    for line in known:
        if to_plain_typography(line.own.rstrip(BLANK)) == line.drifted.rstrip(BLANK):
            owns[line.drifted].add(line.own)
            owns[line.drifted.strip(BLANK)].add(line.own.strip(BLANK))
    copies = {drifted: own.pop() for drifted, own in owns.items() if len(own) == 1}

    def retain(line: str, replaced: LinePair | None) -> str | None:
        if line in copies:
            return copies[line]
        found, body = meant(line, replaced), line.strip(BLANK)
        return found.replace(body, copies.get(body, body), 1) if found and body else found

    return retain


def _merge_lines(
    known: Sequence[LinePair], new: Sequence[str], *, meant: LineMap
) -> Iterator[tuple[str | None, bool]]:
    """Yield each line of the result, with True if it was added."""
    reached = 0
    for change in find_changes([line.drifted for line in known], new):
        if change.new_start == change.new_end and _may_be_others(known, change):
            yield None, False
        yield from ((line.own, False) for line in known[reached : change.old_start])
        replaced: Sequence[LinePair | None] = known[change.old_start : change.old_end]
        added = new[change.new_start : change.new_end]
        if len(replaced) != len(added):
            replaced = [None] * len(added)
        for line, counterpart in zip(added, replaced, strict=True):
            yield meant(line, counterpart), True
        reached = change.old_end
    yield from ((line.own, False) for line in known[reached:])


def _may_be_others(known: Sequence[LinePair], removed: LineChange) -> bool:
    """Return whether other lines may be meant: the model wrote lines beside them the same way."""
    size = removed.old_end - removed.old_start
    pairs = [*zip(known, known[size:], strict=False)]
    above = takewhile(_is_alike, reversed(pairs[: removed.old_start]))
    below = takewhile(_is_alike, pairs[removed.old_start :])
    return any(one.own != other.own for one, other in (*above, *below))


def _is_alike(pair: tuple[LinePair, LinePair]) -> bool:
    return pair[0].drifted == pair[1].drifted


def _is_flat(lines: Sequence[str]) -> bool:
    return not any(get_indent(to_plain_typography(line)) for line in lines)


def _opens_block(lines: Sequence[str]) -> bool:
    """Return whether a line looks as if the next one should be indented deeper."""
    filled = [line.strip(BLANK) for line in lines if not is_blank(line)]
    return any(
        line.endswith(BLOCK_OPENERS) and (line.endswith(":") or not after.startswith(_CLOSING))
        for line, after in pairwise(filled)
    )


def _judge_certainly(
    known: Sequence[LinePair], new: Sequence[str], *, style: Style
) -> Verdict | None:
    """Return the verdict, also for no lines; None if both texts may have another width.

    With half or twice the file's width, a line one level deeper can look like one of the file."""
    verdict = judge_new_text(known, new) if new else "own"
    depths = [
        (_read_indent(line.drifted), _read_indent(line.own)) for line in known if _map_depths(line)
    ]
    drifted = {drifted for drifted, own in depths if is_twice_or_half(drifted, own)}
    usual = {*style.indents, ""} - (drifted - {_read_indent(line.own) for line in known})
    is_usual = all(_read_indent(line) in usual for line in new if not is_blank(line))
    return None if verdict == "own" and drifted and not is_usual else verdict


def _keep_verbatim(line: str, replaced: LinePair | None) -> str:
    return line


def _build_drift_detector(known: Sequence[LinePair], style: Style) -> Callable[[str], bool]:
    """Return a test for added lines that look drifted and unlike the lines around them.

    Drift in old_text may show in new_text in other ways, too.
    """
    trails = {(get_trail(line.drifted), get_trail(line.own)) for line in known}
    may_trail = any(own for _, own in trails) and all(drifted == own for drifted, own in trails)
    typography = find_typography("".join(line.own for line in known))

    def looks_drifted(line: str) -> bool:
        return (
            (bool(get_trail(line)) and not may_trail)
            or not find_typography(line) <= typography
            or not is_kind_of_indent(get_indent(line), style.indents)
        )

    return looks_drifted
