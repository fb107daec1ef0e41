"""Past calls judged by another policy: which verdicts would differ, and which rule would help.

Only rules and mode are applied again. A hook or a model may decide again as it did, so such a call
differs only if a rule now denies it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from agentcli.permissions.decide import CallReview, PolicyDecider
from agentcli.permissions.rules import parse_rule
from agentcli.permissions.subject import KNOWN_TOOLS, CallSubject, SubjectFactory
from agentcli.permissions.suggest import suggest_rules
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, WITHOUT_SANDBOX, Grants
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, Verdict

Plainly = Literal["allow", "ask", "deny"]

_MOST_CANDIDATES = 50
_MOST_SUGGESTIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call with the verdict it got."""

    session: str
    at: str
    call: ToolCall
    effect: Effect
    verdict: Verdict
    mode: Mode
    workspace: Path
    cwd: Path
    added: Grants = NO_GRANTS
    """The directories that the user had added to the workspace by then."""
    source: str = "built-in"

    @property
    def was(self) -> Plainly:
        if self.verdict.by in ("user", "nobody"):
            return "ask"
        return "deny" if self.verdict.decision == "deny" else "allow"

    @property
    def was_refused(self) -> bool:
        """True if the user, a rule, a hook or a model refused it. Nobody to ask is no refusal."""
        return self.verdict.decision == "deny" and self.verdict.by not in ("nobody", "mode")

    @property
    def subject(self) -> CallSubject:
        subjects = SubjectFactory(
            workspace=self.workspace, cwd=lambda: self.cwd, added=lambda: self.added
        )
        return subjects.build(
            self.call.name, self.call.input, effect=self.effect, source=self.source
        )


@dataclass(frozen=True, slots=True)
class RejudgedCall:
    past: PastCall
    would: Verdict

    @property
    def differs(self) -> bool:
        if self.past.verdict.by in ("hook", "evaluator"):
            return self.would.decision == "deny" and self.past.was == "allow"
        return self.would.decision != self.past.was or self.differs_in_grants

    @property
    def differs_in_grants(self) -> bool:
        """True if it is allowed as before, with other grants."""
        was = self.past.verdict.grants
        # Without a sandbox every command has this, and here a sandbox is assumed.
        is_known = was != WITHOUT_SANDBOX
        return (
            self.would.decision == self.past.was == "allow"
            and is_known
            and was != self.would.grants
        )


@dataclass(frozen=True, slots=True)
class RuleProposal:
    """Rules that would have spared the user questions."""

    rules: tuple[str, ...]
    questions: int


DeciderOf = Callable[[PastCall], PolicyDecider]
"""Returns a new decider for the workspace of a call, with the policy under test."""


def judge_again(pasts: Iterable[PastCall], decider_of: DeciderOf) -> list[RejudgedCall]:
    return [RejudgedCall(past, _decide(past, decider_of(past))) for past in pasts]


def propose_rules(judged: Sequence[RejudgedCall], decider_of: DeciderOf) -> list[RuleProposal]:
    """Return the fewest and narrowest rules for the most questions.

    None of them admits a call that was refused.
    """
    open_ = [one.past for one in judged if one.would.decision == "ask" and one.would.by == "mode"]
    refused = [one.past for one in judged if one.past.was_refused]
    candidates = _list_candidates(open_, decider_of)
    found: list[RuleProposal] = []
    while open_ and len(found) < _MOST_SUGGESTIONS:
        best = max(
            (
                RuleProposal(rules, len(_find_admitted(open_, rules, decider_of=decider_of)))
                for rules in candidates
            ),
            key=lambda one: (one.questions, -len(one.rules), *_measure_narrowness(one.rules)),
            default=None,
        )
        if best is None or not best.questions:
            break
        candidates.remove(best.rules)
        if not _find_admitted(refused, best.rules, decider_of=decider_of):
            found.append(best)
            spared = _find_admitted(open_, best.rules, decider_of=decider_of)
            open_ = [past for past in open_ if past not in spared]
    return found


def _list_candidates(pasts: Iterable[PastCall], decider_of: DeciderOf) -> list[tuple[str, ...]]:
    counted = Counter(suggest_rules(_review(past, decider_of(past))).rules for past in pasts)
    return [rules for rules, _ in counted.most_common(_MOST_CANDIDATES) if rules]


def _review(past: PastCall, decider: PolicyDecider) -> CallReview:
    return decider.review(past.subject, mode=past.mode)


def _measure_narrowness(rules: Iterable[str]) -> Iterator[int]:
    texts = list(rules)
    yield -sum(text.endswith((":*)", "**)")) for text in texts)
    yield sum(map(len, texts))


def _find_admitted(
    pasts: Sequence[PastCall], rules: Iterable[str], *, decider_of: DeciderOf
) -> list[PastCall]:
    return [past for past in pasts if _is_admitted(past, rules, decider=decider_of(past))]


def _is_admitted(past: PastCall, rules: Iterable[str], *, decider: PolicyDecider) -> bool:
    for text in rules:
        tools = KNOWN_TOOLS | {past.call.name}
        decider.add(parse_rule(text, "allow", source="session", tools=tools))
    return _decide(past, decider).decision == "allow"


def _decide(past: PastCall, decider: PolicyDecider) -> Verdict:
    return decider.decide(past.subject, mode=past.mode)
