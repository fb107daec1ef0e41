"""One command in its own bash, and the directory it ends in.

The command is in a file that the shell evaluates. So no quoting, heredoc, length or syntax error
of it can reach the wrapper around it. Nothing is carried over but the working directory.

A shell waits for a line on its stdin before it reads that file, so it can be started before its
command is known. It ends by itself if the process that would send this line is gone. It reports the
directory through the same socket: only this one command can write there.
"""

import asyncio
import os
import shlex
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import show_controls
from agentcli.system.process_tree import TAG_FD
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.tools import WorkingDirectory

_SYSTEM_PATH = "/bin:/usr/bin:/usr/local/bin"
_NOTE_LIMIT_BYTES = 16_384
_NOTE_FD = TAG_FD - 1
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_RUN_COMMAND = b"\n"
_REQUEST = b"\x1e"
_REQUESTS_MAX = 100
_CODES = compile_later(r"\b[0-9]{1,3}\b")

# One line, so that bash counts the command's own lines from 1 and `set -v` shows none of this.
_AWAIT = "read -r && unset REPLY && exec {keep}{stdin} || exit 126; SECONDS=0; "
# The first process of a session gets a terminal as its own by opening it. A shell in a namespace is
# not the first, and one below Landlock may not open it: another program makes it that.
_TAKE_TERMINAL = "{{ : <>{terminal} && : <>/dev/tty; }} 2>/dev/null{otherwise}; "
_IN_OWN_SESSION = " || exec {setsid} -c -w {bash} --norc -c {evaluate} bash"
_EVALUATE = 'exec {fd}<{script} || exit 126; eval "$(<{script})"'

# The directory is noted wherever the shell can end: at exit; after the command, if that replaced
# the trap; in `exit`, if it did both. None of it may show under `set -x` or a DEBUG trap, change
# the status, or touch the command's output for longer than the note takes. The command may also
# have defined functions of any name.
_EVALUATE_AND_NOTE = (
    "trap {trap} EXIT; "
    "exit() {{ {{ {quiet}; [[ $BASH_SUBSHELL -gt 0 ]] || {note}; }} >/dev/null 2>&1; "
    'if [[ $# -gt 0 ]]; then builtin exit "$@"; fi; '
    '(builtin exit "$__agentcli_status"); builtin exit; }}; '
    f"{_EVALUATE}; "
    '{{ {quiet}; {note}; }} >/dev/null 2>&1; builtin exit "$__agentcli_status"'
)
_QUIET = (
    "__agentcli_status=${__agentcli_last-$?}; "
    "unset -f builtin; builtin trap - DEBUG; builtin set +vx"
)
_NOTE_UNLESS_NOTED = (
    "{{ [[ ${{__agentcli_status-}} ]] || {{ {quiet}; {note}; }}; }} >/dev/null 2>&1"
)
_NOTE = (
    "{{ builtin pwd -P; builtin printf '\\0'; builtin jobs -rp; {look} builtin printf '\\0'; "
    "builtin printf '%s ' \"${{__agentcli_pipe[@]-}}\"; }} >&{fd} || [[ noted ]]"
)
# Anything alive beside the first process of the namespace and this shell was left behind. What is
# just ending, such as a `>(tee)`, gets a moment for that.
_LOOK = (
    "for __agentcli_turn in 1 2 3; do __agentcli_left=; for __agentcli_one in /proc/[0-9]*; do "
    "[[ $__agentcli_one == /proc/1 || $__agentcli_one == /proc/$$ ]] || "
    '{{ builtin read -r __agentcli_stat <"$__agentcli_one/stat" && '
    "[[ ${{__agentcli_stat##*) }} != [ZX]* ]] && __agentcli_left=x; }}; done; "
    "[[ $__agentcli_left ]] || builtin break; builtin read -r -t 0.05 -u {fd}; done; "
    'builtin printf %s "$__agentcli_left";'
)

# `eval` forgets the statuses of a pipeline, so they are taken in its text, by a line of their own.
KEEP_PIPE = b'\n{ __agentcli_last=$? __agentcli_pipe=("${PIPESTATUS[@]}"); } >/dev/null 2>&1'
"""The end of a script whose shell is to note the exit codes of the pipeline before it."""

REQUEST_FUNCTION = (
    "__agentcli_request() { local IFS=$'\\037'; "
    f"builtin printf '\\036%s\\n' \"${{*//$'\\n'/ }}\" >&{_NOTE_FD} && "
    f"IFS= builtin read -r -t 10 -u {_NOTE_FD} __agentcli_answer || __agentcli_answer='?'; }}; "
)
"""Bash function that sends its arguments to us and reads `__agentcli_answer`, `?` if none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellNote:
    """The report of a shell when it ended."""

    directory: str
    """Its last directory; empty if that is gone."""
    has_jobs: bool
    """True if a background job of it was running, or any process of its own namespace."""
    pipe: tuple[int, ...] = ()
    """The exit codes of its last pipeline, if the command kept them."""


class ShellDirectory:
    """The directory in which the next command runs. It follows each command within the roots."""

    def __init__(
        self, directory: WorkingDirectory, *, root: Path, added: Callable[[], Grants]
    ) -> None:
        """`root` is the workspace. `added` returns the directories that belong to it by now."""
        self._directory = directory
        self._root = root
        self._added = added

    def return_if_lost(self) -> tuple[str, ...]:
        """Go back to the root if the directory cannot be entered any more; return a note on it."""
        lost, real = self._directory.path, Path(os.path.realpath(self._directory.path))
        root = self._find_root(real)
        if root is not None and _can_be_entered(real, root):
            if real != lost:
                self._directory.move_to(real)
            return ()
        self._directory.move_to(self._root)
        why = "cannot be entered any more"
        if root is None:
            why = "leads out of the workspace now"
        return (f"[{lost} {why}; this ran in {self._root}]",)

    def follow(self, note: ShellNote | None, before: Path) -> tuple[str, ...]:
        """Keep the directory a command ended in, if the next one may start there."""
        if note is None or note.directory == str(before):
            return ()
        after = note.directory
        directory = _find_real(after)
        # A directory that only commands see, as in their /tmp, is outside, though not gone.
        if after and self._find_root(Path(os.path.normpath(after))) is None:
            why = f"{show_controls(after)} is outside the workspace"
        elif directory is None or self._find_root(directory) is None:
            why = "the working directory is gone"
        else:
            self._directory.move_to(directory)
            return () if directory == before else (f"[now in {self._show(directory)}]",)
        self._directory.move_to(self._root)
        return (f"[{why}; the next command starts in the workspace root, {self._root}]",)

    def _find_root(self, directory: Path) -> Path | None:
        """Return the workspace or the added directory that it lies in, if any."""
        if directory.is_relative_to(self._root):
            return self._root
        added = self._added()
        roots = (*added.writable, *added.readable)
        return next((root for root in roots if directory.is_relative_to(root)), None)

    def _show(self, directory: Path) -> str:
        """Return a directory of the workspace in one line, whatever its name is."""
        if directory == self._root:
            return "the workspace root"
        is_inside = directory.is_relative_to(self._root)
        shown = directory.relative_to(self._root) if is_inside else directory
        name = os.fsencode(shown).decode("utf-8", "replace")
        return show_controls(name).replace("\n", "\ufffd") + "/"


def _can_be_entered(directory: Path, root: Path) -> bool:
    """Return whether a command may enter the directory with no more rights than its owner.

    Root itself could enter any directory."""
    below = directory.relative_to(root).parts
    way = [root.joinpath(*below[:count]) for count in range(len(below) + 1)]
    try:
        return os.access(directory, os.X_OK) and all(one.stat().st_mode & 0o111 for one in way)
    except OSError:
        return False


def _find_real(directory: str) -> Path | None:
    """Return the real directory, or None if there is none. A command may report any text."""
    try:
        found = Path(os.path.realpath(directory))
        return found if directory and found.is_dir() else None
    except (OSError, ValueError):
        return None


class ShellHandle:
    """The connection to one shell, and the file that it reads its command from.

    If it is closed before `run_command`, the shell ends."""

    def __init__(self, command_file: Path) -> None:
        self.command_file = command_file
        self._ours, self.shell_end = socket.socketpair()
        """The shell's end becomes its stdin. Close it here once the shell has started."""
        self._ours.setblocking(False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._requests = 0

    def run_command(self, command: bytes) -> None:
        """Let the waiting shell run the command; raise OSError if that fails."""
        with os.fdopen(os.open(self.command_file, _NEW_FILE, 0o600), "wb") as file:
            file.write(command)
        self._ours.send(_RUN_COMMAND)

    def read_note(self) -> ShellNote | None:
        """Return the note of a shell that has ended, None if it sent none. Commands can fake it."""
        try:
            note = os.fsdecode(self._ours.recv(_NOTE_LIMIT_BYTES))
        except OSError:
            return None
        directory, is_whole, rest = note.partition("\0")
        if not is_whole:
            return None
        jobs, _, pipe = rest.partition("\0")
        codes = () if pipe.isspace() else tuple(map(int, _CODES.findall(pipe)))
        return ShellNote(directory=directory.removesuffix("\n"), has_jobs=jobs != "", pipe=codes)

    def answer_requests(self, answer: Callable[[list[str]], str]) -> None:
        """Let `answer` reply to the lines that functions of `REQUEST_FUNCTION` send, until stopped.

        Commands can send any words.
        """
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._answer, answer)

    def stop_answering(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._ours)
            self._loop = None

    def _answer(self, answer: Callable[[list[str]], str]) -> None:
        """Answer one request. What is none stays unread: it is the note, or the end."""
        self._requests += 1
        with suppress(OSError):
            line, is_whole, _ = self._ours.recv(_NOTE_LIMIT_BYTES, socket.MSG_PEEK).partition(b"\n")
            if line.startswith(_REQUEST) and is_whole and self._requests <= _REQUESTS_MAX:
                self._ours.recv(len(line) + 1)
                words = os.fsdecode(line.removeprefix(_REQUEST)).split("\x1f")
                self._ours.send(os.fsencode(answer(words)) + b"\n")
                return
        self.stop_answering()

    def close(self) -> None:
        """Close both ends, and remove the file.

        Not while the shell runs: it would die when it writes its note."""
        with suppress(OSError):  # already gone, or replaced by something else: harmless
            self.command_file.unlink()
        self._ours.close()
        self.shell_end.close()


def build_shell_argv(
    command_file: Path,
    *,
    notes_directory: bool,
    has_namespace: bool = False,
    terminal: str = "",
    probe: str = "",
) -> tuple[str, ...]:
    """Return the program and arguments of a shell that waits, for a command in this file.

    A shell that notes its last directory catches signals, and may be slow to die of one.
    `has_namespace` says that it will be alone in a namespace of processes. `terminal` is the path
    of the terminal that is its output, and then its input, too; empty without one. `probe` is a
    line that it runs first, before it waits.
    """
    look = _LOOK.format(fd=_NOTE_FD) if has_namespace else ""
    note = _NOTE.format(fd=_NOTE_FD, look=look)
    keep = f"{_NOTE_FD}>&0 " if notes_directory else ""
    wrapper = (_AWAIT + (_EVALUATE_AND_NOTE if notes_directory else _EVALUATE)).format(
        keep=keep,
        stdin="</dev/null",
        trap=shlex.quote(_NOTE_UNLESS_NOTED.format(quiet=_QUIET, note=note)),
        quiet=_QUIET,
        note=note,
        script=shlex.quote(str(command_file)),
        fd=TAG_FD,
    )
    if terminal:
        wrapper = _wrap_for_terminal(terminal, command_file)
    if probe:
        wrapper = f"{probe}; {wrapper}"
    # Without --norc bash takes a socket on stdin for a remote login.
    return (find_bash(), "--norc", "-c", wrapper, "bash")


def _wrap_for_terminal(terminal: str, command_file: Path) -> str:
    """Return the code of a shell whose input and output are a terminal, which is its own."""
    evaluate = _EVALUATE.format(fd=TAG_FD, script=shlex.quote(str(command_file)))
    otherwise = ""
    if setsid := shutil.which("setsid", path=_SYSTEM_PATH):
        otherwise = _IN_OWN_SESSION.format(
            setsid=setsid, bash=find_bash(), evaluate=shlex.quote(evaluate)
        )
    take = _TAKE_TERMINAL.format(terminal=shlex.quote(terminal), otherwise=otherwise)
    return _AWAIT.format(keep="", stdin="<&1") + take + evaluate


@cache
def find_bash() -> str:
    if os.name != "posix":
        raise ToolError("bash does not run on Windows itself. Run agentcli inside WSL.")
    found = shutil.which("bash", path=f"{_SYSTEM_PATH}:{os.environ.get('PATH', '')}")
    if found is None:
        raise ToolError(f"There is no bash on this machine: not in {_SYSTEM_PATH}, not in PATH.")
    return found
