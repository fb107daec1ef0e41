"""Commands that show something: cards, figures, changes, background commands, settings."""

import asyncio
import time
from pathlib import Path

from agentcli.app.context import measure_context
from agentcli.machine.git import PLAIN_DIFF, run_git
from agentcli.machine.numbers import parse_whole_number
from agentcli.machine.plain import show_controls
from agentcli.settings import get_settings_file
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.words import pluralize
from agentcli.ui.context import render_chart
from agentcli.ui.lines import shorten_home
from agentcli.ui.render.escape import escape
from agentcli.ui.render.summary import format_elapsed
from agentcli.ui.repl.desk import CommandHost, SlashCommand

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
        window_tokens=session.get_window(),
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
    """Since the last commit, or since there is none: a patch, and files git does not know."""
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
    if not host.session.stop_command(pid):
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
        for one in host.session.list_background()
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
