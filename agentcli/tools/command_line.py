"""One command line in a bash of its own: what is wrong with it, and how that shell runs it.

The command is in a file that the shell evaluates. So no quoting, heredoc, length or syntax error
of it can reach the wrapper around it. Nothing is carried over but the working directory.

A shell waits for a line on its stdin before it reads that file, so it can be started before its
command is known. It ends by itself if the process that would send this line is gone. It reports the
directory through the same socket: only this one command can write there.
"""

import asyncio
import os
import re
import shlex
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath

from agentcli.system.lazy import compile_later
from agentcli.system.process_tree import TAG_FD
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ErrorKind

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

    def close(self) -> ShellNote | None:
        """Close both ends, and remove the file. Return the note of a shell that has sent one.

        Not while the shell runs: it would die when it writes its note. Commands can fake it."""
        note = self._read_note()
        with suppress(OSError):  # already gone, or replaced by something else: harmless
            self.command_file.unlink()
        self._ours.close()
        self.shell_end.close()
        return note

    def _read_note(self) -> ShellNote | None:
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


# The command line itself, taken apart only as far as it is plain. Of everything else nothing is
# said.


_LEXEME = compile_later(
    r"(?P<blank>[ \t]+|\\\n)"
    r"""|(?P<quoted>\\.|'[^']*'|\$'(?:[^'\\]|\\.)*'|"(?:[^"\\`$]|\\.|\$(?!\())*"|\$\{[^}"'`]*\})"""
    r"|(?P<comment>(?<![^\s;&|()])\#[^\n]*)"
    r"|(?P<redirection>&>>?|[<>]&|>\||<<<)"
    r"|(?P<opaque><<|;;|`)"
    r"|(?P<joiner>(?:&&|\|\|)\s*|[;&\n])"
    r"|(?P<pipe>\|&?\s*)"
    r"|(?P<open>\()|(?P<close>\))"
    r"""|(?P<text>[^\s\\'"`$<>&|;()]+|[$<>])""",
    re.DOTALL,
)
_SHOWS_WHAT_IS_READ = compile_later(r"\bDEBUG\b|\bset\s[-+\w \t]*v|\bcase\b")
"""Commands that would show another line after them, or that are not to be taken apart."""
_BEFORE_PROGRAM = compile_later(
    r"""\A\s*(?:(?:[A-Za-z_]\w*=(?:[^\s'"()]|'[^']*'|"[^"]*")*|time|-p)\s+)*"""
)
_PROGRAM = compile_later(r"[\w./+:@-]{1,80}(?=[\s<>]|\Z)")
_ENDS_OF_COMPOUNDS = (["}"], ["done"], ["fi"])
_RESERVED = (
    *("if", "then", "else", "elif", "for", "while", "until", "do", "select", "function", "coproc"),
    *("in", "time"),
)
_EDITORS = {"vi", "vim", "nvim", "view", "vimdiff", "nano", "pico", "micro", "emacs", "joe"}
_WITHOUT_TERMINAL = compile_later(
    r"\s(?:-e|-E|-s|-c|-h|\+|--?batch|--script|--headless|--version|--help)"
)
_SCREENS = {
    "watch": "run its command once, or some times: for i in 1 2 3; do ...; sleep 2; done",
    "htop": "use ps aux or top -b -n 1",
    "btop": "use ps aux or top -b -n 1",
}
_OF_PROCESSES = compile_later(r"\b(?:kill|pkill|killall|fuser|pgrep|lsof|ps)\b")
_SETS_UP = frozenset({"export", "alias", "source", ".", "unset", "set", "shopt", "declare"})


def find_fault(command: str, *, on_terminal: bool) -> str:
    """Return why a command should not run as it is written, and what to do; empty if it should."""
    text = command.strip()
    if text.startswith("```"):
        return "the command is in a Markdown fence. Send the lines between ``` alone."
    if text.startswith("$ "):
        return 'the command begins with the prompt "$ ". Send what follows it alone.'
    if on_terminal or not any(name in command for name in (*_EDITORS, *_SCREENS)):
        return ""
    simple = _split_commands(_lex(command))
    return next(filter(None, map(_explain_need_for_terminal, simple)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """A command as a shell reads it, and what is known of its end."""

    script: bytes
    pipe: tuple[str, ...] = ()
    """The programs of the pipeline at its end, whose exit codes the shell notes.

    Whenever the command ends with exit code 0, that pipeline was the last one it ran."""
    only_sets_up: bool = False
    """True if nothing of it outlasts its shell."""
    names_processes: bool = False
    """True if it may look for processes of others, or end them."""


def read_command(command: str, *, is_awaited: bool) -> ShellCommand:
    """Return the command for a shell. Raise ToolError if no shell can read it.

    How it ends matters only if it is awaited."""
    if "\0" in command:
        at = command.index("\0")
        raise ToolError(
            f"Invalid input: command has a NUL character at position {at}, which no shell can "
            "read. Write it as an escape, for example printf '\\0'.",
            kind=ErrorKind.INVALID_INPUT,
        )
    try:
        script = command.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"Invalid input: command has half a surrogate pair at position {error.start}. "
            "Send whole characters.",
            kind=ErrorKind.INVALID_INPUT,
        ) from None
    read = ShellCommand(script=script, names_processes=_OF_PROCESSES.search(command) is not None)
    may_set_up = any(name in command for name in _SETS_UP)
    if not is_awaited or not (may_set_up or "|" in command):
        return read
    lexemes = _lex(command)
    programs = {simple.split(maxsplit=1)[0] for simple in _split_commands(lexemes)}
    read = replace(read, only_sets_up=bool(programs) and programs <= _SETS_UP)
    if "|" not in command or _SHOWS_WHAT_IS_READ.search(command):
        return read
    names = tuple(map(_name_part, _split_last_pipe(lexemes)))
    if len(names) < 2 or not all(names):
        return read
    return replace(read, script=script + KEEP_PIPE, pipe=names)


def _lex(command: str) -> list[tuple[str, str]]:
    """Return the kind and the text of each lexeme; empty if the line is not plain enough."""
    lexemes: list[tuple[str, str]] = []
    at = depth = 0
    for found in _LEXEME.finditer(command):
        kind = found.lastgroup or ""
        depth += (kind == "open") - (kind == "close")
        if found.start() != at or kind == "opaque" or depth < 0:
            return []
        at = found.end()
        lexemes.append((kind, found[0]))
    return lexemes if at == len(command) and not depth else []


def _split_commands(lexemes: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return the simple commands of a line."""
    parts = [""]
    for kind, text in lexemes:
        if kind in ("joiner", "pipe", "open", "close"):
            parts.append("")
        elif kind != "comment":
            parts[-1] += text
    plain = (_BEFORE_PROGRAM.sub("", part, count=1).strip() for part in parts if part)
    return tuple(filter(None, plain))


def _split_last_pipe(lexemes: list[tuple[str, str]]) -> list[str]:
    """Return the texts between the pipes of the last list item; empty if that is not certain."""
    parts, joiner, before, depth = [""], "", "", 0
    for kind, text in lexemes:
        depth += (kind == "open") - (kind == "close")
        if kind == "joiner" and not depth:
            joiner = joiner or text.strip() or ";"
        elif kind == "pipe" and not depth:
            parts.append("")
        elif kind != "comment":
            if joiner and kind != "blank":
                parts, before, joiner = [""], joiner, ""
            parts[-1] += " " if kind == "blank" else text
    return parts if joiner in ("", ";") and before != "||" else []


def _name_part(part: str) -> str:
    """Return the program of a part, `(...)` if it has no plain name; empty if that is unsure."""
    rest = _BEFORE_PROGRAM.sub("", part, count=1)
    if rest.startswith(("(", "$", '"', "'")) or rest.split(None, 1)[:1] in _ENDS_OF_COMPOUNDS:
        return "(...)"
    found = _PROGRAM.match(rest)
    return "" if found is None or found[0] in _RESERVED else PurePath(found[0]).name


def _explain_need_for_terminal(command: str) -> str:
    """Return why a simple command would only wait, and what to do instead; empty if it would not.

    Other programs that need a terminal say so themselves, and end."""
    program = PurePath(command.split(maxsplit=1)[0]).name
    if program in _EDITORS and not _WITHOUT_TERMINAL.search(command):
        return f"{program} needs a terminal, and there is none. Use edit_file, write_file or sed."
    if program in _SCREENS and not _WITHOUT_TERMINAL.search(command):
        return f"{program} needs a terminal, and there is none: {_SCREENS[program]}."
    return ""
