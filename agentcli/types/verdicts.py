"""Verdicts: one per call, and the question to the user if a rule asks for one."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.forms import ServerForm
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Details, Effect, Output, PreparedCall

Mode = Literal["plan", "ask", "auto-edit", "auto"]
MODES: tuple[Mode, ...] = ("plan", "ask", "auto-edit", "auto")


@dataclass(slots=True, kw_only=True)
class CurrentMode:
    """The mode of a session, shared by its hooks and its judge. The user may change it."""

    value: Mode


Decision = Literal["allow", "modify", "ask", "deny"]
By = Literal["mode", "rule", "hook", "evaluator", "user", "nobody"]
ProgramSpan = Literal["once", "turn", "session"]
"""The spans of approvals that a program can give: it stores no rules."""
ApprovalSpan = Literal[ProgramSpan, "always"]
SPAN_WORDS: dict[ApprovalSpan, str] = {
    "once": "once",
    "turn": "for this turn",
    "session": "for this session",
    "always": "always",
}
LASTING: dict[ApprovalSpan | None, str] = {
    "turn": "this turn",
    "session": "this session",
    "always": "this session",
}
"""The spans of answers that become rules, and what such a rule names as its origin. They end in
`session/permission_gate` (`end_turn`), or with the session. What is "always" is also in a file.
One that ended by time would be checked in `permissions/decide` (`_active_rules`)."""
WIDE: frozenset[ApprovalSpan | None] = frozenset({"turn", "session"})
"""The spans whose yes covers all calls of the same kind. That of others covers what was asked."""
INHERITED: frozenset[ApprovalSpan | None] = frozenset({"session", "always"})
"""The spans whose rules also hold for an agent in a workspace of its own: it may outlive a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    decision: Decision
    by: By
    """The source of the verdict; `nobody` if the user should have been asked but there was none."""
    reason: str
    rule: str | None = None
    matched: str | None = None
    """The part of the call that the rule matched."""
    input: Json = None
    """With `modify`, the arguments to run instead: the model is informed. With `deny`, those that
    the user or a hook wanted instead, which were refused."""
    remedy: str = ""
    """With `nobody`, the command-line options that would have permitted the call."""
    grants: Grants = NO_GRANTS
    """The grants of the command beyond the workspace, if it runs."""
    lasts: ApprovalSpan | None = None
    """How long the user's answer to a call lasts. None if it is for this call alone."""
    instead: str = ""
    """What the user said with the answer: what to do instead of a call that they denied, in the
    reason, too, or what to heed with one that they allowed. The model is told."""
    mode: Mode | None = None
    """The mode that allowed it, if that is more than reading."""

    @property
    def is_lasting(self) -> bool:
        """True for an answer about more than this one call: it becomes a rule of the session."""
        return self.decision in ("allow", "deny") and self.lasts in LASTING


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """The child agent that makes a call, and the task it was given."""

    child_id: str
    role: str
    """Empty if it has none."""
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSuggestion:
    """The rules that would allow a call from now on, exactly as they would be stored."""

    rules: tuple[str, ...] = ()
    """The rules that "always" would store. Empty if none can be stored; `reason` says why."""
    reason: str = ""
    session: str = ""
    """A description of what "this session" would cover."""
    session_rules: tuple[str, ...] = ()
    """The rules for "this session", if they are wider than those that would be stored."""
    uncovered: tuple[str, ...] = ()
    """The parts of a command line that are not allowed yet, as written."""
    grants: Grants = NO_GRANTS
    """What each of the rules would give to its commands."""

    def describe_rules(self) -> tuple[str, ...]:
        """Return each rule with what it would give, in one line for the user."""
        if self.grants == NO_GRANTS:
            return self.rules
        more = self.grants.describe_more()
        return tuple(f"{rule} with {more}" if more else rule for rule in self.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    call: ToolCall
    effect: Effect
    preview: Details | None
    verdict: Verdict
    """The `ask` that led here, with its reason."""
    own_input: Json = None
    """The input under the tool's own names; None if it is no call of a tool."""
    suggestion: RuleSuggestion = RuleSuggestion()
    """What to offer for "this session" and "always"."""
    child: Delegation | None = None
    """None if the call is one of the session's own."""
    wanted_for: str = ""
    """The words of the model on why a command needs more than the sandbox gives."""
    form: ServerForm | None = None
    """The form, if a server asks. A yes is `modify`, with the values filled in as `input`, or
    `allow` if there is nothing to fill in. `ask` is returned if no answer was given."""


class AskUser(Protocol):
    """A front end that can ask the user a question."""

    async def __call__(self, question: Question) -> Verdict:
        """Return allow, modify or deny, by `user`."""
        ...


class Preview(Protocol):
    """Computes what a call would do. Called only if somebody has to be asked."""

    async def __call__(self) -> Details | None: ...


class Judge(Protocol):
    """Decides on a call that resolved and parsed. Must not run anything of the call itself."""

    async def __call__(self, call: PreparedCall, /, *, preview: Preview) -> Verdict:
        """Return allow, modify or deny: an `ask` has been answered, or nobody was there to ask."""
        ...


class JudgeHost(Protocol):
    """Decides whether a running command may reach a host. Asked once for each host and port."""

    async def __call__(self, call_id: str, host: str, port: int, grants: Grants, /) -> Verdict:
        """Return allow or deny. `grants` are those of the command."""
        ...


class AnswerGit(Protocol):
    """Answers a request for credentials by git in a running command, which has that grant."""

    async def __call__(
        self, call_id: str, asked: str, may_reach: Callable[[str, int], Awaitable[bool]], /
    ) -> str:
        """Return lines as git reads them. `may_reach` says whether the command reaches a host.

        Raise ValueError with the reason if there is no answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureRequest:
    """A signature of the user's ssh agent that a running command asks for."""

    key: str
    """The kind of the key, its fingerprint and its comment."""
    purpose: str
    """What would be signed, as `log in as git at code.example.org`."""
    is_expected: bool
    """True for a login at a server that the command may reach: what the grant is meant for."""


class JudgeSignature(Protocol):
    """Decides whether a running command, which has that grant, gets a signature."""

    async def __call__(self, call_id: str, request: SignatureRequest, /) -> Verdict:
        """Return allow or deny."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """The reaction of a hook to a tool's output."""

    hook: str
    decision: Literal["observed", "transformed", "rejected", "failed"]
    output: Output | None = None
    """With `transformed`, the output to use instead."""
    reason: str = ""
    event: str = "PostToolUse"
