"""The slash commands by name: found, offered, completed and run here."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from agentcli.types.errors import AgentError
from agentcli.ui.attached import begins_with_image
from agentcli.ui.crash import describe_crash
from agentcli.ui.repl import fuzzy
from agentcli.ui.repl.desk import CommandHost, SlashCommand


def is_slash_command(text: str) -> bool:
    """The path of a file that was dragged into the input begins with a slash, too."""
    if not text.startswith("/"):
        return False
    is_path = "/" in text.split(maxsplit=1)[0][1:]
    return not is_path and not begins_with_image(text)


ALIASES = {
    "allowed-tools": "permissions",
    "clear": "new",
    "exit": "quit",
    "history": "resume",
    "reset": "new",
    "sessions": "resume",
    "settings": "config",
    "status": "context",
    "usage": "cost",
}
"""What other programs call these."""


class CommandRegistry:
    def __init__(self, commands: Iterable[SlashCommand], *, problems: Sequence[str] = ()) -> None:
        """In the order in which they are listed; the first of a name wins.

        `problems`: with files that should be commands, for the person."""
        self.problems = problems
        self.commands: dict[str, SlashCommand] = {}
        for command in commands:
            self.commands.setdefault(command.name, command)

    def list_completions(self, typed: str, host: CommandHost) -> list[tuple[str, str, int]]:
        """For the menu: a text, what it is, and how many letters it takes the place of."""
        name, space, rest = typed[1:].partition(" ")
        if not space:
            found = fuzzy.find_best(name, self.commands.values(), text=lambda one: one.name)
            return [(f"/{one.name}", one.help, len(typed)) for one in found]
        command = self.commands.get(name)
        if command is None or command.list_arguments is None or " " in rest:
            return []
        choices = fuzzy.find_best(rest, command.list_arguments(host), text=lambda choice: choice[0])
        return [(text, what, len(rest)) for text, what in choices]

    async def run(self, line: str, host: CommandHost) -> None:
        """A line of which `why_not` says nothing."""
        name, _, rest = line[1:].strip().partition(" ")
        command = self.commands[name]
        try:
            await command.run(host, rest.strip())
        except AgentError as error:
            usage = f"/{command.name} {command.usage}".strip()
            host.fail(str(error), error.hint or usage)
        except Exception as bug:  # noqa: BLE001 - a command that breaks must not end the session
            host.fail(*describe_crash(bug))

    def works_alone(self, line: str) -> bool:
        """Whether it can be run where there is no session."""
        command = self.commands.get(line[1:].strip().partition(" ")[0])
        return command is not None and command.works_alone

    def find_fault(self, line: str) -> str:
        """Empty: there is such a command."""
        name = line[1:].strip().partition(" ")[0]
        if name in self.commands:
            return ""
        if not re.fullmatch(r"[\w:.-]+", name):
            return "a command is / and a name: /help lists them"
        near = [ALIASES[name]] if name in ALIASES else []
        near = near or get_close_matches(name, self.commands, n=1, cutoff=0.5)
        near = near or [one for one in self.commands if one.startswith(name)]
        return f"no command /{name}: " + (f"did you mean /{near[0]}?" if near else "see /help")
