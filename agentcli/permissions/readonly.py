"""The proof that a command line only reads: every part is a known reader in a form known to read.

What is not proven may still be harmless; the user is only asked about it. The proof is about the
words. It relies on a shell without aliases, functions or CDPATH of its own, and on the sandbox to
limit what can be read. What needs a rule, because it is not proven, is covered part by part.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.permissions import git_reads
from agentcli.permissions.reader_options import Unproven
from agentcli.permissions.readers import BUILT_IN, READERS
from agentcli.permissions.shell import OpaqueLine, PlainLine, ShellPart, parse_line
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants

if TYPE_CHECKING:
    from agentcli.permissions.rules import PermissionRule
    from agentcli.permissions.subject import CallSubject

_MOST_DIRECTORIES = 8


def why_words_not_read_only(part: ShellPart) -> str | None:
    """Return why the part's words do not prove that it only reads; None if they do.

    This assumes that the program is what its name says.
    """
    check = READERS.get(part.program)
    if check is None:
        return f"{part.program} is not read-only"
    try:
        check(part.words[1:])
    except Unproven as unproven:
        what = str(unproven)
        if not what.startswith(f"{part.program} "):
            what = f"{part.program} with {what}"
        return f"{what} is not read-only"
    return None


def build_path_lookup(search_path: str) -> Callable[[str], Path | None]:
    """Return a function that finds a program by name as bash does on this PATH.

    A relative entry differs in every directory, so the search ends there and finds nothing.
    """

    def resolve(name: str) -> Path | None:
        for entry in search_path.split(os.pathsep):
            if not Path(entry).is_absolute():
                return None
            program = Path(entry, name)
            # In this order, since `is_file` raises where access is not permitted.
            if os.access(program, os.X_OK) and program.is_file():
                return program
        return None

    return resolve


class ReadProver:
    def __init__(
        self,
        *,
        workspace: Path,
        resolve: Callable[[str], Path | None],
        cwd: Callable[[], Path],
        home: Path | None = None,
    ) -> None:
        """`resolve` finds a program as the shell would. `cwd` returns where the next line will run.
        `home` is the home directory of commands, if it is their own and they can change it."""
        self._workspace = Path(os.path.realpath(workspace))
        self._resolve = resolve
        self._cwd = cwd
        self._home = home

    def reads(self, line: str) -> bool:
        """Return whether the line only reads and does not change the shell's directory.

        A line that changes it must not run beside others: they would be judged for one directory
        and run in another.
        """
        parsed = parse_line(line)
        stays = isinstance(parsed, PlainLine) and all(part.program != "cd" for part in parsed.parts)
        return stays and self.why_not_read_only(line) is None

    def why_not_read_only(self, line: str) -> str | None:
        """Return why the line is not known to only read; None if it only reads."""
        parsed = parse_line(line)
        if isinstance(parsed, OpaqueLine):
            return f"{parsed.reason} cannot be checked"
        return next(filter(None, self.why_parts_not_read_only(parsed)), None)

    def why_parts_not_read_only(self, line: PlainLine) -> list[str | None]:
        """Return for every part why it is not known to only read, or None."""
        directories = {self._cwd()}
        reasons: list[str | None] = []
        for part in line.parts:
            if part.program == "cd":
                reason, directories = _follow_cd(part, directories)
            else:
                reason = self._why_part_not_read_only(part, directories)
            reasons.append(reason)
        return reasons

    def is_of_workspace(self, program: str) -> bool:
        """Return whether the shell would find this bare name inside the workspace."""
        found = None if "/" in program or program in BUILT_IN else self._resolve(program)
        return found is not None and any(
            path.is_relative_to(self._workspace) for path in (found, Path(os.path.realpath(found)))
        )

    def _why_not_installed(self, program: str) -> str | None:
        """Return why the bare name may not be an installed program; None if it is one.

        The program must be one that nothing in the workspace can replace.
        """
        if "/" in program:
            return f"{program} is called by its path"
        if program in BUILT_IN:
            return None
        found = self._resolve(program)
        if found is None:
            return f"{program} is not installed"
        if self.is_of_workspace(program):
            return f"{program} is a file in the workspace"
        if "shims" in found.parts:
            return f"{program} is a shim that files in the workspace can redirect"
        return None

    def _why_part_not_read_only(self, part: ShellPart, directories: set[Path]) -> str | None:
        """Return why a part is not known to only read in these directories, or None."""
        return (
            why_words_not_read_only(part)
            or self._why_not_installed(part.program)
            or (self._why_git_runs_programs(part, directories) if part.program == "git" else None)
        )

    def _why_git_runs_programs(self, part: ShellPart, directories: set[Path]) -> str | None:
        if not directories:
            return "the directory that git would run in is unknown"
        inside = Path(*git_reads.list_directories(part.words[1:]))
        # Bash resolves `cd link/..` by name, others by the file system: check both.
        for path in directories | {Path(os.path.normpath(path)) for path in directories}:
            directory = Path(os.path.realpath(path / inside))
            if not directory.is_relative_to(self._workspace):
                # A command may see more there than we do: its own /tmp, its own HOME.
                return "git would run outside the workspace"
            if reason := git_reads.why_not_inert(directory, home=self._home):
                return f"git may run a program here: {reason}"
        return None


def _follow_cd(part: ShellPart, directories: set[Path]) -> tuple[str | None, set[Path]]:
    """Add the target of a `cd`. A line goes on if its `cd` failed, so both directories count."""
    operands = part.words[1:]
    if len(operands) != 1 or operands[0].is_glob or operands[0].text.startswith("-"):
        return "cd needs one plain directory", set()
    directories = directories | {directory / operands[0].text for directory in directories}
    return None, directories if len(directories) <= _MOST_DIRECTORIES else set()


# How far a command line is covered. A part is covered if it is proven to only read, or if a rule
# allows it. A line that is not plain cannot be split into parts, so no rule covers it.


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
    rules: "tuple[PermissionRule, ...]"
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
    used: "tuple[PermissionRule, ...]"
    """The first rule that covers each deciding part."""
    grants: Grants
    """The grants of the line. No part gets what only another part was granted."""


def cover_line(
    line: PlainLine,
    subject: "CallSubject",
    *,
    rules: "Sequence[PermissionRule]",
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
    part: ShellPart, rules: "Iterable[PermissionRule]", *, alone: bool
) -> "Iterator[tuple[PermissionRule, str | None]]":
    """Yield the rules that begin like the part, each with what in the part goes beyond it."""
    for rule in rules:
        if rule.command is not None and rule.command.begins(part):
            yield rule, rule.command.why_not_covered(part, alone=alone)


def _why_not_here(
    part: ShellPart, line: PlainLine, *, subject: "CallSubject", prover: ReadProver
) -> str | None:
    """Return why no rule can cover this program; None if one can."""
    if prover.is_of_workspace(part.program):
        return f"{part.program} is a file in the workspace, not an installed program"
    if "/" in part.program and not part.program.startswith("/"):
        moves = any(other.program == "cd" for other in line.parts)
        if moves or subject.cwd != subject.root:
            return f"{part.program} may not be the file in the workspace root"
    return None


def _why_not_matched(
    part: ShellPart, matching: "Sequence[tuple[PermissionRule, str | None]]"
) -> str:
    for rule, beyond in matching:
        return f"rule {rule} does not cover this: {beyond}"
    return _describe_unmatched(part)


def unite_grants(rules: "Iterable[PermissionRule]") -> Grants:
    return reduce(or_, (rule.grants for rule in rules), NO_GRANTS)


def _find_leaving_workspace(line: PlainLine, subject: "CallSubject") -> Iterator[UncoveredPart]:
    """Yield each `cd` that leaves the workspace. Rules are about commands inside it."""
    directory = subject.cwd
    for part in line.parts:
        if part.program == "cd" and len(part.words) == 2:
            directory = Path(os.path.realpath(directory / part.words[1].text))
            if not any(directory.is_relative_to(root) for root in subject.roots):
                yield UncoveredPart(part, f"{part.source} leaves the workspace")
