"""`agentcli` without a command: chooses the front end of the interactive session and opens it."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentcli.cli.line import RUN, parse_line, run_one_shot
from agentcli.settings import load_settings, select_settings
from agentcli.types.errors import Exit, UsageError
from agentcli.ui.streams import takes_live_session

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.types.settings import Settings
    from agentcli.ui.render.theme import ColorWhen
    from agentcli.ui.repl.state import ReplEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractiveOptions:
    """The options of the command line, unchanged."""

    settings: Mapping[str, Any]
    """Those that are settings, by name; None if not given."""
    workspace: Path | None
    yolo: bool
    color: str | None
    resume: str | None
    latest: bool
    worktree: str | None
    """The name of a worktree to work in, empty for a new one; None for the workspace itself."""


def build_options(values: Mapping[str, Any]) -> InteractiveOptions:
    """Return the options of these parameters, by name; others among them are left out."""
    others = {name: values[name] for name in values.keys() & _OTHERS}
    return InteractiveOptions(settings=select_settings(values), **others)


_OTHERS = frozenset(field.name for field in fields(InteractiveOptions)) - {"settings"}


def interact(options: InteractiveOptions) -> int:
    """Open the interactive session, or run the prompt that is piped in."""
    if options.yolo:
        options = _apply_yolo(options)
    if not sys.stdin.isatty():
        if options.resume == "":
            raise UsageError(
                "choosing a session needs a terminal",
                hint="agentcli sessions list, then agentcli --resume ID",
            )
        values = parse_line(RUN, ["-"]) or {}
        given = {**options.settings, **{name: getattr(options, name) for name in _OTHERS}}
        return run_one_shot(values | {name: given[name] for name in given.keys() & values.keys()})
    if options.worktree is not None:
        from agentcli.features.worktree.render import enter_and_say

        entered = enter_and_say(options.workspace or Path(), options.worktree)
        options = replace(options, workspace=entered)
    settings, resume = _load_settings(options)
    _ask_trust(settings)
    from agentcli.session.model import find_default_model

    model = settings.model or find_default_model() or ""
    if not model:
        from agentcli.features.demo.player import play_demo
        from agentcli.features.login.engine import log_in
        from agentcli.ui.repl.first_run import choose_model

        chosen = choose_model(settings, play_demo=play_demo, log_in=log_in)
        if chosen is None:
            return Exit.DONE
        settings, model = chosen, chosen.model or find_default_model() or ""
    color = cast("ColorWhen", options.color or "auto")  # checked with the settings
    return _converse(settings, model=model, color=color, resume=resume)


def _converse(
    settings: "Settings", *, model: str, color: "ColorWhen", resume: "SessionPaths | None"
) -> int:
    """Run the session to its end, in whichever workspaces the user moves it to."""
    while True:
        if takes_live_session(settings):
            ended = _converse_live(settings, model=model, color=color, resume=resume)
        else:
            import asyncio

            from agentcli.ui.repl.line_mode import LineMode

            ended = asyncio.run(LineMode(settings, resume=resume).run())
        if ended.settings.workspace == settings.workspace:
            break
        settings, resume = ended.settings, ended.session
        model = settings.model or model
    from agentcli.log.paths import is_worktree

    if is_worktree(settings.workspace):
        from agentcli.features.worktree.render import ask_ending

        ask_ending(settings.workspace)
    return ended.exit_code


def _converse_live(
    settings: "Settings", *, model: str, color: "ColorWhen", resume: "SessionPaths | None"
) -> "ReplEnd":
    from agentcli.ui.repl.held_terminal import HeldTerminal

    # The terminal answers while the modules of the session are loaded.
    with HeldTerminal(settings, color) as held:
        from agentcli.ui.repl.state import GitBranch

        branch = GitBranch(settings.workspace)
        from agentcli.ui.repl.launch import run_repl

        return run_repl(settings, held, model=model, branch=branch, color=color, resume=resume)


def _apply_yolo(options: InteractiveOptions) -> InteractiveOptions:
    if options.settings["mode"] or options.settings["sandbox"]:
        raise UsageError(
            "--yolo already sets the mode (auto) and the sandbox (off)",
            hint="agentcli --yolo",
        )
    from agentcli.system.environment import is_container

    if hasattr(os, "geteuid") and os.geteuid() == 0 and not is_container():
        raise UsageError(
            "--yolo is not allowed as root: it could damage this machine",
            hint="agentcli --mode auto",
        )
    return replace(options, settings={**options.settings, "mode": "auto", "sandbox": "off"})


def _load_settings(options: InteractiveOptions) -> "tuple[Settings, SessionPaths | None]":
    if options.color not in (None, "auto", "always", "never"):
        raise UsageError(
            f"--color must be auto, always or never, not {options.color!r}", hint="agentcli --help"
        )
    settings, workspace, past = {**options.settings}, options.workspace or Path(), None
    if options.resume is not None or options.latest:
        from agentcli.log.sessions import choose_session

        named = _pick_session(workspace) if options.resume == "" else options.resume
        past = choose_session(named, workspace)
        settings["model"] = settings["model"] or past.model
        settings["mode"] = settings["mode"] or past.mode
        workspace = past.choose_workspace(options.workspace)
    if os.environ.get("ACCESSIBLE"):
        settings["accessible"] = True
    loaded = load_settings(settings, workspace=workspace, command="")
    _check_theme(loaded.theme)
    return loaded, past.paths if past else None


def _check_theme(name: str) -> None:
    """Raise SettingsError if the user's own theme has a fault; say which of it is hard to read."""
    from agentcli.types.settings import THEME_CHOICES

    if name in THEME_CHOICES:
        return
    from agentcli.ui.render.theme_files import load_theme

    for warning in load_theme(name).warnings:
        sys.stderr.write(f"warning: theme {name}: {warning}\n")


def _pick_session(workspace: Path) -> str:
    from agentcli.features.sessions.slash import pick_session

    return pick_session(workspace)


def _ask_trust(settings: "Settings") -> None:
    """Ask once whether to trust the project, before anything of it is read as settings."""
    from agentcli.system.agent_files import find_project_root

    if find_project_root(settings.workspace) is None or settings.trust_project:
        return
    from agentcli.features.trust.render import ask_trust

    ask_trust(settings)
