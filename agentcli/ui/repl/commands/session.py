"""Commands about the session itself: help, keys, modes, its look, what it remembers."""

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentcli.agent.instructions import NAMES, OWN_NAME
from agentcli.settings import find_theme_file, get_user_directory, list_theme_files
from agentcli.system.files import read_regular, shorten_home
from agentcli.types.errors import UsageError
from agentcli.types.events import NoteReason, TurnStarted
from agentcli.types.settings import Settings
from agentcli.types.verdicts import MODES
from agentcli.ui.render.paint import escape
from agentcli.ui.render.theme_files import load_theme
from agentcli.ui.repl.commands.registry import CommandHost, SlashCommand, WrongArguments
from agentcli.ui.repl.picker import PickerRow

_MODES = {
    "plan": "read-only",
    "ask": "confirm edits and commands",
    "auto-edit": "edits without asking",
    "auto": "everything, in the sandbox",
}


def list_session_commands(all_commands: "Iterable[SlashCommand]") -> list[SlashCommand]:
    """`all_commands` are all commands, for help. More may be added later."""

    async def show_help(host: CommandHost, rest: str) -> None:
        wanted = rest.removeprefix("/")
        rows = [(f"/{one.name} {one.usage}".strip(), one.help) for one in all_commands]
        if wanted:
            rows = [row for row in rows if row[0].split()[0] == f"/{wanted}"]
            if not rows:
                raise UsageError(f"no command /{wanted}", hint="/help")
        host.print_table(rows)

    return [
        SlashCommand(
            name="help",
            usage="[COMMAND]",
            help="list the commands",
            run=show_help,
            list_arguments=lambda host: [(one.name, one.help) for one in all_commands],
            works_alone=True,
        ),
        SlashCommand(name="keys", usage="", help="list the keys", run=_show_keys, works_alone=True),
        SlashCommand(
            name="mode",
            usage="[MODE]",
            help="show or change the permission mode",
            run=_change_mode,
            list_arguments=lambda host: list(_MODES.items()),
        ),
        SlashCommand(
            name="plan",
            usage="[TASK|show|review]",
            help="plan mode: read-only until you approve a plan",
            run=_handle_plan,
            list_arguments=lambda host: [
                ("show", "show the plan"),
                ("review", "approve or reject it"),
            ],
        ),
        SlashCommand(name="new", usage="", help="start a new session", run=_start_session),
        SlashCommand(name="quit", usage="", help="quit", run=_quit, works_alone=True),
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
        raise UsageError(f"no mode {rest}", hint=f"/mode {' | '.join(MODES)}")
    host.set_mode(mode)
    host.say(f"{mode.capitalize()} mode: {_MODES[mode]}", "dim")


_STEP_MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


async def _handle_plan(host: CommandHost, rest: str) -> None:
    planning = host.session.plan_tracker
    decidable = planning.proposed or planning.asked  # the user knows best what a plan is
    match rest:
        case "show" if planning.accepted or planning.proposed:
            state = "proposed, not accepted" if planning.proposed else "accepted"
            host.say(f"Plan ({state}):", "dim")
            host.print(host.renderer.render_markdown(planning.proposed or planning.accepted))
            for number, step in enumerate(planning.steps, start=1):
                host.say(f"{_STEP_MARKS[step.state]} {number}. {step.text}", "dim")
        case "show":
            host.say("No plan yet: /plan TASK", "dim")
        case "review" if decidable and host.mode == "plan" and not host.is_busy:
            planning.propose(decidable)
            host.print(host.renderer.render_markdown(decidable))
            await host.decide_on_plan()
        case "review":
            raise UsageError("no plan to review", hint="/plan TASK")
        case _:
            await _change_mode(host, "plan")
            if rest:
                host.send(rest)


async def _start_session(host: CommandHost, rest: str) -> None:
    before = host.session
    await host.renew()
    was_used = any(isinstance(fact, TurnStarted) for fact in before.facts)
    way_back = f" (back: /resume {before.paths.id})" if was_used else ""
    host.say(f"New session {host.session.paths.id}{way_back}", "dim")


async def _quit(host: CommandHost, rest: str) -> None:
    host.leave()


# Commands about the look of the session and the editing mode


_OUR_THEMES = {
    "auto": "dark or light, by the background of your terminal",
    "dark": "for a dark background",
    "light": "for a light background",
    "ansi": "the 16 colours of your terminal",
    "none": "no colours",
}


def _list_themes() -> dict[str, str]:
    """Return the themes with a description, those of the user's files last."""
    return _OUR_THEMES | {name: shorten_home(find_theme_file(name)) for name in list_theme_files()}


def list_look_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="theme",
            usage="[NAME]",
            help="show or change the colors",
            run=_change_theme,
            list_arguments=lambda host: list(_list_themes().items()),
            works_alone=True,
        ),
        SlashCommand(name="vim", usage="", help="turn vi mode on or off", run=_toggle_vi),
        SlashCommand(
            name="editor",
            usage="",
            help="write the message in $VISUAL or $EDITOR",
            run=_open_editor,
        ),
    ]


async def _change_theme(host: CommandHost, rest: str) -> None:
    themes = _list_themes()
    if rest not in themes:
        if rest:
            raise UsageError(f"no theme {rest}", hint=f"/theme {' | '.join(themes)}")
        rows = [PickerRow(label=name, preview=themes[name]) for name in themes]
        names = list(themes)
        used = host.renderer.theme_name
        chosen = await host.choose(
            "Theme", rows, selected=names.index(used) if used in names else 0
        )
        if chosen is None:
            return
        rest = rows[chosen].label
    warnings = () if rest in _OUR_THEMES else load_theme(rest).warnings
    host.renderer.use_theme(rest)
    host.apply_theme()
    host.say(f'Theme: {rest} (to keep it: theme = "{rest}" in settings.toml)', "dim")
    for warning in warnings:
        host.say(f"{rest}: {warning}", "warning")


async def _toggle_vi(host: CommandHost, rest: str) -> None:
    host.set_editing("emacs" if host.editing == "vi" else "vi")
    host.say(f"vi mode {'on' if host.editing == 'vi' else 'off'}", "dim")


async def _open_editor(host: CommandHost, rest: str) -> None:
    await host.edit()


# What every session is told: AGENTS.md of the project and of the user


INIT_PROMPT = (
    "Look around in this repository and write AGENTS.md for the agents that will work in it: how "
    "to build it and run its tests, how it is laid out, which conventions its code keeps. At most "
    "one page, only what is true here and cannot be guessed. If there is one already, improve it."
)
MEMORY_EXAMPLE = "/memory add --project Tests run with make check"


def list_memory_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="memory",
            usage="[add [--project|--user] TEXT]",
            help="show or add instructions for every session",
            run=_handle_memory,
            list_arguments=lambda host: [("add", "--project or --user, then the text")],
        ),
        SlashCommand(
            name="init", usage="", help="let the model write AGENTS.md", run=_send_init_prompt
        ),
    ]


async def _handle_memory(host: CommandHost, rest: str) -> None:
    verb, _, added = rest.partition(" ")
    if not verb:
        host.print_table(
            [
                (shorten_home(path), _format_size(path))
                for path in _find_memory_files(host.settings).values()
            ]
        )
        return
    if verb != "add":
        raise WrongArguments
    whose, text = _split_scope(added.strip())
    if not text:
        raise WrongArguments
    whose = whose or await host.ask("Save for this project or for all projects? [project/user]")
    path = next(
        (one for name, one in _find_memory_files(host.settings).items() if name == whose), None
    )
    if path is None:
        raise UsageError("nothing was added", hint=MEMORY_EXAMPLE)
    try:
        _append(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    host.session.add_note(f"The user added to {path.name}: {text}", reason=NoteReason.INSTRUCTIONS)
    host.say(f"Added to {path}: {escape(text)}", "dim")


def _split_scope(text: str) -> tuple[str, str]:
    """Return whose memory the text is for, if it says so, and what to remember."""
    option, _, rest = text.partition(" ")
    return (option[2:], rest.strip()) if option in ("--project", "--user") else ("", text)


def _find_memory_files(settings: Settings) -> Mapping[str, Path]:
    own = settings.workspace / OWN_NAME
    project = (own, *(settings.workspace / name for name in NAMES))
    return {
        "project": next((path for path in project if path.exists()), own),
        "user": get_user_directory() / OWN_NAME,
    }


def _append(path: Path, text: str) -> None:
    """Append to a file. Raise OSError. Follow no link, which might lead anywhere."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = read_regular(path) if path.exists() else b""
    gap = "" if not before or before.endswith(b"\n") else "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{gap}- {text}\n")


def _format_size(path: Path) -> str:
    return f"{path.stat().st_size} bytes" if path.exists() else "does not exist yet"


async def _send_init_prompt(host: CommandHost, rest: str) -> None:
    host.send(INIT_PROMPT)
