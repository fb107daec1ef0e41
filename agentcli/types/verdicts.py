"""What may happen: one verdict per call, and the question to a person where a rule asks for one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Details, Effect, Output, Tool

if TYPE_CHECKING:
    from subprocess import Popen


# What a server asks a person: fields to fill in, a page to open, or a plain yes.


FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Json = None
    """What the server proposes; None: nothing."""
    choices: tuple[tuple[str, str], ...] = ()
    """Each a value and what to show for it; in `choices` several can be taken."""
    least: float | None = None
    most: float | None = None
    """Of a number; of a text its characters, of choices how many."""
    format: str = ""
    """email, uri, date or date-time; empty: any text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerForm:
    """With neither fields nor an address it is a question for a yes."""

    server: str
    kind: Literal["form", "url", "tools"]
    message: str
    fields: tuple[FormField, ...] = ()
    url: str = ""
    """A page to be opened, if the person says yes."""


FormValues: TypeAlias = dict[str, str | int | float | bool | list[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormAnswer:
    action: Literal["accept", "decline", "cancel"]
    """Cancelled: the person gave no answer."""
    values: FormValues | None = None


Mode = Literal["plan", "ask", "auto-edit", "auto"]
MODES: tuple[Mode, ...] = ("plan", "ask", "auto-edit", "auto")

Decision = Literal["allow", "modify", "ask", "deny"]
By = Literal["mode", "rule", "hook", "evaluator", "person", "nobody"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """What a command may reach beyond the workspace. Set by rules and people, never by a model."""

    network: bool = False
    writable: tuple[Path, ...] = ()


NO_GRANTS = Grants()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    decision: Decision
    by: By
    """Who gave it; `nobody`: a person would have been asked, and there was none."""
    reason: str
    rule: str | None = None
    matched: str | None = None
    """The part of the call that the rule matched."""
    input: Json = None
    """With `modify`: the arguments to run instead. The model is told."""
    remedy: str = ""
    """With `nobody`: the options of the command line that would have permitted the call."""
    confinement: Grants = NO_GRANTS
    """What a command gets beyond the workspace, if it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """The child agent that makes a call, and what it was sent to do."""

    child_id: str
    role: str
    """Empty: it has none."""
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    call: ToolCall
    effect: Effect
    preview: Details | None
    verdict: Verdict
    """The `ask` that led here, with its reason."""
    child: Delegation | None = None
    """None: the call is one of the session's own."""
    form: ServerForm | None = None
    """Where it is a server that asks: a yes is `modify`, with what was filled in as `input`, or
    `allow` where there is nothing to fill in; `ask` comes back where no answer was given."""


class AskUser(Protocol):
    """A face that can put a question to a person."""

    async def __call__(self, question: Question) -> Verdict:
        """Must answer allow, modify or deny, by `person`."""
        ...


class Preview(Protocol):
    """Computes what a call would do, only when somebody has to be asked."""

    async def __call__(self) -> Details | None: ...


class Judge(Protocol):
    """Decides on a call that resolved and parsed. Must not run anything of the call itself."""

    async def __call__(
        self, call: ToolCall, /, *, tool: Tool, effect: Effect, preview: Preview
    ) -> Verdict:
        """Returns allow, modify or deny: an `ask` has been put to somebody, or to nobody."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What something that looks at a tool's output made of it."""

    hook: str
    decision: Literal["observed", "transformed", "rejected", "failed"]
    output: Output | None = None
    """With `transformed`: what to use instead."""
    reason: str = ""


class Sandbox(Protocol):
    """Starts processes, confined. Must not start them unconfined when it cannot confine."""

    @property
    def name(self) -> str: ...

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        grants: Grants,
        stdin: int = ...,
        stderr: int = ...,
        waits: bool = ...,
    ) -> "Popen[bytes]":
        """Runs argv in a session of its own, with these handles for its streams.

        Unless they are given, stdin is empty and stderr is joined to `stdout`. Takes
        a few milliseconds, the first time more; may be called from any thread.

        `waits`: it does nothing until somebody lets it go, who asks `attend` just before.
        """
        ...

    def attend(self, process: "Popen[bytes]") -> bool:
        """Of a process that waited: looks after it from now on, as after any that was started.

        False: what it was confined to is not the same any more, so it may not be let go.
        """
        ...

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        """Once for every process, after it has ended and was waited for, from any thread.

        Undoes what the command may not have done; returns sentences about it for the model and
        the person, and why the sandbox stopped the command, if it did.
        """
        ...

    def close(self) -> None:
        """At the end of the session: nothing can be started any more."""
        ...
