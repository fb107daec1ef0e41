"""Completion for shells: a script with all names, so that pressing Tab starts no Python.

The names come from the commands themselves, in a fixed text. After an update it is installed again.
"""

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer

from agentcli.session.features import COMMANDS
from agentcli.system.files import locate_home
from agentcli.types.errors import SettingsError, UsageError
from agentcli.ui.streams import write_err, write_out

Shell = Literal["bash", "zsh", "fish"]
HELP_PAGE = Path(__file__).parents[2] / "cli/help/agentcli.txt"
"""What `agentcli --help` prints, shipped as data."""
SHELLS: tuple[Shell, ...] = ("bash", "zsh", "fish")


class CommandWords(NamedTuple):
    """What can follow a command."""

    path: str
    """The words of the command, such as `mcp add`; empty for the program itself."""
    summary: str
    words: tuple[str, ...]
    """Subcommands and options."""


def find_shell(named: str | None) -> Shell:
    """Return the named shell, or else the user's own. Raise UsageError."""
    word = named or Path(os.environ.get("SHELL", "")).name
    for shell in SHELLS:
        if shell == word:
            return shell
    problem = f"there is no completion for {word}" if word else "the shell is not known"
    raise UsageError(problem, hint=f"agentcli completion install {'|'.join(SHELLS)}")


def build_completion(shell: Shell) -> str:
    build = {"bash": _build_bash, "zsh": _build_zsh, "fish": _build_fish}[shell]
    return build(list(list_commands()))


def install_completion(shell: Shell) -> None:
    """Write the completion where the shell looks for it. Raise SettingsError."""
    path = _find_path(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(build_completion(shell), encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot write {path}: {error.strerror}", hint=f"agentcli completion show {shell}"
        ) from error
    write_out(f"{path}\n")
    write_err(f"{_NEXT[shell].format(folder=path.parent)}\n")


_NEXT: dict[Shell, str] = {
    "bash": "It works in new shells, if bash-completion is installed.",
    "zsh": "Have this in ~/.zshrc: fpath=({folder} $fpath); autoload -Uz compinit && compinit",
    "fish": "It works in new shells.",
}


def _find_path(shell: Shell) -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME") or locate_home() / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or locate_home() / ".config")
    return {
        "bash": data / "bash-completion/completions/agentcli",
        "zsh": data / "agentcli/zsh/_agentcli",
        "fish": config / "fish/completions/agentcli.fish",
    }[shell]


# The names


def list_commands() -> Iterator[CommandWords]:
    """Yield the program and all commands below it."""
    yield CommandWords("", "", (*COMMANDS, "--help", "--version", *_list_main_options()))
    for name, entry in COMMANDS.items():
        command = typer.main.get_command(getattr(import_module(entry.module), entry.app))
        yield from _walk(name, command, summary=entry.summary)


def _walk(path: str, command: Any, *, summary: str) -> Iterator[CommandWords]:
    below = getattr(command, "commands", {})
    options = (name for one in command.params for name in (*one.opts, *one.secondary_opts))
    shown = (name for name in options if name.startswith("--"))
    yield CommandWords(path, summary, (*below, *shown, "--help"))
    for name, one in below.items():
        yield from _walk(f"{path} {name}", one, summary=one.get_short_help_str(limit=70))


def _list_main_options() -> tuple[str, ...]:
    """Return the options of the interactive session, which the help of the program lists."""
    page = HELP_PAGE.read_text(encoding="utf-8")
    options = re.findall(r"^\s*(?:-\w, )?(--[a-z-]+)", page, re.MULTILINE)
    return tuple(name for name in dict.fromkeys(options) if name not in ("--help", "--version"))


# The scripts. Names of commands and options are letters and dashes: they need no quotes.


def _build_bash(commands: list[CommandWords]) -> str:
    cases = "\n".join(f'    "{one.path}") words="{" ".join(one.words)}" ;;' for one in commands)
    paths = "|".join(f'"{one.path}"' for one in commands if one.path)
    return f"""# Completion of agentcli for bash, written by `agentcli completion`.
_agentcli() {{
  local path= words= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "${{path:+$path }}$word" in
      {paths}) path="${{path:+$path }}$word" ;;
    esac
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _agentcli agentcli
"""


def _build_zsh(commands: list[CommandWords]) -> str:
    cases = "\n".join(f'    "{one.path}") names=({" ".join(one.words)}) ;;' for one in commands)
    paths = "|".join(f'"{one.path}"' for one in commands if one.path)
    return f"""#compdef agentcli
# Completion of agentcli for zsh, written by `agentcli completion`.
_agentcli() {{
  local path_= word
  local -a names
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "${{path_:+$path_ }}$word" in
      {paths}) path_="${{path_:+$path_ }}$word" ;;
    esac
  done
  case "$path_" in
{cases}
  esac
  compadd -- $names
  _files
}}
_agentcli "$@"
"""


def _build_fish(commands: list[CommandWords]) -> str:
    lines = ["# Completion of agentcli for fish, written by `agentcli completion`."]
    complete = "complete -c agentcli"
    summaries = {one.path: one.summary for one in commands}
    for one in commands:
        path = one.path.split()
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path)
        where = seen or "__fish_use_subcommand"
        for word in one.words:
            if word.startswith("--"):
                lines.append(f"{complete} -n '{where}' -l {word[2:]}")
            else:
                summary = summaries.get(f"{one.path} {word}".strip(), "").replace("'", "’")
                lines.append(f"{complete} -n '{where}' -a {word} -d '{summary}'")
    return "\n".join(lines) + "\n"
