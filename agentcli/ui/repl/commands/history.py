"""Commands about the past: other sessions, changes to undo, a conversation to compact."""

from agentcli.features.sessions.picker import LISTED, format_age, format_session_row
from agentcli.features.undo.render import (
    UndoRequest,
    apply_request,
    render_changes,
    render_remaining,
    render_report,
)
from agentcli.features.undo.session_undo import build_undo
from agentcli.log.sessions import SessionSummary, choose_session, list_sessions
from agentcli.system.parsing import parse_whole_number
from agentcli.types.errors import UsageError
from agentcli.types.events import SessionNamed
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import format_tokens
from agentcli.ui.repl.commands.registry import CommandHost, SlashCommand


def list_history_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="resume",
            usage="[SESSION]",
            help="continue another session of this folder",
            run=_resume,
            list_arguments=_list_choices,
        ),
        SlashCommand(name="name", usage="NAME", help="give this session a name", run=_name_session),
        SlashCommand(
            name="rewind",
            usage="[TURN]",
            help="take back what was changed since a turn",
            run=_rewind,
        ),
        SlashCommand(name="undo", usage="[CHANGE]", help="take back the latest change", run=_undo),
        SlashCommand(name="redo", usage="", help="put back what was taken back", run=_redo),
        SlashCommand(
            name="compact",
            usage="[--undo]",
            help="shorten the conversation, or tell it in full again",
            run=_compact,
        ),
    ]


async def _resume(host: CommandHost, rest: str) -> None:
    if rest:
        past = choose_session(rest, host.settings.workspace).paths
        if past.directory.samefile(host.session.paths.directory):
            raise UsageError("this is the session that you are in", hint="/resume lists others")
        await host.renew(resume=past)
        host.say(f"session {past.id}", "dim")
        return
    found = _list_other_sessions(host)
    shown, older = found[:LISTED], len(found[LISTED:])
    host.print_table([(one.id, escape(format_session_row(one).strip())) for one in shown])
    if older:
        host.say(f"and {older} older: !!agentcli sessions, then /resume ID", "dim")
    if not found:
        host.say("no other session has worked in this folder", "dim")


def _list_choices(host: CommandHost) -> list[tuple[str, str]]:
    return [
        (one.id, f"{format_age(one.last)}  {escape(one.title)}")
        for one in _list_other_sessions(host)[:LISTED]
    ]


def _list_other_sessions(host: CommandHost) -> list[SessionSummary]:
    found = list_sessions(workspace=host.settings.workspace)
    return [one for one in found if one.turns and one.id != host.session.paths.id]


async def _name_session(host: CommandHost, rest: str) -> None:
    if not rest:
        raise UsageError("which name?", hint="/name fix the parser")
    host.session.journal.append(SessionNamed(name=rest))
    host.say(f"named {escape(rest)}", "dim")


async def _rewind(host: CommandHost, rest: str) -> None:
    if rest:
        turn = parse_whole_number(rest)
        if turn is None:
            raise UsageError(f"{rest} is not the number of a turn", hint="/rewind lists the turns")
        _apply_request(host, UndoRequest(turn=turn))
        return
    stack = build_undo(host.session).build_stack()
    host.say("\n".join(map(escape, render_changes(stack))), "dim")
    if stack.changes:
        host.say("/rewind TURN takes back all that was changed since then", "dim")


async def _undo(host: CommandHost, rest: str) -> None:
    _apply_request(host, UndoRequest(call=rest or None))


async def _redo(host: CommandHost, rest: str) -> None:
    _apply_request(host, UndoRequest(redo=True))


def _apply_request(host: CommandHost, request: UndoRequest) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="esc stops it; then try again")
    undoing = build_undo(host.session)
    try:
        report = apply_request(undoing, request)
    except UsageError as error:
        raise UsageError(str(error), hint="/rewind lists the changes") from None
    if report is None:
        host.say("there is nothing left to do", "dim")
        return
    left = () if request.redo else render_remaining(undoing.build_stack())
    lines = (*render_report(report, dry_run=False), *left)
    host.say("\n".join(map(escape, lines)))


async def _compact(host: CommandHost, rest: str) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="wait for its end, or esc")
    if rest and rest != "--undo":
        raise UsageError(f"/compact knows no {rest}", hint="did you mean /compact --undo?")
    if rest:
        if not host.session.restore():
            raise UsageError("there is nothing to undo: the model is told everything in full")
        host.say("the model is told everything in full again", "dim")
        return
    before = host.renderer.transcript.context_tokens
    if not await host.wait_for("Compacting", host.session.model_client.compact()):
        raise UsageError("there is nothing to shorten yet", hint="/context")
    host.say(
        f"the conversation until here is a summary now (it was {format_tokens(before)} tokens)",
        "dim",
    )
