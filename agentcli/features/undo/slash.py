"""Slash commands that undo and redo changes."""

from agentcli.features.undo.render import (
    UndoRequest,
    apply_request,
    render_changes,
    render_remaining,
    render_report,
)
from agentcli.features.undo.session_undo import build_undo
from agentcli.system.parsing import parse_whole_number
from agentcli.types.errors import UsageError
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost


async def run_rewind(host: CommandHost, rest: str) -> None:
    if rest:
        turn = parse_whole_number(rest)
        if turn is None:
            raise UsageError(f"{rest} is not a turn number", hint="/rewind lists the turns")
        _apply_request(host, UndoRequest(turn=turn))
        return
    stack = build_undo(host.session).build_stack()
    host.say("\n".join(map(escape, render_changes(stack))), "dim")
    if stack.changes:
        host.say("/rewind N undoes all changes from turn N on", "dim")


async def run_undo(host: CommandHost, rest: str) -> None:
    _apply_request(host, UndoRequest(call=rest or None))


async def run_redo(host: CommandHost, rest: str) -> None:
    _apply_request(host, UndoRequest(redo=True))


def _apply_request(host: CommandHost, request: UndoRequest) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="stop it with esc, then try again")
    undoing = build_undo(host.session)
    try:
        report = apply_request(undoing, request)
    except UsageError as error:
        raise UsageError(str(error), hint="/rewind lists the changes") from None
    if report is None:
        host.say(f"Nothing to {'redo' if request.redo else 'undo'}.", "dim")
        return
    left = () if request.redo else render_remaining(undoing.build_stack())
    lines = (*render_report(report, dry_run=False), *left)
    host.say("\n".join(map(escape, lines)))
