"""Coverage of a command line by allow rules, part by part. Every part must be covered.

A part is covered if it is proven to only read, or if a rule allows it. A line that is not plain
cannot be split into parts, so no rule covers it.
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


class RuleCoverage:
    def __init__(
        self, rules: Sequence[PermissionRule], *, prover: ReadProver, reads_alone: bool
    ) -> None:
        """`reads_alone` means that a proven read needs no rule."""
        self._rules = [rule for rule in rules if rule.decision == "allow" and rule.command]
        self._prover = prover
        self._reads_alone = reads_alone

    def find_uncovered(self, line: PlainLine, subject: CallSubject) -> list[UncoveredPart]:
        """Return the parts that still need to be allowed."""
        needing = self._find_parts_needing_rule(line)
        found = [
            UncoveredPart(part, reason)
            for part in needing
            if (reason := self._why_not_covered(part, line, subject))
        ]
        return [*found, *_find_leaving_workspace(line, subject)] if needing else []

    def find_ungranted(self, line: PlainLine, subject: CallSubject) -> list[UncoveredPart]:
        """Return every part whose rules decide what the line is granted, allowed or not."""
        uncovered = {id(one.part): one for one in self.find_uncovered(line, subject)}
        return [
            uncovered.get(id(part)) or UncoveredPart(part, _describe_unmatched(part))
            for part in self._find_deciding_parts(line)
        ]

    def rules_used(self, line: PlainLine) -> list[PermissionRule]:
        """Return the first rule that covers each part of a covered line."""
        return [rules[0] for rules in self._find_covering(line) if rules]

    def compute_grants(self, line: PlainLine) -> Grants:
        """Return the grants of a covered line. No part gets what only another part was granted."""
        given = [unite_grants(rules) for rules in self._find_covering(line)]
        return reduce(and_, given) if given else NO_GRANTS

    def only_reads(self, line: PlainLine) -> bool:
        """Return whether no part needs a rule."""
        return not self._find_parts_needing_rule(line)

    def explain_parts(
        self, line: PlainLine, subject: CallSubject
    ) -> Iterator[tuple[str, bool, str]]:
        """Yield each part, whether it only reads, and what allows it or why it is not allowed."""
        reads = self._prover.why_not_each(line)
        uncovered = {id(one.part): one.reason for one in self.find_uncovered(line, subject)}
        alone = len(line.parts) == 1
        for part, why_not in zip(line.parts, reads, strict=True):
            covering = (
                rule for rule, beyond in self._find_matching(part, alone=alone) if not beyond
            )
            rule = next(covering, None)
            allowed = f"rule {rule.cited} allows it" if rule else "read-only"
            yield part.source, why_not is None, uncovered.get(id(part)) or allowed

    def _find_covering(self, line: PlainLine) -> list[list[PermissionRule]]:
        """Return all covering rules for each part that decides about the line."""
        alone = len(line.parts) == 1
        return [
            [rule for rule, beyond in self._find_matching(part, alone=alone) if beyond is None]
            for part in self._find_deciding_parts(line)
        ]

    def _find_deciding_parts(self, line: PlainLine) -> list[ShellPart]:
        """Return the parts that need a rule; if the line only reads, all of its programs."""
        needing = self._find_parts_needing_rule(line)
        return needing or [part for part in line.parts if part.program != "cd"]

    def _find_parts_needing_rule(self, line: PlainLine) -> list[ShellPart]:
        reads = self._prover.why_not_each(line)
        return [
            part
            for part, why_not in zip(line.parts, reads, strict=True)
            if why_not or not (self._reads_alone or part.program == "cd")
        ]

    def _why_not_covered(
        self, part: ShellPart, line: PlainLine, subject: CallSubject
    ) -> str | None:
        if self._prover.is_of_workspace(part.program):
            return f"{part.program} is a file in the workspace, not an installed program"
        if "/" in part.program and not part.program.startswith("/"):
            moves = any(other.program == "cd" for other in line.parts)
            if moves or subject.cwd != subject.root:
                return f"{part.program} may not be the file in the workspace root"
        beginning = dict(self._find_matching(part, alone=len(line.parts) == 1))
        if None in beginning.values():
            return None
        for rule, beyond in beginning.items():
            return f"rule {rule} does not cover this: {beyond}"
        return _describe_unmatched(part)

    def _find_matching(
        self, part: ShellPart, *, alone: bool
    ) -> Iterator[tuple[PermissionRule, str | None]]:
        """Yield the rules that begin like the part, each with what in the part goes beyond it."""
        for rule in self._rules:
            if rule.command is not None and rule.command.begins(part):
                yield rule, rule.command.why_not_covered(part, alone=alone)


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
