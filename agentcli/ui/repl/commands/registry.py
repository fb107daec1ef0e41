"""The slash commands by name: found, completed and run."""

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentcli.types.errors import AgentError, Exit
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.settings import Settings
from agentcli.types.verdicts import Mode
from agentcli.ui.images import begins_with_image
from agentcli.ui.repl import completion

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.session.session import Session
    from agentcli.ui.repl.picker import PickerRows
    from agentcli.ui.repl.renderer import TranscriptRenderer
    from agentcli.ui.repl.transcript import LiveTranscript


# What a slash command can reach: the session, the screen, and the few things it may change


T = TypeVar("T")


class CommandHost(Protocol):
    """The host of slash commands: the live session, or line mode."""

    settings: Settings

    @property
    def session(self) -> "Session": ...

    @property
    def has_session(self) -> bool:
        """False if the session could not be opened."""
        ...

    @property
    def renderer(self) -> "TranscriptRenderer": ...

    @property
    def is_busy(self) -> bool:
        """True while a turn is running."""
        ...

    @property
    def mode(self) -> Mode: ...

    def set_mode(self, mode: Mode) -> None: ...

    def say(self, text: str, style: str = "") -> None:
        """Add a block to the transcript. The text must not contain terminal control sequences."""
        ...

    def print(self, ansi: str) -> None:
        """Add text that is already rendered."""
        ...

    def print_table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add a table of names and descriptions."""
        ...

    def fail(self, message: str, hint: str) -> None: ...

    def list_keys(self) -> list[tuple[str, str]]: ...

    def apply_theme(self) -> None:
        """Apply the theme that was chosen."""
        ...

    @property
    def editing(self) -> str:
        """The editing mode: emacs or vi."""
        ...

    def set_editing(self, editing: str) -> None: ...

    def send(self, text: str) -> None:
        """Send a prompt, as if it had been typed."""
        ...

    def set_input(self, text: str) -> None:
        """Put a message into the input, for the user to change and send."""
        ...

    async def decide_on_plan(self) -> None:
        """Ask the user about the proposed plan, unless they have accepted it."""
        ...

    async def wait_for(self, verb: str, work: Coroutine[Any, Any, T]) -> T:
        """Run something that takes time and that the user can stop. Nothing may run beside it.

        Raise UsageError if a turn is running, or if the user stops it."""
        ...

    async def ask(self, question: str, *, hidden: bool = False) -> str:
        """Return what the user types on one line, or an empty string for nothing.

        With `hidden`, what they type is not shown."""
        ...

    async def choose(self, title: str, rows: "PickerRows", *, selected: int = 0) -> int | None:
        """Return the index of the row that the user chooses from a list, or None.

        A function that returns the rows is called again and again: the list is live."""
        ...

    async def edit(self) -> None:
        """Open the input in the user's editor."""
        ...

    async def page(self, text: str, *, line: int = 1) -> None:
        """Show a long text in the user's pager, from a line on if the pager can."""
        ...

    async def renew(self, *, resume: "SessionPaths | None" = None) -> None:
        """Begin another session, or continue one, and end the current one.

        Raise AgentError if the other session cannot be opened. Then the current one goes on."""
        ...

    def leave(self) -> None: ...

    def write_to_terminal(self, sequence: str) -> bool:
        """Write a control sequence. Return whether there is a terminal that accepts it."""
        ...


class WrongArguments(Exception):
    """The arguments of a command do not fit: the user is shown its usage."""


RunCommand = Callable[[CommandHost, str], Awaitable[None]]
ListArguments = Callable[[CommandHost], Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    name: str
    usage: str
    """The arguments of the command, as help shows them. Empty if it takes none."""
    help: str
    run: RunCommand
    list_arguments: ListArguments | None = None
    """Lists the possible first arguments, each with a short description."""
    works_alone: bool = False
    """True if the command also works when the session cannot be opened."""


# Switching to another session on the same screen


async def switch_session(
    session: "Session", *, previous: "Session", transcript: "LiveTranscript"
) -> None:
    """Replace `previous` with `session`, which is already open.

    If a session cannot be opened, nothing may have been ended. The mode is the user's and stays."""
    transcript.load_session(session.facts)
    if session.gate.mode != previous.gate.mode:
        session.set_mode(previous.gate.mode)
    await previous.close(Exit.DONE)


HELP_WORDS = ("?", "help")
"""Whole messages that show help. No model could do anything with them."""


def is_slash_command(text: str) -> bool:
    """Return whether the text is a slash command, or one of the words for help.

    The path of a file that was dragged into the input also begins with a slash.
    """
    if text.strip().lower() in HELP_WORDS:
        return True
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
"""The names that other programs use for these commands. A command of the user's own wins."""


class CommandRegistry:
    def __init__(self, commands: Iterable[SlashCommand], *, problems: Sequence[str] = ()) -> None:
        """`commands` are in the order of the list; the first of a name wins.

        `problems` are problems with files that should be commands, to show to the user."""
        self.problems = problems
        self.commands: dict[str, SlashCommand] = {}
        for command in commands:
            self.commands.setdefault(command.name, command)

    def list_completions(self, typed: str, host: CommandHost) -> list[tuple[str, str, int]]:
        """Return for the menu: a text, its description, and how many letters it replaces."""
        name, space, rest = typed[1:].partition(" ")
        if not space:
            found = completion.find_best(name, self.commands.values(), text=lambda one: one.name)
            return [(f"/{one.name}", one.help, len(typed)) for one in found]
        command = self._find(name)
        if command is None or command.list_arguments is None or " " in rest:
            return []
        choices = completion.find_best(
            rest, command.list_arguments(host), text=lambda choice: choice[0]
        )
        return [(text, what, len(rest)) for text, what in choices]

    async def run(self, line: str, host: CommandHost) -> None:
        """Run a line for which `find_fault` returns nothing."""
        name, rest = _split_line(line)
        command = self._find(name)
        assert command is not None, line
        usage = f"/{command.name} {command.usage}".strip()
        try:
            if rest and not command.usage:
                raise WrongArguments
            await command.run(host, rest)
        except WrongArguments:
            host.say(f"Usage: {usage}", "dim")
        except AgentError as error:
            host.fail(str(error), error.hint or usage)
        except Exception as bug:  # noqa: BLE001 - a command that breaks must not end the session
            from agentcli.ui.crash import describe_crash

            host.fail(*describe_crash(bug))

    def works_alone(self, line: str) -> bool:
        """Return whether the line can be run without a session."""
        command = self._find(_split_line(line)[0])
        return command is not None and command.works_alone

    def find_fault(self, line: str) -> str:
        """Return why the line cannot be run, or an empty string if the command exists."""
        name, _ = _split_line(line)
        if self._find(name) is not None:
            return ""
        if not re.fullmatch(r"[\w:.-]+", name):
            return "a command is / and a name: /help lists them"
        known = [*self.commands, *ALIASES]
        near = [one for one in known if one.startswith(name)]
        near = near or get_close_matches(name, known, n=1, cutoff=0.6)
        return f"no command /{name}: " + (f"did you mean /{near[0]}?" if near else "see /help")

    def _find(self, name: str) -> SlashCommand | None:
        return self.commands.get(name) or self.commands.get(ALIASES.get(name, ""))


def _split_line(line: str) -> tuple[str, str]:
    """Return the name of the command and its arguments."""
    if line.strip().lower() in HELP_WORDS:
        return "help", ""
    name, _, rest = line[1:].strip().partition(" ")
    return name, rest.strip()
