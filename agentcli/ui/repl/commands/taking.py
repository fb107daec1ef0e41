"""Commands that carry something out of the session: copy, export, feedback."""

import base64
import platform
import subprocess
from pathlib import Path

from agentcli import __version__
from agentcli.machine import own_process
from agentcli.machine.numbers import parse_whole_number
from agentcli.types.errors import UsageError
from agentcli.ui.lines import shorten_home
from agentcli.ui.repl.code_blocks import find_code_blocks
from agentcli.ui.repl.desk import CommandHost, SlashCommand

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
    story = host.renderer.transcript
    if (number := parse_whole_number(rest)) is not None:
        return story.cards.render_card(number, for_model=True)
    if rest == "code":
        blocks = find_code_blocks(story.answer)
        if not blocks:
            raise UsageError("the last answer has no block of code", hint="/copy")
        return blocks[-1]
    if rest == "all":
        return story.render_plain()
    if rest:
        raise UsageError(f"copy what? {rest} is nothing", hint="/copy [N|code|all]")
    return story.answer


def _copy_to_clipboard(host: CommandHost, text: str) -> str:
    """How it got there."""
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
        # Not `run`: what holds a clipboard stays, and keeps the streams it was given.
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
