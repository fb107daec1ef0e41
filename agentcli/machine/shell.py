"""One command in a bash of its own, and the directory it ends in.

The command stands in a file that the shell evaluates, so no quoting, heredoc, length or syntax
error of it can reach the wrapper around it. Nothing is carried over but the working directory.

A shell waits for a line on its stdin before it looks at that file, so it can be started before
anybody knows its command. It ends by itself when whoever would have let it go is gone.
"""

import os
import shlex
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentcli.machine.tree import MARK_FD
from agentcli.types.errors import ToolError
from agentcli.types.tools import ErrorKind

_SYSTEM_PATH = "/bin:/usr/bin:/usr/local/bin"
_NOTE_LIMIT_BYTES = 16_384
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL

LET_GO = b"\n"

# One line, so that bash counts the command's own lines from 1 and `set -v` shows none of this.
_AWAIT = "read -r && unset REPLY && exec </dev/null || exit 126; SECONDS=0; "
_EVALUATE = 'exec {fd}<{script} || exit 126; eval "$(<{script})"'

# The directory is noted wherever the shell can end: at exit; after the command, where that took the
# trap for itself; in `exit`, where it did both. None of it may show under `set -x` or a DEBUG trap,
# change the status, or touch the command's output for longer than the note takes; and the command
# may have defined functions of any name.
_EVALUATE_AND_NOTE = (
    "trap {trap} EXIT; "
    "exit() {{ {{ {quiet}; [[ $BASH_SUBSHELL -gt 0 ]] || {note}; }} >/dev/null 2>&1; "
    'if [[ $# -gt 0 ]]; then builtin exit "$@"; fi; '
    "(builtin exit $__agentcli_status); builtin exit; }}; "
    f"{_EVALUATE}; "
    "{{ {quiet}; {note}; }} >/dev/null 2>&1; builtin exit $__agentcli_status"
)
_QUIET = "__agentcli_status=$?; unset -f builtin; builtin trap - DEBUG; builtin set +vx"
_NOTE_UNLESS_NOTED = (
    "{{ [[ ${{__agentcli_status-}} ]] || {{ {quiet}; {note}; }}; }} >/dev/null 2>&1"
)
_NOTE = "{{ builtin pwd -P; builtin printf '\\0'; builtin jobs -rp; }} >|{cwd} || [[ noted ]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A shell for one command, and the file it will read that from."""

    argv: tuple[str, ...]
    command_file: Path
    note_file: Path

    def write(self, command: bytes) -> None:
        with os.fdopen(os.open(self.command_file, _NEW_FILE, 0o600), "wb") as file:
            file.write(command)

    def directory_after(self) -> str | None:
        """Where the shell was when it ended; empty: in one that is gone; None: it did not tell."""
        noted = self._noted()
        return None if noted is None else noted[0].removesuffix("\n")

    def left_jobs(self) -> bool:
        """Whether something that it had put in the background was running when it ended."""
        noted = self._noted()
        return noted is not None and noted[2] != ""

    def _noted(self) -> tuple[str, str, str] | None:
        """The directory, a NUL, and the process ids of jobs."""
        try:
            # The command may have put anything in place of the file, even what blocks a reader.
            fd = os.open(self.note_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            return os.fsdecode(os.read(fd, _NOTE_LIMIT_BYTES)).partition("\0")
        finally:
            os.close(fd)

    def remove(self) -> None:
        for file in (self.command_file, self.note_file):
            # Gone already, or the command made a directory of it: no harm to anybody.
            with suppress(OSError):
                file.unlink()


def prepare(*, directory: Path, name: str, notes_directory: bool) -> Script:
    """For a command in a new file of the directory, its path holding the name.

    A shell that notes its last directory catches signals, and may be slow to die of one.
    """
    bash = find_bash()
    command_file, note_file = directory / f"{name}sh", notes_in(directory) / name
    note = _NOTE.format(cwd=shlex.quote(str(note_file)))
    wrapper = _AWAIT + (_EVALUATE_AND_NOTE if notes_directory else _EVALUATE).format(
        trap=shlex.quote(_NOTE_UNLESS_NOTED.format(quiet=_QUIET, note=note)),
        quiet=_QUIET,
        note=note,
        script=shlex.quote(str(command_file)),
        fd=MARK_FD,
    )
    return Script(
        argv=(bash, "-c", wrapper, "bash"), command_file=command_file, note_file=note_file
    )


def notes_in(directory: Path) -> Path:
    """The only part of it that a confined shell must write to; made where it is missing."""
    notes = directory / "cwd"
    notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    return notes


@cache
def find_bash() -> str:
    if os.name != "posix":
        raise ToolError("bash does not run on Windows itself. Run agentcli inside WSL.")
    found = shutil.which("bash", path=f"{_SYSTEM_PATH}:{os.environ.get('PATH', '')}")
    if found is None:
        raise ToolError(f"There is no bash on this machine: not in {_SYSTEM_PATH}, not in PATH.")
    return found


def encoded(command: str) -> bytes:
    """As a shell reads it; ToolError where none can."""
    if "\0" in command:
        at = command.index("\0")
        raise ToolError(
            f"Invalid input: command has a NUL character at position {at}, which no shell can "
            "read. Write it as an escape, for example printf '\\0'.",
            kind=ErrorKind.INVALID_INPUT,
        )
    try:
        return command.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"Invalid input: command has half a surrogate pair at position {error.start}. "
            "Send whole characters.",
            kind=ErrorKind.INVALID_INPUT,
        ) from None
