"""Commands about the session itself: help, keys, modes, models, quitting."""

from collections.abc import Iterable
from dataclasses import replace

from agentcli.agent.history import build_messages
from agentcli.features.models.engine import check_swap
from agentcli.features.models.render import render_swap
from agentcli.providers.catalog import ALIASES, list_model_names
from agentcli.types.errors import UsageError
from agentcli.types.events import TurnStarted
from agentcli.types.verdicts import MODES
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost, SlashCommand

_MODES = {
    "plan": "only reads",
    "ask": "asks before it changes or runs anything",
    "auto-edit": "edits files of the workspace without asking",
    "auto": "runs everything inside the sandbox; deny rules hold",
}


def list_session_commands(all_commands: "Iterable[SlashCommand]") -> list[SlashCommand]:
    """`all_commands` are all commands, for help. More may be added later."""

    async def show_help(host: CommandHost, rest: str) -> None:
        wanted = rest.removeprefix("/")
        rows = [(f"/{one.name} {one.usage}".strip(), one.help) for one in all_commands]
        if wanted:
            rows = [row for row in rows if row[0].split()[0] == f"/{wanted}"]
            if not rows:
                raise UsageError(f"there is no command /{wanted}", hint="/help")
        host.print_table(rows)

    return [
        SlashCommand(
            name="help",
            usage="[COMMAND]",
            help="list the commands",
            run=show_help,
            list_arguments=lambda desk: [(one.name, one.help) for one in all_commands],
            works_alone=True,
        ),
        SlashCommand(
            name="keys", usage="", help="which key does what", run=_show_keys, works_alone=True
        ),
        SlashCommand(
            name="model",
            usage="[NAME [--check]]",
            help="which model, use another, or what that would drop",
            run=_change_model,
            list_arguments=_list_models,
        ),
        SlashCommand(
            name="mode",
            usage="[MODE]",
            help="what needs no question",
            run=_change_mode,
            list_arguments=lambda desk: list(_MODES.items()),
        ),
        SlashCommand(
            name="plan",
            usage="[TASK|show|review]",
            help="plan mode: only read, then follow a plan you agreed to",
            run=_handle_plan,
            list_arguments=lambda desk: [("show", "the plan"), ("review", "decide on it")],
        ),
        SlashCommand(name="new", usage="", help="begin a new session", run=_start_session),
        SlashCommand(name="quit", usage="", help="leave", run=_quit, works_alone=True),
    ]


async def _show_keys(host: CommandHost, rest: str) -> None:
    host.print_table(host.list_keys())


async def _change_mode(host: CommandHost, rest: str) -> None:
    if not rest:
        host.print_table(
            [
                (mode, what + (" (now)" if mode == host.mode else ""))
                for mode, what in _MODES.items()
            ]
        )
        return
    mode = next((mode for mode in MODES if mode == rest), None)
    if mode is None:
        raise UsageError(f"there is no mode {rest}", hint=f"/mode {' | '.join(MODES)}")
    host.set_mode(mode)
    host.say(f"{mode} mode: {_MODES[mode]}", "dim")


async def _handle_plan(host: CommandHost, rest: str) -> None:
    planning = host.session.plan_tracker
    decidable = planning.proposed or planning.asked  # the user knows best what a plan is
    match rest:
        case "show" if planning.accepted or planning.proposed:
            state = "proposed, not accepted" if planning.proposed else "accepted"
            host.say(f"plan, {state}:", "dim")
            host.print(host.renderer.render_markdown(planning.proposed or planning.accepted))
        case "show":
            host.say("there is no plan yet: /plan TASK", "dim")
        case "review" if decidable and host.mode == "plan" and not host.is_busy:
            planning.proposed = decidable
            host.print(host.renderer.render_markdown(planning.proposed))
            await host.decide_on_plan()
        case "review":
            raise UsageError("there is no plan to decide on", hint="/plan TASK")
        case _:
            await _change_mode(host, "plan")
            if rest:
                host.send(rest)


def _list_models(host: CommandHost) -> list[tuple[str, str]]:
    return [*ALIASES.items(), *((name, "") for name in list_model_names())]


async def _change_model(host: CommandHost, rest: str) -> None:
    if not rest:
        host.say(f"model {host.session.model.name}; /model NAME uses another", "dim")
        return
    if rest.endswith("--check"):
        wanted = replace(host.settings, model=rest.removesuffix("--check").strip())
        checking = check_swap(build_messages(host.session.facts), wanted)
        found = await host.wait_for("Checking", checking)
        host.say("\n".join(map(escape, render_swap(found))), "dim")
        return
    await host.session.model_switch.use(rest)
    host.settings = replace(host.settings, model=rest)
    host.say(f"model {host.session.model.name} from the next request on", "dim")


async def _start_session(host: CommandHost, rest: str) -> None:
    before = host.session
    await host.renew()
    was_used = any(isinstance(fact, TurnStarted) for fact in before.facts)
    way_back = f"; back: /resume {before.paths.id}" if was_used else ""
    host.say(f"new session {host.session.paths.id}{way_back}", "dim")


async def _quit(host: CommandHost, rest: str) -> None:
    host.leave()


# Commands about the look of the session and the editing mode


THEME_CHOICES = ("auto", "dark", "light", "ansi", "none")


def list_look_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="theme",
            usage="[NAME]",
            help="the colours",
            run=_change_theme,
            list_arguments=lambda desk: [(name, "") for name in THEME_CHOICES],
            works_alone=True,
        ),
        SlashCommand(name="vim", usage="", help="vi keys in the input, on or off", run=_toggle_vi),
        SlashCommand(name="editor", usage="", help="write in $VISUAL or $EDITOR", run=_open_editor),
    ]


async def _change_theme(host: CommandHost, rest: str) -> None:
    if rest not in THEME_CHOICES:
        if rest:
            raise UsageError(
                f"there is no theme {rest}", hint=f"/theme {' | '.join(THEME_CHOICES)}"
            )
        host.say(f"theme {host.renderer.theme_name} ({host.renderer.theme.name})", "dim")
        return
    host.renderer.use_theme(rest)
    host.apply_theme()
    host.say(f'theme {rest}; to keep it: theme = "{rest}" in the settings', "dim")


async def _toggle_vi(host: CommandHost, rest: str) -> None:
    host.set_editing("emacs" if host.editing == "vi" else "vi")
    host.say(f"{host.editing} keys", "dim")


async def _open_editor(host: CommandHost, rest: str) -> None:
    await host.edit()
