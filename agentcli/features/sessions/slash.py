"""Slash commands about sessions: continue another one, name this one."""

import asyncio
import sys
from pathlib import Path

from agentcli.features.sessions.render import describe_state
from agentcli.log.sessions import SessionSummary, choose_session, list_sessions
from agentcli.system.files import resolve_directory
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import ProviderError, UsageError
from agentcli.types.events import SessionNamed
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import format_age
from agentcli.ui.repl.commands.registry import CommandHost
from agentcli.ui.repl.picker import PickerRow, pick_row
from agentcli.ui.repl.terminal import open_terminal

LISTED = 15
"""The sessions that the menu lists."""


async def run_resume(host: CommandHost, rest: str) -> None:
    if rest:
        past = choose_session(rest, host.settings.workspace).paths
        if past.directory.samefile(host.session.paths.directory):
            raise UsageError("this is the current session", hint="/resume lists others")
        await host.renew(resume=past)
        host.say(f"Session {past.id}", "dim")
        return
    found = _list_other_sessions(host)
    if not found:
        host.say("No other sessions in this project.", "dim")
        return
    chosen = await host.choose("Resume", [build_picker_row(one) for one in found])
    if chosen is not None:
        await run_resume(host, found[chosen].id)


def list_resume_arguments(host: CommandHost) -> list[tuple[str, str]]:
    return [
        (one.id, f"{format_age(one.last)}  {escape(one.title)}")
        for one in _list_other_sessions(host)[:LISTED]
    ]


def _list_other_sessions(host: CommandHost) -> list[SessionSummary]:
    found = list_sessions(workspace=host.settings.workspace)
    return [one for one in found if one.turns and one.id != host.session.paths.id]


async def run_name(host: CommandHost, rest: str) -> None:
    name = rest or await _draft_name(host)
    host.session.journal.append(SessionNamed(name=name))
    host.say(f"Named this session {escape(name)}", "dim")


async def _draft_name(host: CommandHost) -> str:
    """Return a name by the small model. Raise UsageError if there is nothing to name yet."""
    client = host.session.model_client
    if not host.session.journal.history.list_user_messages():
        raise UsageError("there is nothing to name this session by yet", hint="/name NAME")
    try:
        name = await host.wait_for("Choosing a name", client.draft_title())
    except ProviderError as error:
        raise UsageError(f"the model gave no name: {error}", hint="/name NAME") from None
    if not name:
        raise UsageError("the model gave no name", hint="/name NAME")
    return show_controls(name)


# A list to choose the session to continue from


def pick_session(workspace: Path) -> str:
    """Return the id of the chosen session.

    Raise UsageError if there is none, or none was chosen.
    """
    directory = resolve_directory(workspace)
    found = [one for one in list_sessions(workspace=directory) if one.turns]
    if not found:
        raise UsageError(f"no sessions in {directory}", hint="agentcli sessions list --all")
    rows = [build_picker_row(one) for one in found]
    terminal = open_terminal(sys.stdin, sys.stdout)
    chosen = asyncio.run(pick_row("Resume", rows, terminal=terminal))
    if chosen is None:
        raise UsageError("no session was chosen", hint="agentcli --resume ID")
    return found[chosen].id


def build_picker_row(one: SessionSummary) -> PickerRow:
    facts = " · ".join((one.id, describe_state(one), one.model, f"{one.mode} mode"))
    return PickerRow(label=format_session_row(one), preview=f"{facts}\n{one.first_prompt}")


def format_session_row(one: SessionSummary) -> str:
    turns = f"{one.turns} {'turn' if one.turns == 1 else 'turns'}"
    return f"{format_age(one.last):>8}  {turns:<9} {show_controls(one.title)}"
