"""Completion scripts, made from the pages of help: they name every command and option.

The scripts need no start of the program while the user types.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import agentcli
from agentcli.types.errors import UsageError

PAGES = Path(agentcli.__file__).parent / "cli" / "help"
PROGRAM = "agentcli"
_OPTION = re.compile(r"^  (?:-\w, )?(--[a-z][a-z-]*)", re.MULTILINE)

Words = Mapping[str, list[str]]
"""By command line, such as `agentcli mcp add`: the commands and options that can follow."""


def print_script(shell: str) -> None:
    """Raise UsageError if there is no script for this shell."""
    render = _SCRIPTS.get(shell)
    if render is None:
        known = ", ".join(_SCRIPTS)
        raise UsageError(f"no completion for {shell} ({known})", hint=f"{PROGRAM} completion bash")
    sys.stdout.write(render(read_words()))


def read_words() -> Words:
    pages = {page.stem.replace("-", " "): page for page in sorted(PAGES.glob(f"{PROGRAM}*.txt"))}
    words: dict[str, list[str]] = {}
    for path, page in pages.items():
        below = [one for one in pages if one.rpartition(" ")[0] == path]
        commands = [one.rpartition(" ")[2] for one in below]
        options = _OPTION.findall(page.read_text(encoding="utf-8"))
        words[path] = [*commands, *dict.fromkeys(options)]
    return words


def _render_bash(words: Words) -> str:
    cases = "".join(
        f'        "{path}") found="{" ".join(found)}";;\n' for path, found in words.items()
    )
    return f"""# {PROGRAM} completion bash > ~/.local/share/bash-completion/completions/{PROGRAM}
_{PROGRAM}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" path="{PROGRAM}" found="" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case " {" ".join(_list_paths(words))} " in
            *" ${{path// /,}},$word "*) path="$path $word";;
        esac
    done
    case "$path" in
{cases}    esac
    COMPREPLY=($(compgen -W "$found" -- "$current"))
}}
complete -o default -F _{PROGRAM} {PROGRAM}
"""


def _list_paths(words: Words) -> Iterator[str]:
    """Yield the command lines, with commas for spaces."""
    return (path.replace(" ", ",") for path in words)


def _render_zsh(words: Words) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_render_bash(words)}"


def _render_fish(words: Words) -> str:
    lines = [f"# {PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish"]
    for path, found in words.items():
        seen = path.split()[1:]
        condition = (
            " && ".join(f"__fish_seen_subcommand_from {word}" for word in seen)
            or "__fish_use_subcommand"
        )
        for word in found:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            lines.append(f"complete -c {PROGRAM} -n '{condition}' {what}")
    return "\n".join(lines) + "\n"


_SCRIPTS: Mapping[str, Callable[[Words], str]] = {
    "bash": _render_bash,
    "zsh": _render_zsh,
    "fish": _render_fish,
}
