"""`agentcli` without a command: picks the face of the interactive session and opens it."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.types.errors import Exit, UsageError

if TYPE_CHECKING:
    from agentcli.record.place import SessionPlace
    from agentcli.settings import Settings
    from agentcli.ui.repl.engine import Late


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options of the command line, as they were given."""

    workspace: Path
    model: str | None
    mode: str | None
    allow: Sequence[str]
    deny: Sequence[str]
    policy: Path | None
    sandbox: str | None
    yolo: bool
    pass_env: Sequence[str]
    mask: Sequence[str]
    accessible: bool
    color: str | None
    theme: str | None
    resume: str | None
    latest: bool
    trust_project: bool
    mcp_config: str | None

    def as_run(self) -> list[str]:
        """The same as `agentcli run -`, for a prompt that is piped in."""
        arguments = ["run", "-", "-C", str(self.workspace)]
        for name in ("model", "mode", "policy", "sandbox", "resume", "mcp_config"):
            if (value := getattr(self, name)) is not None:
                arguments += [f"--{name.replace('_', '-')}", str(value)]
        for name in ("allow", "deny", "pass_env", "mask"):
            for value in getattr(self, name):
                arguments += [f"--{name.replace('_', '-')}", value]
        arguments += ["--continue"] if self.latest else []
        return [*arguments, *(["--trust-project"] if self.trust_project else [])]


def interact(wish: Wish, *, run: Callable[[Sequence[str]], int]) -> int:
    """`run`: what runs another command line in its place."""
    if wish.yolo:
        wish = _without_guard(wish)
    if not sys.stdin.isatty():
        if wish.resume == "":
            raise UsageError(
                "there is no terminal to choose a session in",
                hint="agentcli --resume ID; agentcli sessions lists them",
            )
        return run(wish.as_run())
    settings, resume = _settings(wish)
    _trusted(settings)
    from agentcli.app.keys import lend_keys

    lend_keys()
    model = settings.model or _default_model()
    if not model:
        from agentcli.ui.repl.first_run import choose_model

        chosen = choose_model(settings)
        if chosen is None:
            return Exit.DONE
        settings, model = chosen, chosen.model or _default_model()
    if _speaks_in_lines(settings):
        from agentcli.ui.repl.line_mode import converse_in_lines

        return converse_in_lines(settings, resume=resume)
    from agentcli.ui.repl.branch import Branch

    branch = Branch(settings.workspace)
    from agentcli.ui.repl.live import converse

    color = wish.color or "auto"
    return converse(settings, model=model, branch=branch, color=color, load=_late, resume=resume)


def _without_guard(wish: Wish) -> Wish:
    if wish.mode or wish.sandbox:
        raise UsageError(
            "--yolo says the mode and the sandbox already: auto, and off",
            hint="leave out --mode and --sandbox",
        )
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not _is_container():
        raise UsageError(
            "--yolo is not for root, who can break this machine",
            hint="agentcli --mode auto, which keeps the sandbox; or be an ordinary user",
        )
    return replace(wish, mode="auto", sandbox="off")


def _is_container() -> bool:
    """By the marks that container programs leave: there is no better way to know."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    named = ("container", "KUBERNETES_SERVICE_HOST")
    return any(mark.exists() for mark in marks) or any(map(os.environ.get, named))


def _settings(wish: Wish) -> "tuple[Settings, SessionPlace | None]":
    from agentcli.settings import load

    if wish.color not in (None, "auto", "always", "never"):
        raise UsageError(
            f"--color must be auto, always or never, not {wish.color!r}", hint="agentcli --help"
        )
    model, mode, workspace, past = wish.model, wish.mode, wish.workspace, None
    if wish.resume is not None or wish.latest:
        from agentcli.record.sessions import past_session

        named = _picked(workspace) if wish.resume == "" else wish.resume
        past = past_session(named, workspace)
        model, mode = model or past.model, mode or past.mode
        workspace = past.workspace_for(workspace)
    flags = {
        "model": model,
        "mode": mode,
        "sandbox": wish.sandbox,
        "theme": wish.theme,
        "mcp_config": wish.mcp_config,
        "accessible": wish.accessible or bool(os.environ.get("ACCESSIBLE")) or None,
    }
    settings = load(
        flags,
        workspace=workspace,
        allow=wish.allow,
        deny=wish.deny,
        policy=wish.policy,
        pass_env=wish.pass_env,
        mask=wish.mask,
        trust_project=wish.trust_project,
    )
    return settings, past.place if past else None


def _picked(workspace: Path) -> str:
    from agentcli.ui.repl.picker import pick_session

    return pick_session(workspace)


def _trusted(settings: "Settings") -> None:
    """Asked once, before anything of the project is read as settings."""
    from agentcli.app.project import find_root

    if find_root(settings.workspace) is None or settings.trust_project:
        return
    from agentcli.ui.repl.trust_question import ask_trust

    ask_trust(settings)


def _speaks_in_lines(settings: "Settings") -> bool:
    is_plain = os.environ.get("TERM", "") in ("", "dumb")
    return settings.accessible or is_plain or sys.platform == "win32" or not sys.stdout.isatty()


def _default_model() -> str:
    from agentcli.wire.catalogue import default_name

    return default_name(os.environ) or ""


def _late() -> "Late":
    """What the session needs after its first prompt is on the screen."""
    from agentcli.app.opening import open_session
    from agentcli.ui.repl.commands.all import make_registry
    from agentcli.ui.repl.engine import Late
    from agentcli.ui.repl.stage import make_stage

    return Late(
        open_session=open_session,
        make_stage=make_stage,
        make_registry=make_registry,
    )
