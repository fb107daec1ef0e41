"""The review of a call by rules and mode at one moment, made once.

The verdict, the question, its suggestion and the explanation of a call all read it.
"""

from collections.abc import Sequence

from agentcli.permissions.coverage import LineCoverage
from agentcli.permissions.rules import PermissionRule
from agentcli.permissions.subject import CallSubject
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReview:
    subject: CallSubject
    verdict: Verdict
    """The verdict on the call alone, whatever it needs beyond the sandbox. An `ask` by the
    evaluator is provisional: it holds until the model has been asked."""
    asks_each_time: Verdict | None
    """The `ask` of a rule that no lasting answer can silence, if there is one."""
    why_not_read: str | None
    """The reason why it does not only read; None if it only reads."""
    coverage: LineCoverage | None
    """How far rules cover a command line; None if it is not plain, or no command."""
    missing: Grants
    """What a command needs and no rule gives."""
    has_sandbox: bool
    """True if it is a command that runs in a sandbox."""
    rules: Sequence[PermissionRule]
    """The rules that were valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """A call that a model is asked to evaluate."""

    call: ToolCall
    effect: Effect
    workspace: str
    mode: Mode
    verdict: Verdict
    """The `ask` that holds if there is no evaluation, with the rule that wants one."""
