"""Commands that show something: cards, figures, changes, background commands, settings."""

import asyncio
import base64
import platform
import re
import subprocess
import time
from pathlib import Path

from agentcli import __version__
from agentcli.features.context.engine import measure_context
from agentcli.features.context.render import render_chart
from agentcli.settings import get_settings_file
from agentcli.system import own_process
from agentcli.system.git import PLAIN_DIFF, run_git
from agentcli.system.parsing import parse_whole_number
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.words import pluralize
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import format_elapsed, shorten_home
from agentcli.ui.repl.commands.registry import CommandHost, SlashCommand

UNTRACKED_SHOWN = 20


def list_inspect_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="show",
            usage="N [--model]",
            help="a card, whole, or what the model got of it",
            run=_show_card,
        ),
        SlashCommand(
            name="context", usage="", help="what fills the model's window", run=_show_context
        ),
        SlashCommand(name="cost", usage="", help="tokens and money so far", run=_show_cost),
        SlashCommand(name="diff", usage="[PATH]", help="what has changed, by git", run=_show_diff),
        SlashCommand(
            name="bg",
            usage="[stop PID]",
            help="commands in the background, or stop one",
            run=_handle_background,
            list_arguments=lambda desk: [("stop", "and its number")],
        ),
        SlashCommand(
            name="thinking",
            usage="on|off",
            help="show what the model thinks",
            run=_toggle_thinking,
            list_arguments=lambda desk: [("on", ""), ("off", "")],
        ),
        SlashCommand(name="config", usage="", help="the settings in use", run=_show_config),
    ]


async def _show_card(host: CommandHost, rest: str) -> None:
    words = rest.split()
    named = [word for word in words if word != "--model"]
    number = parse_whole_number(named[0]) if len(named) == 1 else None
    if number is None:
        raise UsageError("which card?", hint="/show 7   or, as the model got it: /show 7 --model")
    host.print(host.renderer.transcript.cards.render_card(number, for_model="--model" in words))


async def _show_context(host: CommandHost, rest: str) -> None:
    session = host.session
    found = measure_context(
        session.facts,
        session=session.paths.id,
        tools=session.catalogue.toolset.declared,
        window_tokens=session.model_switch.get_window(),
    )
    host.say("\n".join(render_chart(found)), "dim")


async def _show_cost(host: CommandHost, rest: str) -> None:
    tally = host.renderer.transcript.tally
    usage, broken_off = tally.usage, tally.spending.broken_off
    cached = 100 * usage.cache_read_tokens / usage.prompt_tokens if usage.prompt_tokens else 0
    host.print_table(
        [
            ("requests", str(tally.spending.requests)),
            *([("broken off", pluralize(broken_off, "attempt"))] if broken_off else []),
            ("tokens in", f"{usage.prompt_tokens} ({cached:.0f} % from the cache)"),
            ("tokens out", f"{usage.output_tokens} ({usage.reasoning_tokens} thinking)"),
            ("model time", format_elapsed(tally.model_s)),
            ("cost", tally.spending.cost_text),
        ]
    )


async def _show_diff(host: CommandHost, rest: str) -> None:
    try:
        patch, new = await asyncio.to_thread(_read_changes, host.settings.workspace, rest)
    except SettingsError as error:
        is_none = "not a git repository" in str(error)
        why = "this folder is in no git repository" if is_none else str(error)
        raise UsageError(why, hint="/rewind lists what calls have changed") from None
    if patch.strip():
        host.print(host.renderer.render_patch(patch))
    if new:
        host.say(f"not tracked: {', '.join(map(escape, new))}", "dim")
    if not patch.strip() and not new:
        host.say("nothing has changed since the last commit", "dim")


def _read_changes(workspace: Path, path: str) -> tuple[str, list[str]]:
    """Return the patch since the last commit, or of the index if there is none, and new files."""
    only = ("--", path) if path else ()
    if not run_git("rev-parse", "--is-inside-work-tree", cwd=workspace).startswith("true"):
        raise SettingsError("this is not a work tree of git", hint="!git init")
    has_commit = run_git("rev-list", "--max-count=1", "--all", cwd=workspace).strip()
    since = "HEAD" if has_commit else "--cached"
    patch = run_git("diff", *PLAIN_DIFF, since, *only, cwd=workspace)
    new = run_git("ls-files", "--others", "--exclude-standard", "-z", *only, cwd=workspace)
    is_known = patch or new or (workspace / path).exists()
    if not is_known and not run_git("ls-files", *only, cwd=workspace):
        raise UsageError(f"there is no file {path}", hint="/diff shows all that has changed")
    return patch, [name for name in new.split("\0") if name][:UNTRACKED_SHOWN]


async def _handle_background(host: CommandHost, rest: str) -> None:
    match rest.split():
        case []:
            _list_background(host)
        case ["stop"]:
            raise UsageError("which one?", hint="/bg lists them")
        case ["stop", named]:
            _stop_command(host, named)
        case _:
            raise UsageError(f"{rest} is nothing to do with a command", hint="/bg stop PID")


def _stop_command(host: CommandHost, named: str) -> None:
    pid = parse_whole_number(named)
    if pid is None:
        raise UsageError(f"{named} is not the pid of a command", hint="/bg lists them")
    if not host.session.builtin_tools.stop_command(pid):
        raise UsageError(f"no command with pid {pid} is running", hint="/bg lists them")
    host.say(f"told {pid} to stop", "dim")


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
        host.say("no command runs in the background", "dim")


async def _toggle_thinking(host: CommandHost, rest: str) -> None:
    if rest not in ("on", "off"):
        raise UsageError("say on or off", hint="/thinking on")
    host.renderer.transcript.shows_thinking = rest == "on"
    host.say(f"thinking is {'shown' if rest == 'on' else 'not shown'}", "dim")


async def _show_config(host: CommandHost, rest: str) -> None:
    settings = host.session.settings
    rows = [
        ("file", shorten_home(get_settings_file())),
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


# Commands that take something out of the session: copy, export, feedback


OSC52_BYTES_MAX = 74_000
CLIPBOARDS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
    ("clip.exe",),
)


def list_copy_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="copy",
            usage="[N|code|all]",
            help="the last answer, a card, its code, or all",
            run=_copy,
            list_arguments=lambda desk: [("code", "the last block of code"), ("all", "")],
        ),
        SlashCommand(
            name="export", usage="FILE", help="the transcript as a text file", run=_export
        ),
        SlashCommand(
            name="feedback",
            usage="",
            help="what to send when something is wrong",
            run=_show_feedback,
        ),
    ]


async def _copy(host: CommandHost, rest: str) -> None:
    text = _select_text(host, rest)
    if not text.strip():
        raise UsageError("there is nothing to copy yet", hint="/copy after an answer")
    lines = text.count("\n") + (not text.endswith("\n"))
    host.say(
        f"copied {lines} {'line' if lines == 1 else 'lines'} {_copy_to_clipboard(host, text)}",
        "dim",
    )


def _select_text(host: CommandHost, rest: str) -> str:
    progress = host.renderer.transcript
    if (number := parse_whole_number(rest)) is not None:
        return progress.cards.render_card(number, for_model=True)
    if rest == "code":
        blocks = find_code_blocks(progress.answer)
        if not blocks:
            raise UsageError("the last answer has no block of code", hint="/copy")
        return blocks[-1]
    if rest == "all":
        return progress.render_plain()
    if rest:
        raise UsageError(f"copy what? {rest} is nothing", hint="/copy [N|code|all]")
    return progress.answer


def _copy_to_clipboard(host: CommandHost, text: str) -> str:
    """Copy the text, and return how it was copied."""
    for command in CLIPBOARDS:
        if _feed_program(command, text, host.settings.workspace):
            return f"with {command[0]}"
    data = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if len(data) > OSC52_BYTES_MAX:
        raise UsageError("too much for a terminal's clipboard", hint="/export FILE")
    if not host.write_to_terminal(f"\x1b]52;c;{data}\x1b\\"):
        raise UsageError("there is no clipboard here", hint="/export FILE")
    return "through the terminal (OSC 52), which may not allow it"


def _feed_program(command: tuple[str, ...], text: str, workspace: Path) -> bool:
    try:
        # Not `run`: a program that holds the clipboard stays, and keeps its streams open.
        child = own_process.start(
            command,
            beside=workspace,
            env=own_process.user_environment(workspace),
            stdin=subprocess.PIPE,
        )
        child.communicate(text.encode("utf-8", "replace"), timeout=3)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return child.returncode == 0


async def _export(host: CommandHost, rest: str) -> None:
    if not rest:
        raise UsageError("to which file?", hint="/export session.md")
    try:
        path = _write_new(host.settings.workspace, rest, host.renderer.transcript.render_plain())
    except FileExistsError:
        raise UsageError(f"{rest} exists already", hint="name a new file") from None
    except OSError as error:
        raise UsageError(f"cannot write {rest}: {error.strerror}") from None
    host.say(f"written to {path}", "dim")


def _write_new(workspace: Path, named: str, text: str) -> Path:
    path = workspace / Path(named).expanduser()
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return path


async def _show_feedback(host: CommandHost, rest: str) -> None:
    place = host.session.paths
    system = f"Python {platform.python_version()}, {platform.platform(terse=True)}"
    host.print_table(
        [
            ("version", f"agentcli {__version__}, {system}"),
            ("session", place.id),
            ("log", shorten_home(place.log)),
            ("as a page", f"agentcli export {place.id} --format html"),
        ]
    )
    host.say("read what you send before you send it: only secrets are masked in it", "dim")
