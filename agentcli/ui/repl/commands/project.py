"""Commands about the project: its memory, its rules, the machine under it."""

import asyncio
import errno
from collections.abc import Mapping
from pathlib import Path

from agentcli.agent.instructions import NAMES
from agentcli.app.boundary import load_rules
from agentcli.app.project import open_project, project_rules
from agentcli.machine.plain import visible
from agentcli.settings import Settings, rules_file, settings_file
from agentcli.types.errors import UsageError
from agentcli.types.events import Why
from agentcli.ui.doctor import findings
from agentcli.ui.lines import short_path
from agentcli.ui.render.escape import escape
from agentcli.ui.repl.desk import Desk, SlashCommand

INIT = (
    "Look around in this repository and write AGENTS.md for the agents that will work in it: how "
    "to build it and run its tests, how it is laid out, which conventions its code keeps. At most "
    "one page, only what is true here and cannot be guessed. If there is one already, improve it."
)
EXAMPLE = "/memory add --project Tests run with make check"


def commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="memory",
            usage="[add [--project|--user] TEXT]",
            help="what every session is told",
            run=_memory,
            complete=lambda desk: [("add", "--project or --user, then the text")],
        ),
        SlashCommand(name="init", usage="", help="let the model write AGENTS.md", run=_init),
        SlashCommand(
            name="permissions", usage="", help="the mode and the rules in force", run=_permissions
        ),
        SlashCommand(
            name="doctor", usage="", help="check this machine", run=_doctor, works_alone=True
        ),
    ]


async def _memory(desk: Desk, rest: str) -> None:
    verb, _, added = rest.partition(" ")
    if not verb:
        desk.table([(short_path(path), _size(path)) for path in _memories(desk.settings).values()])
        return
    if verb != "add":
        raise UsageError(f"/memory knows no {verb}, only add", hint=EXAMPLE)
    whose, text = _addressed(added.strip())
    if not text:
        raise UsageError("add what?", hint=EXAMPLE)
    whose = whose or await desk.ask("for this project or for you in all of them? [project/user]")
    path = next((one for name, one in _memories(desk.settings).items() if name == whose), None)
    if path is None:
        raise UsageError("nothing was added", hint=EXAMPLE)
    try:
        _append(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    desk.session.tell(f"The person added to {path.name}: {text}", why=Why.INSTRUCTIONS)
    desk.say(f"added to {path}: {escape(text)}", "dim")


def _addressed(text: str) -> tuple[str, str]:
    """Whose memory it is for, where that is said, and what to remember."""
    option, _, rest = text.partition(" ")
    return (option[2:], rest.strip()) if option in ("--project", "--user") else ("", text)


def _memories(settings: Settings) -> Mapping[str, Path]:
    project = (settings.workspace / name for name in NAMES)
    return {
        "project": next((path for path in project if path.exists()), settings.workspace / NAMES[0]),
        "user": settings_file().with_name(NAMES[0]),
    }


def _append(path: Path, text: str) -> None:
    """Raises OSError; through no link, which might lead anywhere."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    gap = "" if not before or before.endswith("\n") else "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{gap}- {text}\n")


def _size(path: Path) -> str:
    return f"{path.stat().st_size} bytes" if path.exists() else "not there yet"


async def _init(desk: Desk, rest: str) -> None:
    desk.send(INIT)


async def _permissions(desk: Desk, rest: str) -> None:
    settings = desk.session.settings
    project = open_project(settings.workspace, trust_project=settings.trust_project)
    written = (*load_rules(settings), *project_rules(project))
    known = {str(rule) for rule in written}
    agreed = [rule for rule in desk.session.agreed_rules if str(rule) not in known]
    rows = [("mode", desk.mode), ("your rules", short_path(rules_file()))]
    rows += [(str(rule), visible(rule.where or rule.source)) for rule in (*written, *agreed)]
    desk.table(rows)


async def _doctor(desk: Desk, rest: str) -> None:
    found = await asyncio.to_thread(lambda: list(findings(desk.settings)))
    rows: list[tuple[str, str]] = []
    for one in found:
        rows.append((f"{one.status:<4}  {one.subject}", one.words))
        rows += [("      fix", one.fix)] if one.fix else []
    desk.table(rows)
