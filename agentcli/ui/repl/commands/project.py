"""Commands about the project: its memory, its rules, the machine it runs on."""

import asyncio
import errno
from collections.abc import Mapping
from pathlib import Path

from agentcli.agent.context_notes import NAMES
from agentcli.features.doctor.checks import check_machine
from agentcli.session.permission_gate import load_rules
from agentcli.session.project import load_project, load_project_rules
from agentcli.settings import Settings, get_rules_file, get_settings_file
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import UsageError
from agentcli.types.events import NoteReason
from agentcli.ui.render.paint import escape
from agentcli.ui.render.wording import shorten_home
from agentcli.ui.repl.commands.registry import CommandHost, SlashCommand

INIT_PROMPT = (
    "Look around in this repository and write AGENTS.md for the agents that will work in it: how "
    "to build it and run its tests, how it is laid out, which conventions its code keeps. At most "
    "one page, only what is true here and cannot be guessed. If there is one already, improve it."
)
MEMORY_EXAMPLE = "/memory add --project Tests run with make check"


def list_project_commands() -> list[SlashCommand]:
    return [
        SlashCommand(
            name="memory",
            usage="[add [--project|--user] TEXT]",
            help="what every session is told",
            run=_handle_memory,
            list_arguments=lambda desk: [("add", "--project or --user, then the text")],
        ),
        SlashCommand(
            name="init", usage="", help="let the model write AGENTS.md", run=_send_init_prompt
        ),
        SlashCommand(
            name="permissions",
            usage="",
            help="the mode and the rules in force",
            run=_show_permissions,
        ),
        SlashCommand(
            name="doctor", usage="", help="check this machine", run=_run_doctor, works_alone=True
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
        raise UsageError(f"/memory knows no {verb}, only add", hint=MEMORY_EXAMPLE)
    whose, text = _split_scope(added.strip())
    if not text:
        raise UsageError("add what?", hint=MEMORY_EXAMPLE)
    whose = whose or await host.ask("for this project or for you in all of them? [project/user]")
    path = next(
        (one for name, one in _find_memory_files(host.settings).items() if name == whose), None
    )
    if path is None:
        raise UsageError("nothing was added", hint=MEMORY_EXAMPLE)
    try:
        _append(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    host.session.add_note(
        f"The person added to {path.name}: {text}", reason=NoteReason.INSTRUCTIONS
    )
    host.say(f"added to {path}: {escape(text)}", "dim")


def _split_scope(text: str) -> tuple[str, str]:
    """Return whose memory the text is for, if it says so, and what to remember."""
    option, _, rest = text.partition(" ")
    return (option[2:], rest.strip()) if option in ("--project", "--user") else ("", text)


def _find_memory_files(settings: Settings) -> Mapping[str, Path]:
    project = (settings.workspace / name for name in NAMES)
    return {
        "project": next((path for path in project if path.exists()), settings.workspace / NAMES[0]),
        "user": get_settings_file().with_name(NAMES[0]),
    }


def _append(path: Path, text: str) -> None:
    """Append to a file. Raise OSError. Follow no link, which might lead anywhere."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    gap = "" if not before or before.endswith("\n") else "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{gap}- {text}\n")


def _format_size(path: Path) -> str:
    return f"{path.stat().st_size} bytes" if path.exists() else "not there yet"


async def _send_init_prompt(host: CommandHost, rest: str) -> None:
    host.send(INIT_PROMPT)


async def _show_permissions(host: CommandHost, rest: str) -> None:
    settings = host.session.settings
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    written = (*load_rules(settings), *load_project_rules(project))
    known = {str(rule) for rule in written}
    agreed = [rule for rule in host.session.gate.agreed_rules if str(rule) not in known]
    rows = [("mode", host.mode), ("your rules", shorten_home(get_rules_file()))]
    rows += [(str(rule), show_controls(rule.where or rule.source)) for rule in (*written, *agreed)]
    host.print_table(rows)


async def _run_doctor(host: CommandHost, rest: str) -> None:
    found = await asyncio.to_thread(lambda: list(check_machine(host.settings)))
    rows: list[tuple[str, str]] = []
    for one in found:
        rows.append((f"{one.status:<4}  {one.subject}", one.words))
        rows += [("      fix", one.fix)] if one.fix else []
    host.print_table(rows)
