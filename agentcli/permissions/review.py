"""The review of a call by rules and mode at one moment, made once.

The verdict, the question, its suggestion and the explanation of a call all read it. A command line
is covered by allow rules part by part: a part is covered if it is proven to only read, or if a rule
allows it. A line that is not plain cannot be split into parts, so no rule covers it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path

from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import PermissionRule
from agentcli.permissions.shell import PlainLine, ShellPart
from agentcli.permissions.subject import CallSubject
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, Verdict


@dataclass(frozen=True, slots=True)
class UncoveredPart:
    part: ShellPart
    reason: str

    @property
    def is_unmatched(self) -> bool:
        """True if the only reason is that no rule allows it."""
        return self.reason == _describe_unmatched(self.part)


def _describe_unmatched(part: ShellPart) -> str:
    return f"no rule allows {part.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredPart:
    """One command of a line, with all that rules and the read-only proof say of it."""

    part: ShellPart
    why_not_read: str | None
    """The reason why it is not known to only read; None if it only reads."""
    needs_rule: bool
    rules: tuple[PermissionRule, ...]
    """The rules that cover it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCoverage:
    parts: tuple[CoveredPart, ...]
    why_not_read: str | None
    """The reason why the line is not known to only read; None if it only reads."""
    needs_rule: bool
    """True if a part of it does."""
    uncovered: tuple[UncoveredPart, ...]
    """The parts that still need to be allowed."""
    deciding: tuple[UncoveredPart, ...]
    """Every part whose rules decide what the line is granted, allowed or not."""
    used: tuple[PermissionRule, ...]
    """The first rule that covers each deciding part."""
    grants: Grants
    """The grants of the line. No part gets what only another part was granted."""


def cover_line(
    line: PlainLine,
    subject: CallSubject,
    *,
    rules: Sequence[PermissionRule],
    prover: ReadProver,
    reads_alone: bool,
) -> LineCoverage:
    """Return how far the rules cover a line. With `reads_alone`, a proven read needs no rule."""
    allowing = [rule for rule in rules if rule.decision == "allow" and rule.command]
    alone = len(line.parts) == 1
    parts: list[CoveredPart] = []
    uncovered: list[UncoveredPart] = []
    for part, why_not_read in zip(line.parts, prover.why_parts_not_read_only(line), strict=True):
        matching = list(_find_matching(part, allowing, alone=alone))
        covering = tuple(rule for rule, beyond in matching if beyond is None)
        needs_rule = bool(why_not_read) or not (reads_alone or part.program == "cd")
        parts.append(
            CoveredPart(part=part, why_not_read=why_not_read, needs_rule=needs_rule, rules=covering)
        )
        if needs_rule:
            reason = _why_not_here(part, line, subject=subject, prover=prover)
            if reason is None and not covering:
                reason = _why_not_matched(part, matching)
            uncovered += [UncoveredPart(part, reason)] if reason else []
    needing = [one for one in parts if one.needs_rule]
    if needing:
        uncovered += _find_leaving_workspace(line, subject)
    deciding = needing or [one for one in parts if one.part.program != "cd"]
    by_part = {id(one.part): one for one in uncovered}
    return LineCoverage(
        parts=tuple(parts),
        why_not_read=next((one.why_not_read for one in parts if one.why_not_read), None),
        needs_rule=bool(needing),
        uncovered=tuple(uncovered),
        deciding=tuple(
            by_part.get(id(one.part)) or UncoveredPart(one.part, _describe_unmatched(one.part))
            for one in deciding
        ),
        used=tuple(one.rules[0] for one in deciding if one.rules),
        grants=reduce(and_, (unite_grants(one.rules) for one in deciding))
        if deciding
        else NO_GRANTS,
    )


def _find_matching(
    part: ShellPart, rules: Iterable[PermissionRule], *, alone: bool
) -> Iterator[tuple[PermissionRule, str | None]]:
    """Yield the rules that begin like the part, each with what in the part goes beyond it."""
    for rule in rules:
        if rule.command is not None and rule.command.begins(part):
            yield rule, rule.command.why_not_covered(part, alone=alone)


def _why_not_here(
    part: ShellPart, line: PlainLine, *, subject: CallSubject, prover: ReadProver
) -> str | None:
    """Return why no rule can cover this program; None if one can."""
    if prover.is_of_workspace(part.program):
        return f"{part.program} is a file in the workspace, not an installed program"
    if "/" in part.program and not part.program.startswith("/"):
        moves = any(other.program == "cd" for other in line.parts)
        if moves or subject.cwd != subject.root:
            return f"{part.program} may not be the file in the workspace root"
    return None


def _why_not_matched(part: ShellPart, matching: Sequence[tuple[PermissionRule, str | None]]) -> str:
    for rule, beyond in matching:
        return f"rule {rule} does not cover this: {beyond}"
    return _describe_unmatched(part)


def unite_grants(rules: Iterable[PermissionRule]) -> Grants:
    return reduce(or_, (rule.grants for rule in rules), NO_GRANTS)


def _find_leaving_workspace(line: PlainLine, subject: CallSubject) -> Iterator[UncoveredPart]:
    """Yield each `cd` that leaves the workspace. Rules are about commands inside it."""
    directory = subject.cwd
    for part in line.parts:
        if part.program == "cd" and len(part.words) == 2:
            directory = Path(os.path.realpath(directory / part.words[1].text))
            if not any(directory.is_relative_to(root) for root in subject.roots):
                yield UncoveredPart(part, f"{part.source} leaves the workspace")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReview:
    subject: CallSubject
    verdict: Verdict
    """The verdict on the call alone, whatever it needs beyond the sandbox. An `ask` by the
    evaluator is provisional: it holds until the model has been asked."""
    asks_each_time: Verdict | None
    """The `ask` of a rule that no lasting answer can silence, if there is one."""
    why_not_read: str | None
    """The reason why it does not only read; None if it only reads."""
    coverage: LineCoverage | None
    """How far rules cover a command line; None if it is not plain, or no command."""
    missing: Grants
    """What a command needs and no rule gives."""
    has_sandbox: bool
    """True if it is a command that runs in a sandbox."""
    rules: Sequence[PermissionRule]
    """The rules that were valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """A call that a model is asked to evaluate."""

    call: ToolCall
    effect: Effect
    workspace: str
    mode: Mode
    verdict: Verdict
    """The `ask` that holds if there is no evaluation, with the rule that wants one."""
