"""Commands that take back what the calls changed in the workspace, and put it back."""

from agentcli.types.errors import UsageError
from agentcli.ui.repl.desk import Desk, SlashCommand
from agentcli.ui.undo import Wanted, carry_out, list_lines, report_lines


def commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="undo",
            usage="[N|list]",
            help="take back the latest change, or change N",
            run=_undo,
            complete=lambda desk: [("list", "what can be taken back")],
        ),
        SlashCommand(name="redo", usage="", help="put back what was taken back", run=_redo),
        SlashCommand(
            name="rewind",
            usage="[TURN]",
            help="take back all changes of the latest turn, or since TURN",
            run=_rewind,
        ),
    ]


async def _undo(desk: Desk, rest: str) -> None:
    if rest == "list":
        desk.say("\n".join(list_lines(desk.session.undoing().stack())), "dim")
        return
    _do(desk, Wanted(call=rest or None))


async def _redo(desk: Desk, rest: str) -> None:
    _do(desk, Wanted(redo=True))


async def _rewind(desk: Desk, rest: str) -> None:
    if rest and not rest.isdecimal():
        raise UsageError("which turn?", hint="/rewind 2   or, the latest: /rewind")
    latest = desk.session.undoing().stack().latest()
    _do(desk, Wanted(turn=int(rest[:9]) if rest else latest.turn if latest else 1))


def _do(desk: Desk, wanted: Wanted) -> None:
    report = carry_out(desk.session.undoing(), wanted)
    if report is None:
        desk.say(f"there is nothing to {'put' if wanted.redo else 'take'} back", "dim")
        return
    desk.say("\n".join(report_lines(report, dry_run=False)))
