"""The proof that a command line only reads: every part is a known reader in a form known to read.

What is not proven may still be harmless; the user is only asked about it. The proof is about the
words. It relies on a shell without aliases, functions or CDPATH of its own, and on the sandbox to
limit what can be read.
"""

import os
from collections.abc import Callable
from pathlib import Path

from agentcli.permissions import git_reads
from agentcli.permissions.reader_options import Unproven
from agentcli.permissions.readers import BUILT_IN, READERS
from agentcli.permissions.shell import OpaqueLine, PlainLine, ShellPart, parse_line

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
