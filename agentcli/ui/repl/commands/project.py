"""Commands about the project: its memory, its rules, its own commands, the machine under it."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from agentcli.agent.instructions import NAMES
from agentcli.app.boundary import load_rules
from agentcli.app.project import open_project, project_rules
from agentcli.machine.plain import visible
from agentcli.settings import Settings, rules_file, settings_file
from agentcli.types.errors import UsageError
from agentcli.ui.repl.desk import Desk, SlashCommand

INIT = (
    "Look around in this repository and write AGENTS.md for the agents that will work in it: how "
    "to build it and run its tests, how it is laid out, which conventions its code keeps. At most "
    "one page, only what is true here and cannot be guessed. If there is one already, improve it."
)


def commands(settings: Settings) -> list[SlashCommand]:
    built_in = [
        SlashCommand(
            name="memory",
            usage="[add project|user TEXT]",
            help="what every session is told",
            run=_memory,
            complete=lambda desk: [("add", "project or user, then the text")],
        ),
        SlashCommand(name="init", usage="", help="let the model write AGENTS.md", run=_init),
        SlashCommand(
            name="permissions", usage="", help="the mode and the rules in force", run=_permissions
        ),
        SlashCommand(name="doctor", usage="", help="check this machine", run=_doctor),
    ]
    return [*built_in, *_own_commands(settings)]


async def _memory(desk: Desk, rest: str) -> None:
    words = rest.split(maxsplit=2)
    if not words:
        desk.table([(str(path), _size(path)) for path in _memories(desk.settings).values()])
        return
    if len(words) < 3 or words[0] != "add" or words[1] not in ("project", "user"):
        raise UsageError("project or user?", hint="/memory add project Tests run with make check")
    path = _memories(desk.settings)[words[1]]
    try:
        _append(path, words[2])
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    desk.session.tell(f"The person added to {path.name}: {words[2]}", why="memory")
    desk.say(f"added to {path}", "dim")


def _memories(settings: Settings) -> Mapping[str, Path]:
    project = (settings.workspace / name for name in NAMES)
    return {
        "project": next((path for path in project if path.exists()), settings.workspace / NAMES[0]),
        "user": settings_file().with_name(NAMES[0]),
    }


def _append(path: Path, text: str) -> None:
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
    rules = (*load_rules(settings), *project_rules(project))
    rows = [("mode", desk.mode), ("your rules", str(rules_file()))]
    rows += [(f"{rule.decision} {rule.text}", visible(rule.where or rule.source)) for rule in rules]
    desk.table(rows)


async def _doctor(desk: Desk, rest: str) -> None:
    command = [sys.executable, "-m", "agentcli", "doctor", "-C", str(desk.settings.workspace)]
    ran = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    desk.say(visible(ran.stdout.rstrip("\n") or ran.stderr.rstrip("\n")))


def _own_commands(settings: Settings) -> list[SlashCommand]:
    """Of `.agentcli/commands/*.md`, in a project that is trusted: a prompt each."""
    project = open_project(settings.workspace, trust_project=settings.trust_project)
    if project is None:
        return []
    found = []
    for name, text in sorted(project.texts("commands").items()):
        path = Path(name)
        if path.suffix == ".md" and text.strip():
            found.append(_own_command(path.stem, text))
    return found


def _own_command(name: str, text: str) -> SlashCommand:
    first = visible(text.strip().splitlines()[0].lstrip("# ")[:60])

    async def run(desk: Desk, rest: str) -> None:
        prompt = text.replace("$ARGUMENTS", rest)
        desk.send(prompt if "$ARGUMENTS" in text or not rest else f"{prompt}\n\n{rest}")

    return SlashCommand(name=name, usage="[TEXT]", help=f"project: {first}", run=run)
