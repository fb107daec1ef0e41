"""Commands that show something: cards, figures, changes, background commands, settings."""

import asyncio
import base64
import re
import time
from pathlib import Path

from agentcli import __version__
from agentcli.settings import SETTINGS_FILE, get_user_directory
from agentcli.system.clipboard import copy_text
from agentcli.system.files import shorten_home
from agentcli.system.git import PLAIN_DIFF, run_git
from agentcli.system.plain_text import show_controls, to_plain_text
from agentcli.system.strict_json import parse_whole_number
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.words import pluralize
from agentcli.ui.crash import describe_machine
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import format_elapsed
from agentcli.ui.repl.commands.registry import CommandHost, SlashCommand, WrongArguments
from agentcli.ui.repl.picker import PickerRow

UNTRACKED_SHOWN = 20
FOUND_MAX = 200
"""The most lines that a search lists, the last ones."""


def list_inspect_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="show",
            usage="N [--model]",
            help="show a card in full, or as the model got it",
            run=_show_card,
        ),
        SlashCommand(
            name="diff", usage="[PATH]", help="show changes since the last commit", run=_show_diff
        ),
        SlashCommand(
            name="bg",
            usage="[stop PID]",
            help="list background commands, or stop one",
            run=_handle_background,
            list_arguments=lambda host: [("stop", "stop the command with this pid")],
        ),
        SlashCommand(
            name="thinking",
            usage="[on|off]",
            help="show or hide the model's thinking",
            run=_toggle_thinking,
            list_arguments=lambda host: [("on", ""), ("off", "")],
        ),
        SlashCommand(
            name="find", usage="WORDS", help="search the transcript", run=_find_in_transcript
        ),
        SlashCommand(name="config", usage="", help="show the settings", run=_show_config),
        SlashCommand(
            name="copy",
            usage="[N|code|all]",
            help="copy the last answer, a card, its code or everything",
            run=_copy,
            list_arguments=lambda host: [
                ("code", "the last code block"),
                ("all", "the whole transcript"),
            ],
        ),
        SlashCommand(
            name="feedback",
            usage="",
            help="show what to send with a bug report",
            run=_show_feedback,
        ),
    ]


async def _find_in_transcript(host: CommandHost, rest: str) -> None:
    """List the lines with all the words, and show the transcript from the chosen one on."""
    words = rest.lower().split()
    if not words:
        raise WrongArguments
    text = host.renderer.transcript.render_full()
    lines = to_plain_text(text).split("\n")
    found = [
        at
        for at, line in enumerate(lines)
        if all(word in line.lower() for word in words) and not line.startswith("> /find ")
    ]
    if not found:
        raise UsageError(f"nothing in the transcript has: {rest}", hint="/find OTHER WORDS")
    found = found[-FOUND_MAX:]
    rows = [
        PickerRow(
            label=lines[at].strip(),
            preview="\n".join(lines[max(0, at - 2) : at + 3]),
        )
        for at in found
    ]
    title = f"{pluralize(len(found), 'line')} with {rest}"
    chosen = await host.choose(title, rows, selected=len(rows) - 1)
    if chosen is not None:
        await host.page(text, line=found[chosen] + 1)


async def _show_card(host: CommandHost, rest: str) -> None:
    words = rest.split()
    named = [word for word in words if word != "--model"]
    number = parse_whole_number(named[0]) if len(named) == 1 else None
    if number is None:
        raise WrongArguments
    host.print(host.renderer.transcript.cards.render_card(number, for_model="--model" in words))


async def _show_diff(host: CommandHost, rest: str) -> None:
    try:
        patch, new = await asyncio.to_thread(_read_changes, host.settings.workspace, rest)
    except SettingsError as error:
        is_none = "not a git repository" in str(error)
        why = "this project is not in a git repository" if is_none else str(error)
        raise UsageError(why, hint="/undo list shows the changes of the agent") from None
    if patch.strip():
        host.print(host.renderer.render_patch(patch))
    if new:
        host.say(f"Untracked: {', '.join(map(escape, new))}", "dim")
    if not patch.strip() and not new:
        host.say("No changes since the last commit.", "dim")


def _read_changes(workspace: Path, path: str) -> tuple[str, list[str]]:
    """Return the patch since the last commit, or of the index if there is none, and new files."""
    only = ("--", path) if path else ()
    if not run_git("rev-parse", "--is-inside-work-tree", cwd=workspace).startswith("true"):
        raise SettingsError("this is not a git work tree", hint="!git init")
    has_commit = run_git("rev-list", "--max-count=1", "--all", cwd=workspace).strip()
    since = "HEAD" if has_commit else "--cached"
    patch = run_git("diff", *PLAIN_DIFF, since, *only, cwd=workspace)
    new = run_git("ls-files", "--others", "--exclude-standard", "-z", *only, cwd=workspace)
    is_known = patch or new or (workspace / path).exists()
    if not is_known and not run_git("ls-files", *only, cwd=workspace):
        raise UsageError(f"no file {path}", hint="/diff shows all changes")
    return patch, [name for name in new.split("\0") if name][:UNTRACKED_SHOWN]


async def _handle_background(host: CommandHost, rest: str) -> None:
    match rest.split():
        case []:
            _list_background(host)
        case ["stop"]:
            raise WrongArguments
        case ["stop", named]:
            _stop_command(host, named)
        case _:
            raise WrongArguments


def _stop_command(host: CommandHost, named: str) -> None:
    pid = parse_whole_number(named)
    if pid is None:
        raise UsageError(f"{named} is not a pid", hint="/bg lists them")
    if not host.session.builtin_tools.stop_command(pid):
        raise UsageError(f"no command with pid {pid} is running", hint="/bg lists them")
    host.say(f"Stopping {pid}", "dim")


def _list_background(host: CommandHost) -> None:
    rows = [
        (
            str(one.pid),
            f"{show_controls(one.command)}\n"
            f"for {format_elapsed(time.monotonic() - one.since)}, log "
            f"{shorten_home(Path(one.log_path))}",
        )
        for one in host.session.builtin_tools.list_background()
    ]
    host.print_table(rows)
    if not rows:
        host.say("No background commands.", "dim")


async def _toggle_thinking(host: CommandHost, rest: str) -> None:
    if rest not in ("", "on", "off"):
        raise WrongArguments
    transcript = host.renderer.transcript
    if rest:
        transcript.shows_thinking = rest == "on"
    host.say(f"Thinking: {'on' if transcript.shows_thinking else 'off'}", "dim")


async def _show_config(host: CommandHost, rest: str) -> None:
    settings = host.session.settings
    rows = [
        ("file", shorten_home(get_user_directory() / SETTINGS_FILE)),
        ("workspace", shorten_home(settings.workspace)),
    ]
    rows += [("model", host.session.model.name), ("mode", host.mode)]
    names = ("sandbox", "max_turns", "max_cost", "theme", "notify", "editing")
    values = [(name, getattr(settings, name)) for name in names]
    rows += [(name, "not set" if value is None else str(value)) for name, value in values]
    host.print_table(rows)


# Code blocks of a Markdown text, unchanged


_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})([^\n]*)$")


def find_code_blocks(text: str) -> list[str]:
    blocks: list[str] = []
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence:
            if found:
                fence, lines = found[2], []
        elif found and found[2].startswith(fence) and not found[3].strip():
            blocks.append("\n".join(lines) + "\n")
            fence = ""
        else:
            lines.append(line)
    return blocks


# Commands that take something out of the session: copy, feedback


OSC52_BYTES_MAX = 74_000


async def _copy(host: CommandHost, rest: str) -> None:
    text = _select_text(host, rest)
    if not text.strip():
        raise UsageError("nothing to copy yet", hint="/copy after an answer")
    lines = text.count("\n") + (not text.endswith("\n"))
    host.say(
        f"Copied {pluralize(lines, 'line')} ({_copy_to_clipboard(host, text)})",
        "dim",
    )


def _select_text(host: CommandHost, rest: str) -> str:
    progress = host.renderer.transcript
    if (number := parse_whole_number(rest)) is not None:
        return progress.cards.render_card(number, for_model=True)
    if rest == "code":
        blocks = find_code_blocks(progress.answer)
        if not blocks:
            raise UsageError("the last answer has no code block", hint="/copy")
        return blocks[-1]
    if rest == "all":
        return progress.render_plain()
    if rest:
        raise WrongArguments
    return progress.answer


def _copy_to_clipboard(host: CommandHost, text: str) -> str:
    """Copy the text. Return what copied it, for the user."""
    if program := copy_text(text, host.settings.workspace):
        return program
    data = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if len(data) > OSC52_BYTES_MAX:
        raise UsageError("too large for the terminal's clipboard", hint="/export FILE")
    if not host.write_to_terminal(f"\x1b]52;c;{data}\x1b\\"):
        raise UsageError("no clipboard found", hint="/export FILE")
    return "OSC 52; your terminal may block it"


async def _show_feedback(host: CommandHost, rest: str) -> None:
    paths = host.session.paths
    host.print_table(
        [
            ("version", f"agentcli {__version__}, {describe_machine()}"),
            ("session", paths.id),
            ("log", shorten_home(paths.log)),
            ("as HTML", f"agentcli export {paths.id} --format html"),
        ]
    )
    host.say("Read it before you send it: only secrets are masked.", "dim")
