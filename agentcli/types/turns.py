"""Turns among the facts: whether one is open, and which are in effect after rewinds.

A rewind removes nothing from the log. It only says where the conversation goes on from.
"""

from collections.abc import Iterable, Sequence

from agentcli.types.events import Fact, TurnEnded, TurnStarted
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.user_facts import Rewound

NumberedFact = tuple[int, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFacts:
    """The facts of a session that is resumed, and for each its number and its time."""

    facts: Sequence[Fact] = ()
    seqs: Sequence[int] = ()
    times: Sequence[str] = ()


NO_PAST = PastFacts()


def number_effective_facts(facts: Iterable[Fact]) -> list[NumberedFact]:
    """Return the facts in effect, with the number of their turn: 0 before the first.

    Turns are counted from 1 over the whole log, those that were rewound included."""
    effective: list[NumberedFact] = []
    replaced: dict[str, list[NumberedFact]] = {}
    turns = turn = 0
    for fact in facts:
        match fact:
            case Rewound(action="rewind"):
                replaced[fact.id] = effective
                effective = [one for one in effective if one[0] < fact.turn]
                turn = effective[-1][0] if effective else 0
            case Rewound():
                effective = list(replaced.get(fact.of, effective))
                turn = effective[-1][0] if effective else 0
            case TurnStarted():
                turns += 1
                turn = turns
                effective.append((turn, fact))
            case _:
                effective.append((turn, fact))
    return effective


def list_effective_facts(facts: Iterable[Fact]) -> list[Fact]:
    return [fact for _, fact in number_effective_facts(facts)]


def find_last_turn(facts: Sequence[Fact]) -> int:
    """Return the index at which the last turn starts, or 0 if there is none."""
    backwards = reversed(range(len(facts)))
    return next((at for at in backwards if isinstance(facts[at], TurnStarted)), 0)


def is_in_turn(facts: Sequence[Fact]) -> bool:
    for fact in reversed(facts):
        if isinstance(fact, TurnStarted | TurnEnded):
            return isinstance(fact, TurnStarted)
    return False
