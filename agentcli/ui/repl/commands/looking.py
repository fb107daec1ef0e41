"""Commands that show something: cards, figures, changes, background commands, settings."""

import asyncio
import time
from pathlib import Path

from agentcli.app.context import contents
from agentcli.machine.git import PLAIN_DIFF, git
from agentcli.machine.numbers import whole_number
from agentcli.machine.plain import visible
from agentcli.settings import settings_file
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.words import counted
from agentcli.ui.context import chart
from agentcli.ui.lines import short_path
from agentcli.ui.render.escape import escape
from agentcli.ui.render.summary import elapsed
from agentcli.ui.repl.desk import Desk, SlashCommand

UNTRACKED_SHOWN = 20


def commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="show",
            usage="N [--model]",
            help="a card, whole, or what the model got of it",
            run=_show,
        ),
        SlashCommand(name="context", usage="", help="what fills the model's window", run=_context),
        SlashCommand(name="cost", usage="", help="tokens and money so far", run=_cost),
        SlashCommand(name="diff", usage="[PATH]", help="what has changed, by git", run=_diff),
        SlashCommand(
            name="bg",
            usage="[stop PID]",
            help="commands in the background, or stop one",
            run=_background,
            complete=lambda desk: [("stop", "and its number")],
        ),
        SlashCommand(
            name="thinking",
            usage="on|off",
            help="show what the model thinks",
            run=_thinking,
            complete=lambda desk: [("on", ""), ("off", "")],
        ),
        SlashCommand(name="config", usage="", help="the settings in use", run=_config),
    ]


async def _show(desk: Desk, rest: str) -> None:
    words = rest.split()
    named = [word for word in words if word != "--model"]
    number = whole_number(named[0]) if len(named) == 1 else None
    if number is None:
        raise UsageError("which card?", hint="/show 7   or, as the model got it: /show 7 --model")
    desk.print(desk.stage.story.cards.show(number, for_model="--model" in words))


async def _context(desk: Desk, rest: str) -> None:
    session = desk.session
    found = contents(
        session.facts,
        session=session.place.id,
        tools=session.catalogue.toolset.declared,
        window_tokens=session.window(),
    )
    desk.say("\n".join(chart(found)), "dim")


async def _cost(desk: Desk, rest: str) -> None:
    tally = desk.stage.story.tally
    usage, broken_off = tally.usage, tally.spending.broken_off
    cached = 100 * usage.cache_read_tokens / usage.prompt_tokens if usage.prompt_tokens else 0
    desk.table(
        [
            ("requests", str(tally.spending.requests)),
            *([("broken off", counted(broken_off, "attempt"))] if broken_off else []),
            ("tokens in", f"{usage.prompt_tokens} ({cached:.0f} % from the cache)"),
            ("tokens out", f"{usage.output_tokens} ({usage.reasoning_tokens} thinking)"),
            ("model time", elapsed(tally.model_s)),
            ("cost", tally.spending.cost),
        ]
    )


async def _diff(desk: Desk, rest: str) -> None:
    try:
        patch, new = await asyncio.to_thread(_changes, desk.settings.workspace, rest)
    except SettingsError as error:
        is_none = "not a git repository" in str(error)
        why = "this folder is in no git repository" if is_none else str(error)
        raise UsageError(why, hint="/rewind lists what calls have changed") from None
    if patch.strip():
        desk.print(desk.stage.patch(patch))
    if new:
        desk.say(f"not tracked: {', '.join(map(escape, new))}", "dim")
    if not patch.strip() and not new:
        desk.say("nothing has changed since the last commit", "dim")


def _changes(workspace: Path, path: str) -> tuple[str, list[str]]:
    """Since the last commit, or since there is none: a patch, and files git does not know."""
    only = ("--", path) if path else ()
    if not git("rev-parse", "--is-inside-work-tree", cwd=workspace).startswith("true"):
        raise SettingsError("this is not a work tree of git", hint="!git init")
    has_commit = git("rev-list", "--max-count=1", "--all", cwd=workspace).strip()
    since = "HEAD" if has_commit else "--cached"
    patch = git("diff", *PLAIN_DIFF, since, *only, cwd=workspace)
    new = git("ls-files", "--others", "--exclude-standard", "-z", *only, cwd=workspace)
    is_known = patch or new or (workspace / path).exists()
    if not is_known and not git("ls-files", *only, cwd=workspace):
        raise UsageError(f"there is no file {path}", hint="/diff shows all that has changed")
    return patch, [name for name in new.split("\0") if name][:UNTRACKED_SHOWN]


async def _background(desk: Desk, rest: str) -> None:
    match rest.split():
        case []:
            _list_background(desk)
        case ["stop"]:
            raise UsageError("which one?", hint="/bg lists them")
        case ["stop", named]:
            _stop(desk, named)
        case _:
            raise UsageError(f"{rest} is nothing to do with a command", hint="/bg stop PID")


def _stop(desk: Desk, named: str) -> None:
    pid = whole_number(named)
    if pid is None:
        raise UsageError(f"{named} is not the pid of a command", hint="/bg lists them")
    if not desk.session.stop_command(pid):
        raise UsageError(f"no command with pid {pid} is running", hint="/bg lists them")
    desk.say(f"told {pid} to stop", "dim")


def _list_background(desk: Desk) -> None:
    rows = [
        (
            str(one.pid),
            f"{visible(one.command)}\n"
            f"for {elapsed(time.monotonic() - one.since)}, log {short_path(Path(one.log_path))}",
        )
        for one in desk.session.in_background()
    ]
    desk.table(rows)
    if not rows:
        desk.say("no command runs in the background", "dim")


async def _thinking(desk: Desk, rest: str) -> None:
    if rest not in ("on", "off"):
        raise UsageError("say on or off", hint="/thinking on")
    desk.stage.story.shows_thinking = rest == "on"
    desk.say(f"thinking is {'shown' if rest == 'on' else 'not shown'}", "dim")


async def _config(desk: Desk, rest: str) -> None:
    settings = desk.session.settings
    rows = [("file", short_path(settings_file())), ("workspace", short_path(settings.workspace))]
    rows += [("model", desk.session.model.name), ("mode", desk.mode)]
    names = ("sandbox", "max_turns", "max_cost", "theme", "notify", "editing")
    values = [(name, getattr(settings, name)) for name in names]
    rows += [(name, "not set" if value is None else str(value)) for name, value in values]
    desk.table(rows)
