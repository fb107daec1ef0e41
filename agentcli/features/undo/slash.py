"""Slash commands that undo and redo changes."""

from dataclasses import replace

from agentcli.features.undo.render import (
    UndoRequest,
    apply_request,
    list_turns_to_undo,
    render_changes,
    render_remaining,
    render_report,
)
from agentcli.features.undo.session_undo import build_undo
from agentcli.system.parsing import parse_whole_number
from agentcli.types.errors import UsageError
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost
from agentcli.ui.repl.picker import PickerRow


async def run_rewind(host: CommandHost, rest: str) -> None:
    _refuse_while_busy(host)
    turns = list_turns_to_undo(build_undo(host.session).build_stack())
    if not turns:
        host.say("No changes to undo.", "dim")
        return
    if rest:
        turn = parse_whole_number(rest)
        if turn not in turns:
            raise UsageError(f"{rest} is not a turn with changes", hint="/rewind lists the turns")
    else:
        rows = [
            PickerRow(label=f"{number:>3}  {label}", preview=preview)
            for number, (label, preview) in turns.items()
        ]
        chosen = await host.choose("Undo from turn", rows, selected=len(rows) - 1)
        if chosen is None:
            return
        turn = list(turns)[chosen]
    await _confirm(host, UndoRequest(turn=turn))


async def _confirm(host: CommandHost, request: UndoRequest) -> None:
    """Show what would happen, ask, and do it if the user agrees."""
    undoing = build_undo(host.session)
    forecast = apply_request(undoing, replace(request, dry_run=True))
    if forecast is None:
        host.say("Nothing to undo.", "dim")
        return
    host.say("\n".join(map(escape, render_report(forecast, dry_run=True))), "dim")
    if (await host.ask("Undo these changes? [y/N]")).lower() in ("y", "yes"):
        _apply_request(host, request)
    else:
        host.say("Nothing was changed.", "dim")


async def run_undo(host: CommandHost, rest: str) -> None:
    if rest == "list":
        host.say("\n".join(map(escape, render_changes(build_undo(host.session).build_stack()))))
        return
    _apply_request(host, UndoRequest(call=rest or None))


async def run_redo(host: CommandHost, rest: str) -> None:
    _apply_request(host, UndoRequest(redo=True))


def _refuse_while_busy(host: CommandHost) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="stop it with esc, then try again")


def _apply_request(host: CommandHost, request: UndoRequest) -> None:
    _refuse_while_busy(host)
    undoing = build_undo(host.session)
    try:
        report = apply_request(undoing, request)
    except UsageError as error:
        raise UsageError(str(error), hint="/undo list") from None
    if report is None:
        host.say(f"Nothing to {'redo' if request.redo else 'undo'}.", "dim")
        return
    left = () if request.redo else render_remaining(undoing.build_stack())
    lines = (*render_report(report, dry_run=False), *left)
    host.say("\n".join(map(escape, lines)))
