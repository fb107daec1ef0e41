"""Commands about the session itself: help, keys, modes, models, leaving."""

from collections.abc import Iterable
from dataclasses import replace

from agentcli.agent.history import messages
from agentcli.app.swap import check_swap
from agentcli.types.errors import UsageError
from agentcli.types.events import TurnStarted
from agentcli.types.verdicts import MODES
from agentcli.ui.render.escape import escape
from agentcli.ui.repl.desk import Desk, SlashCommand
from agentcli.ui.swap import swap_lines
from agentcli.wire.catalogue import ALIASES, known_names

_MODES = {
    "plan": "only reads",
    "ask": "asks before it changes or runs anything",
    "auto-edit": "edits files of the workspace without asking",
    "auto": "runs everything inside the sandbox; deny rules hold",
}


def commands(listed: "Iterable[SlashCommand]") -> list[SlashCommand]:
    """`listed`: all commands there are, for help; may grow later."""

    async def help_(desk: Desk, rest: str) -> None:
        wanted = rest.removeprefix("/")
        rows = [(f"/{one.name} {one.usage}".strip(), one.help) for one in listed]
        if wanted:
            rows = [row for row in rows if row[0].split()[0] == f"/{wanted}"]
            if not rows:
                raise UsageError(f"there is no command /{wanted}", hint="/help")
        desk.table(rows)

    return [
        SlashCommand(
            name="help",
            usage="[COMMAND]",
            help="list the commands",
            run=help_,
            complete=lambda desk: [(one.name, one.help) for one in listed],
            works_alone=True,
        ),
        SlashCommand(
            name="keys", usage="", help="which key does what", run=_keys, works_alone=True
        ),
        SlashCommand(
            name="model",
            usage="[NAME [--check]]",
            help="which model, use another, or what that would drop",
            run=_model,
            complete=_models,
        ),
        SlashCommand(
            name="mode",
            usage="[MODE]",
            help="what needs no question",
            run=_mode,
            complete=lambda desk: list(_MODES.items()),
        ),
        SlashCommand(
            name="plan",
            usage="[TASK|show|review]",
            help="plan mode: only read, then follow a plan you agreed to",
            run=_plan,
            complete=lambda desk: [("show", "the plan"), ("review", "decide on it")],
        ),
        SlashCommand(name="new", usage="", help="begin a new session", run=_new),
        SlashCommand(name="quit", usage="", help="leave", run=_quit, works_alone=True),
    ]


async def _keys(desk: Desk, rest: str) -> None:
    desk.table(desk.key_rows())


async def _mode(desk: Desk, rest: str) -> None:
    if not rest:
        desk.table(
            [
                (mode, what + (" (now)" if mode == desk.mode else ""))
                for mode, what in _MODES.items()
            ]
        )
        return
    mode = next((mode for mode in MODES if mode == rest), None)
    if mode is None:
        raise UsageError(f"there is no mode {rest}", hint=f"/mode {' | '.join(MODES)}")
    desk.set_mode(mode)
    desk.say(f"{mode} mode: {_MODES[mode]}", "dim")


async def _plan(desk: Desk, rest: str) -> None:
    planning = desk.session.planning
    decidable = planning.proposed or planning.asked  # what a plan is, the person knows best
    match rest:
        case "show" if planning.accepted or planning.proposed:
            state = "proposed, not accepted" if planning.proposed else "accepted"
            desk.say(f"plan, {state}:", "dim")
            desk.print(desk.stage.markdown(planning.proposed or planning.accepted))
        case "show":
            desk.say("there is no plan yet: /plan TASK", "dim")
        case "review" if decidable and desk.mode == "plan" and not desk.is_busy:
            planning.proposed = decidable
            desk.print(desk.stage.markdown(planning.proposed))
            await desk.decide_on_plan()
        case "review":
            raise UsageError("there is no plan to decide on", hint="/plan TASK")
        case _:
            await _mode(desk, "plan")
            if rest:
                desk.send(rest)


def _models(desk: Desk) -> list[tuple[str, str]]:
    return [*ALIASES.items(), *((name, "") for name in known_names())]


async def _model(desk: Desk, rest: str) -> None:
    if not rest:
        desk.say(f"model {desk.session.model.name}; /model NAME uses another", "dim")
        return
    if rest.endswith("--check"):
        wanted = replace(desk.settings, model=rest.removesuffix("--check").strip())
        checking = check_swap(messages(desk.session.facts), wanted)
        found = await desk.wait_for("Checking", checking)
        desk.say("\n".join(map(escape, swap_lines(found))), "dim")
        return
    await desk.session.use_model(rest)
    desk.settings = replace(desk.settings, model=rest)
    desk.say(f"model {desk.session.model.name} from the next request on", "dim")


async def _new(desk: Desk, rest: str) -> None:
    before = desk.session
    await desk.renew()
    was_used = any(isinstance(fact, TurnStarted) for fact in before.facts)
    way_back = f"; back: /resume {before.place.id}" if was_used else ""
    desk.say(f"new session {desk.session.place.id}{way_back}", "dim")


async def _quit(desk: Desk, rest: str) -> None:
    desk.leave()
