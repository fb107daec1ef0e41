"""A command line before it runs: what is wrong with it, what the shell reads, and how it ends.

It is taken apart only as far as it is plain. Of everything else nothing is said.
"""

import re
from pathlib import PurePath

from agentcli.system.lazy import compile_later
from agentcli.system.shell import KEEP_PIPE
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ErrorKind

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
    may_set_up = any(name in command for name in _SETS_UP)
    if not is_awaited or not (may_set_up or "|" in command):
        return ShellCommand(script=script)
    lexemes = _lex(command)
    programs = {simple.split(maxsplit=1)[0] for simple in _split_commands(lexemes)}
    only_sets_up = bool(programs) and programs <= _SETS_UP
    if "|" not in command or _SHOWS_WHAT_IS_READ.search(command):
        return ShellCommand(script=script, only_sets_up=only_sets_up)
    names = tuple(map(_name_part, _split_last_pipe(lexemes)))
    if len(names) < 2 or not all(names):
        return ShellCommand(script=script, only_sets_up=only_sets_up)
    return ShellCommand(script=script + KEEP_PIPE, pipe=names, only_sets_up=only_sets_up)


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
