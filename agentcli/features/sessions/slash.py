"""Slash commands about sessions: continue another one, name this one."""

from agentcli.features.sessions.render import LISTED, format_session_row
from agentcli.log.sessions import SessionSummary, choose_session, list_sessions
from agentcli.types.errors import UsageError
from agentcli.types.events import SessionNamed
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import format_age
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments


async def run_resume(host: CommandHost, rest: str) -> None:
    if rest:
        past = choose_session(rest, host.settings.workspace).paths
        if past.directory.samefile(host.session.paths.directory):
            raise UsageError("this is the current session", hint="/resume lists others")
        await host.renew(resume=past)
        host.say(f"Session {past.id}", "dim")
        return
    found = _list_other_sessions(host)
    shown, older = found[:LISTED], len(found[LISTED:])
    host.print_table([(one.id, escape(format_session_row(one).strip())) for one in shown])
    if older:
        host.say(f"{older} older: !!agentcli sessions list, then /resume ID", "dim")
    if not found:
        host.say("No other sessions in this project.", "dim")


def list_resume_arguments(host: CommandHost) -> list[tuple[str, str]]:
    return [
        (one.id, f"{format_age(one.last)}  {escape(one.title)}")
        for one in _list_other_sessions(host)[:LISTED]
    ]


def _list_other_sessions(host: CommandHost) -> list[SessionSummary]:
    found = list_sessions(workspace=host.settings.workspace)
    return [one for one in found if one.turns and one.id != host.session.paths.id]


async def run_name(host: CommandHost, rest: str) -> None:
    if not rest:
        raise WrongArguments
    host.session.journal.append(SessionNamed(name=rest))
    host.say(f"Named this session {escape(rest)}", "dim")
