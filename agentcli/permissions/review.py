"""The review of a call by rules and mode at one moment, made once.

The verdict, the question, its suggestion and the explanation of a call all read it. What a command
gets beyond the sandbox is one value, in the verdict: the user sees it, the log records it, and the
sandbox is made from it.
"""

from collections.abc import Sequence
from dataclasses import replace

from agentcli.permissions.readonly import LineCoverage
from agentcli.permissions.rules import PermissionRule
from agentcli.permissions.subject import CallSubject
from agentcli.system.grants import find_missing
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, NO_REQUEST, WITHOUT_SANDBOX, Grants
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

    def add_grants(self, verdict: Verdict) -> Verdict:
        """Return a verdict on the call with all its grants.

        If a command needs more than rules give, the verdict asks for exactly what it would get."""
        subject = self.subject
        if subject.line is None or verdict.decision == "deny":
            return verdict
        if not self.has_sandbox:
            return replace(verdict, grants=WITHOUT_SANDBOX)
        given = compute_given(verdict.grants, self.rules)
        if subject.request is NO_REQUEST:
            return replace(verdict, grants=given)
        missing = find_missing(subject.request.grants, given, workspace=subject.root)
        if missing == NO_GRANTS:
            return replace(verdict, grants=given)
        reason = f"it asks for {missing.describe_more()}"
        asking = find_asking_rule(subject, self.rules)
        if asking is not None:
            reason = f"{reason}, and {asking.explain('requires approval')}"
        if verdict.decision == "ask":
            return replace(verdict, reason=f"{verdict.reason}; {reason}", grants=given | missing)
        return Verdict(
            decision="ask",
            by="rule" if asking else "mode",
            reason=reason,
            rule=str(asking) if asking else None,
            grants=given | missing,
        )


def compute_given(grants: Grants, rules: Sequence[PermissionRule]) -> Grants:
    """Return the grants of a command's rules, with the hosts that rules give to every command.

    What a rule denies or asks about is left out. The whole network is left out if there is such a
    rule: nobody could hold it to that."""
    strict = [rule for rule in rules if rule.hosts and rule.decision != "allow"]
    hosts = [host for rule in rules if rule.decision == "allow" for host in rule.hosts]
    given = grants | Grants(hosts=tuple(hosts))
    return replace(
        given,
        network=given.network and not strict,
        hosts=tuple(
            host for host in given.hosts if not any(rule.matches_host(host) for rule in strict)
        ),
    )


def find_asking_rule(
    subject: CallSubject, rules: Sequence[PermissionRule]
) -> PermissionRule | None:
    """Return the rule that asks about a requested host each time, or None."""
    hosts = subject.request.grants.hosts
    asking = (rule for rule in rules if rule.decision == "ask" and rule.hosts)
    return next((rule for rule in asking if any(map(rule.matches_host, hosts))), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """A call that a model is asked to evaluate."""

    call: ToolCall
    effect: Effect
    workspace: str
    mode: Mode
    verdict: Verdict
    """The `ask` that holds if there is no evaluation, with the rule that wants one."""
