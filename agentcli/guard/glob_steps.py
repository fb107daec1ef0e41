"""A path pattern followed character by character, in time that does not explode.

A repository's rules are used without trust, and a regular expression with many wildcards can take
forever on a name made for it. This takes as long as pattern times name, whatever they are.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ANY_FOLDERS = "**/"
ANYTHING = "**"
IN_A_NAME = "*"

_State = tuple[int, bool]
"""How many steps are done, and whether it stands within a folder's name."""


@dataclass(frozen=True, slots=True)
class GlobStep:
    token: str
    one: re.Pattern[str] | None
    """Of the one character it takes; None for the wildcards of any length."""


def is_matched(steps: Sequence[GlobStep], name: str) -> bool:
    states = _close_states(steps, [(0, False)])
    for char in name:
        states = _close_states(
            steps, (after for state in states for after in _advance(steps, state, char))
        )
        if not states:
            return False
    return (len(steps), False) in states


def _close_states(steps: Sequence[GlobStep], states: Iterable[_State]) -> set[_State]:
    """With all that is reached by letting wildcards be empty."""
    reached: set[_State] = set()
    for done, inside in states:
        reached.add((done, inside))
        while not inside and done < len(steps) and steps[done].one is None:
            done += 1
            if (done, False) in reached:
                break
            reached.add((done, False))
    return reached


def _advance(steps: Sequence[GlobStep], state: _State, char: str) -> list[_State]:
    done, inside = state
    if done == len(steps):
        return []
    step = steps[done]
    if step.one is not None:
        return [(done + 1, False)] if step.one.fullmatch(char) else []
    if step.token == ANYTHING:
        return [state]
    if step.token == IN_A_NAME:
        return [] if char == "/" else [state]
    if char == "/":
        return [(done, False)] if inside else []
    return [(done, True)]
