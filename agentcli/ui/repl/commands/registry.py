"""The slash commands by name: found, offered, completed and run here."""

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentcli.settings import Settings
from agentcli.types.errors import AgentError, Exit
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.verdicts import Mode
from agentcli.ui.crash import describe_crash
from agentcli.ui.images import begins_with_image
from agentcli.ui.repl import completion

if TYPE_CHECKING:
    from agentcli.log.paths import SessionPaths
    from agentcli.session.session import Session
    from agentcli.ui.repl.renderer import TranscriptRenderer
    from agentcli.ui.repl.transcript import LiveTranscript


# What a slash command can reach: the session, the screen, and the few things it may change.


T = TypeVar("T")


class CommandHost(Protocol):
    """Where commands are run: the live session, or line mode."""

    settings: Settings

    @property
    def session(self) -> "Session": ...

    @property
    def renderer(self) -> "TranscriptRenderer": ...

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        ...

    @property
    def mode(self) -> Mode: ...

    def set_mode(self, mode: Mode) -> None: ...

    def say(self, text: str, style: str = "") -> None:
        """Adds a block to the transcript. The text may hold nothing a terminal would obey."""
        ...

    def print(self, ansi: str) -> None:
        """Adds what is drawn already."""
        ...

    def print_table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and what there is to say of them."""
        ...

    def fail(self, message: str, hint: str) -> None: ...

    def list_keys(self) -> list[tuple[str, str]]: ...

    def apply_theme(self) -> None:
        """Puts on the theme that was chosen."""
        ...

    @property
    def editing(self) -> str:
        """emacs or vi."""
        ...

    def set_editing(self, editing: str) -> None: ...

    def send(self, text: str) -> None:
        """A prompt, as if it had been typed."""
        ...

    async def decide_on_plan(self) -> None:
        """Puts the plan there is to the person, if they have not agreed to it yet."""
        ...

    async def wait_for(self, verb: str, work: Coroutine[Any, Any, T]) -> T:
        """Something that takes time, and that the person can stop. Nothing may run beside it.

        Raises UsageError where a turn is running, and when it was stopped."""
        ...

    async def ask(self, question: str) -> str:
        """What the person types on one line; empty: nothing."""
        ...

    async def edit(self) -> None:
        """The input in the person's editor."""
        ...

    async def page(self, text: str) -> None:
        """A long text in the person's pager."""
        ...

    async def renew(self, *, resume: "SessionPaths | None" = None) -> None:
        """Begins another session, or continues one, and ends the one there is.

        Raises AgentError where the other cannot be had; then nothing is ended."""
        ...

    def leave(self) -> None: ...

    def write_to_terminal(self, sequence: str) -> bool:
        """Whether there is a terminal that takes control sequences."""
        ...


RunCommand = Callable[[CommandHost, str], Awaitable[None]]
ListArguments = Callable[[CommandHost], Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    name: str
    usage: str
    """The arguments it takes, as help shows them."""
    help: str
    run: RunCommand
    list_arguments: ListArguments | None = None
    """What its first argument can be, each with a word about it."""
    works_alone: bool = False
    """Also where the session cannot be had."""


# Another session takes the place of the one there is, on the same screen.


async def switch_session(
    session: "Session", *, previous: "Session", transcript: "LiveTranscript"
) -> None:
    """`session` is open already: where it cannot be had, nothing may have been ended.

    The mode is the person's, and stays."""
    transcript.load_session(session.facts)
    if session.mode != previous.mode:
        session.set_mode(previous.mode)
    await previous.close(Exit.DONE)


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
            found = completion.find_best(name, self.commands.values(), text=lambda one: one.name)
            return [(f"/{one.name}", one.help, len(typed)) for one in found]
        command = self.commands.get(name)
        if command is None or command.list_arguments is None or " " in rest:
            return []
        choices = completion.find_best(
            rest, command.list_arguments(host), text=lambda choice: choice[0]
        )
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
