"""Commands about what has been: other sessions, changes to take back, a conversation to shorten."""

from agentcli.machine.numbers import whole_number
from agentcli.record.sessions import Summary, list_sessions, past_session
from agentcli.types.errors import UsageError
from agentcli.ui.render.escape import escape
from agentcli.ui.render.summary import tokens
from agentcli.ui.repl.desk import Desk, SlashCommand
from agentcli.ui.repl.picker import LISTED, age, row
from agentcli.ui.undo import Wanted, carry_out, left_lines, list_lines, report_lines


def commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="resume",
            usage="[SESSION]",
            help="continue another session of this folder",
            run=_resume,
            complete=_sessions,
        ),
        SlashCommand(name="name", usage="NAME", help="give this session a name", run=_name),
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


async def _resume(desk: Desk, rest: str) -> None:
    if rest:
        past = past_session(rest, desk.settings.workspace).place
        if past.directory.samefile(desk.session.place.directory):
            raise UsageError("this is the session that you are in", hint="/resume lists others")
        await desk.renew(resume=past)
        desk.say(f"session {past.id}", "dim")
        return
    found = _others(desk)
    shown, older = found[:LISTED], len(found[LISTED:])
    desk.table([(one.id, escape(row(one).strip())) for one in shown])
    if older:
        desk.say(f"and {older} older: !!agentcli sessions, then /resume ID", "dim")
    if not found:
        desk.say("no other session has worked in this folder", "dim")


def _sessions(desk: Desk) -> list[tuple[str, str]]:
    return [(one.id, f"{age(one.last)}  {escape(one.title)}") for one in _others(desk)[:LISTED]]


def _others(desk: Desk) -> list[Summary]:
    found = list_sessions(workspace=desk.settings.workspace)
    return [one for one in found if one.turns and one.id != desk.session.place.id]


async def _name(desk: Desk, rest: str) -> None:
    if not rest:
        raise UsageError("which name?", hint="/name fix the parser")
    desk.session.rename(rest)
    desk.say(f"named {escape(rest)}", "dim")


async def _rewind(desk: Desk, rest: str) -> None:
    if rest:
        turn = whole_number(rest)
        if turn is None:
            raise UsageError(f"{rest} is not the number of a turn", hint="/rewind lists the turns")
        _carry_out(desk, Wanted(turn=turn))
        return
    stack = desk.session.undoing().stack()
    desk.say("\n".join(map(escape, list_lines(stack))), "dim")
    if stack.changes:
        desk.say("/rewind TURN takes back all that was changed since then", "dim")


async def _undo(desk: Desk, rest: str) -> None:
    _carry_out(desk, Wanted(call=rest or None))


async def _redo(desk: Desk, rest: str) -> None:
    _carry_out(desk, Wanted(redo=True))


def _carry_out(desk: Desk, wanted: Wanted) -> None:
    if desk.is_busy:
        raise UsageError("a turn is running", hint="esc stops it; then try again")
    undoing = desk.session.undoing()
    try:
        report = carry_out(undoing, wanted)
    except UsageError as error:
        raise UsageError(str(error), hint="/rewind lists the changes") from None
    if report is None:
        desk.say("there is nothing left to do", "dim")
        return
    left = () if wanted.redo else left_lines(undoing.stack())
    lines = (*report_lines(report, dry_run=False), *left)
    desk.say("\n".join(map(escape, lines)))


async def _compact(desk: Desk, rest: str) -> None:
    if desk.is_busy:
        raise UsageError("a turn is running", hint="wait for its end, or esc")
    if rest and rest != "--undo":
        raise UsageError(f"/compact knows no {rest}", hint="did you mean /compact --undo?")
    if rest:
        if not desk.session.restore():
            raise UsageError("there is nothing to undo: the model is told everything in full")
        desk.say("the model is told everything in full again", "dim")
        return
    before = desk.stage.story.context_tokens
    if not await desk.wait_for("Compacting", desk.session.compact()):
        raise UsageError("there is nothing to shorten yet", hint="/context")
    desk.say(
        f"the conversation until here is a summary now (it was {tokens(before)} tokens)", "dim"
    )
