"""What a slash command can reach: the session, the screen, and the few things it may change."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentcli.settings import Settings
from agentcli.types.record import dataclass
from agentcli.types.verdicts import Mode

if TYPE_CHECKING:
    from agentcli.app.session import Session
    from agentcli.record.place import SessionPaths
    from agentcli.ui.repl.stage import TranscriptRenderer


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
