"""One command in a bash of its own, and the directory it ends in.

The command stands in a file that the shell evaluates, so no quoting, heredoc, length or syntax
error of it can reach the wrapper around it. Nothing is carried over but the working directory.

A shell waits at its leash, a line on its stdin, before it looks at that file, so it can be started
before anybody knows its command. It ends by itself when whoever would have let it go is gone. By
the leash it also tells the directory: nobody but this one command can speak there.
"""

import os
import shlex
import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentcli.system.process_tree import MARK_FD
from agentcli.types.errors import ToolError
from agentcli.types.tools import ErrorKind

_SYSTEM_PATH = "/bin:/usr/bin:/usr/local/bin"
_NOTE_LIMIT_BYTES = 16_384
_NOTE_FD = MARK_FD - 1
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_LET_GO = b"\n"

# One line, so that bash counts the command's own lines from 1 and `set -v` shows none of this.
_AWAIT = "read -r && unset REPLY && exec {keep}</dev/null || exit 126; SECONDS=0; "
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
_NOTE = "{{ builtin pwd -P; builtin printf '\\0'; builtin jobs -rp; }} >&{fd} || [[ noted ]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellScript:
    """A shell for one command, and the file it will read that from."""

    argv: tuple[str, ...]
    command_file: Path

    def write(self, command: bytes) -> None:
        with os.fdopen(os.open(self.command_file, _NEW_FILE, 0o600), "wb") as file:
            file.write(command)

    def remove(self) -> None:
        # Gone already, or something else by now: no harm to anybody.
        with suppress(OSError):
            self.command_file.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellNote:
    """What a shell told when it ended."""

    directory: str
    """Where it was; empty: in one that is gone."""
    has_jobs: bool
    """Whether something that it had put in the background was running."""


class ShellHandle:
    """Between us and one shell. Closed before that was let go, the shell ends."""

    def __init__(self) -> None:
        self._ours, self.shell_end = socket.socketpair()
        """The shell's end becomes its stdin; it is to be closed here once the shell has started."""
        self._ours.setblocking(False)

    def release(self) -> None:
        self._ours.send(_LET_GO)

    def read_note(self) -> ShellNote | None:
        """Of a shell that has ended; None: it did not tell. Its command may have made it up."""
        try:
            told = os.fsdecode(self._ours.recv(_NOTE_LIMIT_BYTES))
        except OSError:
            return None
        directory, is_told, jobs = told.partition("\0")
        if not is_told:
            return None
        return ShellNote(directory=directory.removesuffix("\n"), has_jobs=jobs != "")

    def close(self) -> None:
        """Not while the shell runs: it would die of telling."""
        self._ours.close()
        self.shell_end.close()


def prepare_shell(*, directory: Path, name: str, notes_directory: bool) -> ShellScript:
    """For a command in a new file of the directory, its path holding the name.

    A shell that notes its last directory catches signals, and may be slow to die of one.
    """
    command_file = directory / f"{name}sh"
    note = _NOTE.format(fd=_NOTE_FD)
    keep = f"{_NOTE_FD}>&0 " if notes_directory else ""
    wrapper = (_AWAIT + (_EVALUATE_AND_NOTE if notes_directory else _EVALUATE)).format(
        keep=keep,
        trap=shlex.quote(_NOTE_UNLESS_NOTED.format(quiet=_QUIET, note=note)),
        quiet=_QUIET,
        note=note,
        script=shlex.quote(str(command_file)),
        fd=MARK_FD,
    )
    # Without --norc bash takes the other end of a socket for a login from afar.
    return ShellScript(
        argv=(find_bash(), "--norc", "-c", wrapper, "bash"), command_file=command_file
    )


@cache
def find_bash() -> str:
    if os.name != "posix":
        raise ToolError("bash does not run on Windows itself. Run agentcli inside WSL.")
    found = shutil.which("bash", path=f"{_SYSTEM_PATH}:{os.environ.get('PATH', '')}")
    if found is None:
        raise ToolError(f"There is no bash on this machine: not in {_SYSTEM_PATH}, not in PATH.")
    return found


def encode_command(command: str) -> bytes:
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
