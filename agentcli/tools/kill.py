"""Finding and ending the background commands of a session from another command.

Each command has its own process namespace, so its `kill`, `pkill`, `killall`, `fuser -k`, `pgrep`,
`lsof -t` and `ps` find no other command. Where one of them is in a command, functions of those
names ask us first. We signal only processes that carry the tag of a background command of this
session, and name no others.
"""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.system import process_tree
from agentcli.system.lazy import compile_later
from agentcli.system.process_table import ProcessTable
from agentcli.system.strict_json import parse_whole_number
from agentcli.tools.command_line import REQUEST_FUNCTION
from agentcli.types.fast_dataclass import dataclass

_KILL = compile_later(
    r"\s*kill(?:\s+-(?:s\s+)?(?P<signal>[A-Z]+|[0-9]+))?(?P<pids>(?:\s+[0-9]{1,18})+)\s*"
)

_QUIET = "{ local - && set +vx; } 2>/dev/null; __agentcli_request"
_FUNCTION = (
    f'NAME() {{ {_QUIET} NAME "$@" 2>/dev/null; case $__agentcli_answer in '
    '\'?\') command NAME "$@" ;; *) command NAME "$@" >/dev/null 2>&1 || : ;; esac; }; '
)
_QUERY = (
    f'NAME() {{ {_QUIET} NAME "$@" 2>/dev/null; case $__agentcli_answer in '
    "'?') command NAME \"$@\" ;; *) builtin printf '%s\\n' $__agentcli_answer ;; esac; }; "
)
# What the command's own `ps` lists comes first, with its header. Rows are split at the separator.
_LIST = (
    f"ps() {{ {_QUIET} ps \"$@\" 2>/dev/null; local IFS=$'\\037'; set -f; "
    "case $__agentcli_answer in '?') command ps \"$@\" ;; "
    "*) command ps \"$@\"; builtin printf '%s\\n' $__agentcli_answer ;; esac; }; "
)
_FUNCTIONS = (
    REQUEST_FUNCTION + f'kill() {{ {_QUIET} kill "$@" 2>/dev/null; case $__agentcli_answer in '
    "'?') builtin kill \"$@\" ;; '') : ;; *) eval \"builtin kill $__agentcli_answer\" ;; esac; }; "
    + "".join(_FUNCTION.replace("NAME", name) for name in ("pkill", "killall", "fuser"))
    + "".join(_QUERY.replace("NAME", name) for name in ("pgrep", "lsof"))
    + _LIST
    + 'xargs() { case "$1 $2" in "kill "*) shift; kill "$@" $(command cat) ;; '
    '"-r kill") shift 2; kill "$@" $(command cat) ;; *) command xargs "$@" ;; esac; }; '
).encode()
"""In one line, so that the lines of the command keep their numbers."""

_UNKNOWN = "?"
_SEPARATOR = "\x1f"
_EVERY_PROCESS = compile_later(r"-?(?=.*[eA]|a?u?x)[eAaxufwlj]+")
"""The options of `ps` with which it lists the processes of all users."""
_ROWS = {
    "u": "background {pid:7}  0.0  0.0      0     0 ?        S    00:00   0:00 {words}",
    "f": "background {pid:7}       1  0 00:00 ?        00:00:00 {words}",
    "": "{pid:7} ?        S      0:00 {words}",
}
"""Rows as `ps` writes them with these options: the number and the words are in their columns."""
_LISTENING = "0A"
_CMDLINE_BYTES = 4096
_PATTERN_PART = compile_later(r"\.\*|\\(?P<escaped>\W)|\[(?P<one>\w)\]|(?P<plain>[^\\\[\](){}*+?])")
_WILDCARDS_MAX = 3
_LSOF = compile_later(r"(?=.*-i?t|.*-ti)(?:-t ?|-i ?|-ti ?|-it ?)+(?:tcp)?:(?P<port>[0-9]{1,5})")
_PORT = compile_later(r"(?P<port>[0-9]{1,5})(?:/tcp)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KillCommand:
    signal: int
    pids: tuple[int, ...]


def parse_kill(command: str) -> KillCommand | None:
    """Return the parsed `kill`; None for any other command or an unknown signal."""
    found = _KILL.fullmatch(command)
    number = _parse_signal(found["signal"] or "TERM") if found else None
    if found is None or number is None:
        return None
    return KillCommand(signal=number, pids=tuple(map(int, found["pids"].split())))


def signal_directly(command: str, processes: ProcessTable) -> bool:
    """Do what a plain `kill` of processes of this session would do; return whether it was one."""
    wanted = parse_kill(command)
    return wanted is not None and processes.signal(wanted.pids, wanted.signal)


def _parse_signal(name: str) -> int | None:
    number = parse_whole_number(name)
    if number is not None:
        return number if number < signal.NSIG else None
    by_name = {one.name: one.value for one in signal.Signals}
    return by_name.get(f"SIG{name.removeprefix('SIG')}")


def find_killer(processes: ProcessTable) -> "BackgroundKiller | None":
    """Return what a command needs that may want to end or list background commands, if any run."""
    return BackgroundKiller(processes) if processes.list_background() else None


class BackgroundKiller:
    """Answers the requests of the functions for the background commands of a session."""

    functions = _FUNCTIONS
    """The code that a command needs before it, to send such requests."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes

    def answer(self, words: Sequence[str]) -> str:
        """Signal what the words name. Return `?` if that is nothing of this session.

        After `kill`, return the words that are left for the shell's own."""
        name, *rest = words
        if name == "kill":
            return self._kill(rest)
        if name in ("pgrep", "lsof"):
            found = self._find_asked(name, rest)
            return " ".join(map(str, sorted(found))) or _UNKNOWN
        if name == "ps":
            return self._list(rest) or _UNKNOWN
        number, options, names = _split_options(rest)
        if number is None or len(names) != 1:
            return _UNKNOWN
        match name:
            case "fuser" if "k" in options:
                number = signal.SIGKILL if number == signal.SIGTERM else number
                found = self._find_listeners(names[0])
            case "pkill" | "killall":
                found = self._find_by_name(names[0], options, is_exact=name == "killall")
            case _:
                return _UNKNOWN
        process_tree.signal_processes(found, number)
        return "" if found else _UNKNOWN

    def _list(self, words: Sequence[str]) -> str:
        """Return the rows that the command's own `ps` would lack."""
        found = [pid for pid in self._find() if not _shares_namespace(pid)]
        match words:
            case ["-p", wanted]:
                shells = (one.pid for one in self._processes.list_background() if found)
                found, letters = [pid for pid in {*found, *shells} if str(pid) == wanted], ""
            case [letters] if _EVERY_PROCESS.fullmatch(letters):
                pass
            case _:
                return ""
        row = next(row for letter, row in _ROWS.items() if letter in letters)
        named = ((pid, _read_name(pid, is_full=True)) for pid in sorted(found))
        return _SEPARATOR.join(
            row.format(pid=pid, words=re.sub(r"[\n\x1f]", " ", words)) for pid, words in named
        )

    def _find_asked(self, name: str, words: Sequence[str]) -> list[int]:
        """Return the processes that `pgrep` or `lsof -t -i` asks for, without any other option."""
        if name == "lsof":
            found = _LSOF.fullmatch(" ".join(words))
            return self._find_listeners(found["port"]) if found else []
        _, options, names = _split_options(words)
        if len(names) != 1 or set(options) - set("fx"):
            return []
        return self._find_by_name(names[0], options, is_exact=False)

    def _kill(self, words: Sequence[str]) -> str:
        plain = " ".join(word.removeprefix("-") if at else word for at, word in enumerate(words))
        if "--" in words:
            at = words.index("--")
            groups = [word.removeprefix("-") for word in words[at + 1 :]]
            plain = " ".join([*words[:at], *groups])
        wanted = parse_kill(f"kill {plain}")
        if wanted is None:
            return _UNKNOWN
        known = {started.pid for started in self._processes.list_background()} | set(self._find())
        ours = [pid for pid in wanted.pids if pid in known]
        process_tree.signal_processes(ours, wanted.signal)
        others = [str(pid) for pid in wanted.pids if pid not in known]
        if not ours:
            return _UNKNOWN
        return f"-{wanted.signal} {' '.join(others)}" if others else ""

    def _find(self) -> list[int]:
        """Return the processes of all background commands."""
        tags = {started.tag for started in self._processes.list_background()}
        return [pid for tag in tags for pid in process_tree.find_processes(tag)]

    def _find_by_name(self, pattern: str, options: str, *, is_exact: bool) -> list[int]:
        wanted = re.compile(re.escape(pattern)) if is_exact else _compile_pattern(pattern)
        if wanted is None:
            return []
        matches = wanted.fullmatch if is_exact or "x" in options else wanted.search
        is_full = "f" in options and not is_exact
        return [pid for pid in self._find() if matches(_read_name(pid, is_full=is_full))]

    def _find_listeners(self, address: str) -> list[int]:
        if not (found := _PORT.fullmatch(address)):
            return []
        pids, port = self._find(), int(found["port"])
        sockets = {f"socket:[{inode}]" for pid in pids for inode in _list_inodes(pid, port)}
        return [pid for pid in pids if sockets & set(_list_files(pid))]


def _split_options(words: Sequence[str]) -> tuple[int | None, str, list[str]]:
    """Return the signal (None if unknown), the letters of the options, and the other words."""
    number: int | None = signal.SIGTERM
    options, names, is_signal = "", [], False
    for word in words:
        if is_signal or re.fullmatch(r"-(?:[0-9]+|[A-Z]{3,}[0-9]*)", word):
            number, is_signal = _parse_signal(word.removeprefix("-")), False
        elif word.startswith("--signal="):
            number = _parse_signal(word.removeprefix("--signal="))
        elif word in ("--signal", "-s"):
            is_signal = True
        elif word == "-n" or word == "tcp":
            continue
        elif word.startswith("-"):
            options += {"--full": "f", "--exact": "x", "--kill": "k"}.get(word, word[1:])
        else:
            names.append(word)
    return number, options, names


def _compile_pattern(pattern: str) -> "re.Pattern[str] | None":
    """Return a simple pattern of pkill; None for one that might take long, or mean more."""
    parts, at = [], 0
    for found in _PATTERN_PART.finditer(pattern):
        if found.start() != at:
            return None
        at = found.end()
        escaped, one = found["escaped"], found["one"]
        parts.append(re.escape(escaped) if escaped else one or found[0])
    if at != len(pattern) or not pattern or parts.count(".*") > _WILDCARDS_MAX:
        return None
    return re.compile("".join(parts))


def _read_name(pid: int, *, is_full: bool) -> str:
    with (
        suppress(OSError),
        Path(f"/proc/{pid}/{'cmdline' if is_full else 'comm'}").open("rb") as file,
    ):
        words = file.read(_CMDLINE_BYTES).decode("utf-8", "replace")
        return words.replace("\0", " ").strip()
    return ""


def _shares_namespace(pid: int) -> bool:
    """Return whether a process is visible to all processes of this machine."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
    return False


def _list_inodes(pid: int, port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port in the network of a process."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            text = Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii")
            rows = [line.split() for line in text.splitlines()[1:]]
            for row in rows:
                if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                    yield row[9]


def _list_files(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())
