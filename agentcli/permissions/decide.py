"""The verdict of rules and mode on a call, before any hook or the user is asked.

The order is the guarantee: deny rules, then plan mode, ask rules, judge rules, allow rules, and
last the mode's default. No later step can lift what an earlier step has refused.

A call is reviewed once: the verdict, the question, its suggestion and the explanation all read that
review. What a command gets beyond the sandbox is one value, in the verdict: the user sees it, the
log records it, and the sandbox is made from it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agentcli.permissions.command_patterns import MatchResult
from agentcli.permissions.granting import decide_host, refuse_request
from agentcli.permissions.readonly import LineCoverage, ReadProver, cover_line, unite_grants
from agentcli.permissions.rules import PermissionRule, RuleDecision
from agentcli.permissions.shell import OpaqueLine, PlainLine
from agentcli.permissions.subject import CallSubject, ReachedPath
from agentcli.system.files import exists
from agentcli.system.files import locate_home as home_of_user
from agentcli.system.grants import find_missing
from agentcli.system.hosts import name_host
from agentcli.system.reserved import (
    find_reserved,
    is_protected,
    is_setting_of_mercurial,
    would_be_in_repository,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, NO_REQUEST, WITHOUT_SANDBOX, Grants
from agentcli.types.own_tools import EDITING
from agentcli.types.tools import Effect
from agentcli.types.verdicts import ApprovalSpan, Mode, Verdict

NO_SANDBOX = "no sandbox works here, so every command needs approval (see agentcli doctor)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConditions:
    """The conditions under which commands run here."""

    prover: ReadProver
    is_confined: bool
    """They run in a sandbox, or the user turned it off. If not, none runs without approval."""
    has_sandbox: bool = True
    """False if it is turned off. If none works here, it does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestReview:
    """The review of a command's request for more than the sandbox gives, by rules."""

    refusal: Verdict | None = None
    asks_each_time: Verdict | None = None
    """The `ask` of a rule for a host of the request."""
    missing: Grants = NO_GRANTS
    """What it asks for and no rule gives."""


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


class PolicyDecider:
    def __init__(
        self,
        *,
        rules: Sequence[PermissionRule],
        find_conditions: Callable[[], CommandConditions],
        is_untrusted: Callable[[], bool] = lambda: False,
        list_own: Callable[[], Sequence[Path]] = tuple,
        list_guarded: Callable[[Path], Sequence[Path]] = lambda root: (),
        asks_outside: bool = False,
        keeps_sandbox: bool = False,
    ) -> None:
        """`find_conditions` may start a sandbox to find out, so it is called for commands alone.
        `is_untrusted` returns whether text from outside the workspace is in the conversation.
        `list_own` returns agentcli's directories, which no command is granted. `list_guarded`
        returns the files and directories below a root that git or Mercurial runs, or reads
        settings from. `asks_outside` means
        that there is a user to ask about reading a path outside the workspace, which otherwise
        fails. `keeps_sandbox` means that no command may run outside of it."""
        self._rules = list(rules)
        self._find_conditions = find_conditions
        self._list_own = list_own
        self._list_guarded = list_guarded
        self._is_untrusted = is_untrusted
        self._asks_outside = asks_outside
        self._keeps_sandbox = keeps_sandbox

    @property
    def session_rules(self) -> tuple[PermissionRule, ...]:
        """The rules added in this session."""
        return tuple(rule for rule in self._rules if rule.source == "session")

    def add(self, rule: PermissionRule) -> None:
        if rule not in self._rules:
            self._rules.append(rule)

    def drop(self, span: ApprovalSpan) -> None:
        """Remove the rules of answers that lasted this long."""
        self._rules = [rule for rule in self._rules if rule.lasts != span]

    def decide(self, subject: CallSubject, *, mode: Mode) -> Verdict:
        """Return allow, ask or deny, with who decided and why, and with the grants."""
        review = self.review(subject, mode=mode)
        return review.add_grants(review.verdict)

    def review(self, subject: CallSubject, *, mode: Mode) -> CallReview:
        """Return what rules and mode say of a call now, before a hook or the user is asked."""
        is_command = subject.line is not None or subject.typed is not None
        conditions = self._find_conditions() if is_command else None
        coverage = self._cover(subject, conditions)
        why_not_read = _why_not_reading(subject, conditions, coverage=coverage)
        asks, judges = self._ask(subject), self._leave_to_model(subject, conditions)
        allows = self._allow(subject, conditions, coverage=coverage)
        has_sandbox = conditions is not None and conditions.is_confined and conditions.has_sandbox
        request = self._review_request(subject, allows, has_sandbox=has_sandbox)
        verdict = (
            self._deny(subject)
            or _deny_in_plan(subject, why_not_read, mode=mode)
            or request.refusal
            or asks
            or self._ask_if_hidden(subject)
            or judges
            or allows
            or (self._ask_outside(subject) if subject.paths else None)
            or _allow_reading(why_not_read, mode=mode)
            or self._decide_by_mode(subject, conditions, coverage=coverage, mode=mode)
        )
        return CallReview(
            subject=subject,
            verdict=_add_directories(verdict, subject),
            asks_each_time=request.asks_each_time or asks or judges,
            why_not_read=why_not_read,
            coverage=coverage,
            missing=request.missing,
            has_sandbox=has_sandbox,
            rules=self._active_rules,
        )

    def proves_read(self, command: str) -> bool:
        """Return whether a command line is known to only read here."""
        conditions = self._find_conditions()
        return conditions.is_confined and conditions.prover.reads(command)

    def decide_host(self, host: str, port: int, grants: Grants) -> Verdict:
        """Return allow, ask or deny for a host that a command with these grants reaches for."""
        return decide_host(host, port, grants, self._active_rules)

    def denies_reading(self, path: ReachedPath, *, root: Path) -> bool:
        """Return whether a rule denies reading this path. For tools that go over many files."""
        subject = CallSubject(
            tool="read_file", effect=Effect.READ, root=root, cwd=root, paths=(path,)
        )
        return self._deny(subject) is not None

    def find_asking(
        self, path: ReachedPath, *, root: Path, named: Sequence[ReachedPath]
    ) -> PermissionRule | None:
        """Return the rule that asks about reading this path, for tools that go over many files.

        None if the rule is about one of the `named` paths, too: then the call was asked about."""
        for rule in (*self._list_rules("ask"), *self._list_rules("judge")):
            if rule.is_about_reading(path, root) and not any(
                rule.is_about_reading(one, root) for one in named
            ):
                return rule
        return None

    def locate_rule(self, verdict: Verdict) -> str:
        """Return the file and line, or the option, of the rule that gave the verdict."""
        named = (verdict.rule or "").split(", ")
        return next((rule.where for rule in self._rules if str(rule) in named), "")

    def _deny(self, subject: CallSubject) -> Verdict | None:
        for rule in self._list_rules("deny"):
            if rule.match_broadly(subject) is MatchResult.YES:
                return _make_verdict(rule, subject, decision="deny", says="forbids it")
            if rule.concerns_content(subject):
                says = f"forbids reading it, {_explain_need(subject)}"
                return _make_verdict(rule, subject, decision="deny", says=says)
        return None

    def _ask(self, subject: CallSubject) -> Verdict | None:
        """Return the `ask` for a call that the user must see, even if rules or mode allow it."""
        for rule in self._list_rules("ask"):
            if rule.match_broadly(subject) is MatchResult.YES:
                return _make_verdict(rule, subject, decision="ask", says="requires approval")
            if rule.concerns_content(subject):
                says = f"requires approval to read it, {_explain_need(subject)}"
                return _make_verdict(rule, subject, decision="ask", says=says)
        if subject.caution:
            reason = f"the provider wants you to confirm it: {subject.caution}"
            return Verdict(decision="ask", by="rule", reason=reason)
        return self._ask_about_later(subject)

    def _ask_about_later(self, subject: CallSubject) -> Verdict | None:
        """Return an `ask` for a file that runs later. No mode and no rule for many files allows
        it."""
        if subject.tool not in EDITING or subject.server:
            return None
        reserved = find_reserved(subject.root)
        for reach in subject.paths:
            for path in (reach.real, reach.written):
                if why := reserved.why_guarded(path) or self._why_run_later(path, subject):
                    reason = f"{reach.written} is protected: {why}"
                    return Verdict(decision="ask", by="rule", reason=reason)
        return None

    def _why_run_later(self, path: Path, subject: CallSubject) -> str:
        """Return why git or Mercurial would run a file, or what it names; empty if not."""
        roots = (subject.root, *subject.added.writable)
        for root in (one for one in roots if path.is_relative_to(one)):
            parts = path.relative_to(root).parts
            if is_protected(root, parts):
                continue  # no tool writes that, whoever allows it
            if is_setting_of_mercurial(parts) or would_be_in_repository(root, parts):
                return "settings there can run programs"
            if any(path.is_relative_to(one) for one in self._list_guarded(root)):
                return "git runs it, or what it names"
        return ""

    def _ask_if_hidden(self, subject: CallSubject) -> Verdict | None:
        """Return an `ask` if the command hides what it runs and a deny or ask rule may match it."""
        if self._was_seen(subject):
            return None
        for rule in (*self._list_rules("deny"), *self._list_rules("ask")):
            if rule.match_broadly(subject) is MatchResult.MAYBE:
                hidden_by = getattr(subject.line, "reason", "code or an alias in it")
                says = f"may apply: {hidden_by} hides what would run"
                verdict = _make_verdict(rule, subject, decision="ask", says=says)
                return replace(verdict, grants=NO_GRANTS)  # it may as well be another command
        return None

    def _was_seen(self, subject: CallSubject) -> bool:
        """Return whether the user has seen exactly this line and allowed it."""
        seen = (rule.line for rule in self._list_rules("allow") if rule.line)
        return subject.line is not None and subject.command in seen

    def _leave_to_model(
        self, subject: CallSubject, conditions: CommandConditions | None
    ) -> Verdict | None:
        """Return the `ask` for a call that a model must judge, even if rules or mode allow it."""
        if self._was_seen(subject):
            return None
        for rule in self._list_rules("judge"):
            if rule.match_broadly(subject) is MatchResult.YES or rule.concerns_content(subject):
                verdict = _make_verdict(
                    rule, subject, decision="ask", says="asks a model to decide"
                )
                if (
                    subject.line is not None
                    and conditions is not None
                    and not conditions.is_confined
                ):
                    return replace(verdict, reason=f"{verdict.reason}, but {NO_SANDBOX}")
                return replace(verdict, by="evaluator")
        return None

    def _allow(
        self,
        subject: CallSubject,
        conditions: CommandConditions | None,
        *,
        coverage: LineCoverage | None,
    ) -> Verdict | None:
        permitting = [rule for rule in self._list_rules("allow") if rule.permits_call(subject)]
        if conditions is not None and not conditions.is_confined:
            # Rules rely on the sandbox. An exact line that the user has seen is their own approval.
            permitting = [rule for rule in permitting if rule.line is not None]
        elif coverage is not None and not permitting:
            return _allow_by_parts(subject, coverage)
        if not permitting:
            return None
        verdict = _make_verdict(permitting[0], subject, decision="allow", says="allows it")
        return replace(verdict, grants=unite_grants(permitting))

    def _ask_outside(self, subject: CallSubject) -> Verdict | None:
        """Return an `ask` for reading outside the workspace, but for the user's keys."""
        for reach in subject.outside if self._asks_outside else ():
            if not why_unreachable(reach):
                reason = f"{reach.written} is outside the workspace"
                return Verdict(decision="ask", by="mode", reason=reason)
        return None

    def _decide_by_mode(
        self,
        subject: CallSubject,
        conditions: CommandConditions | None,
        *,
        coverage: LineCoverage | None,
        mode: Mode,
    ) -> Verdict:
        if conditions is None:
            reason = _why_mode_asks(subject, mode=mode)
        else:
            reason = self._why_command_asks(subject, conditions, coverage=coverage, mode=mode)
        if reason is None:
            reason = f"{mode} mode allows it"
            return Verdict(decision="allow", by="mode", reason=reason, mode=mode)
        return Verdict(decision="ask", by="mode", reason=reason)

    def _why_command_asks(
        self,
        subject: CallSubject,
        conditions: CommandConditions,
        *,
        coverage: LineCoverage | None,
        mode: Mode,
    ) -> str | None:
        """Return why the mode does not allow a command, or input for one; None if it does."""
        if not conditions.is_confined:
            return NO_SANDBOX
        if subject.typed is not None:
            return self._why_input_asks(subject, mode=mode)
        if mode == "auto":
            return None
        if isinstance(subject.line, OpaqueLine):
            return f"it contains {subject.line.reason}, so no rule for a program applies"
        return "; ".join(one.reason for one in coverage.uncovered) if coverage else None

    def _why_input_asks(self, subject: CallSubject, *, mode: Mode) -> str | None:
        """Return why the mode does not allow input for a running command; None if it does.

        The user has seen the command that got more than others, and not what is typed into it."""
        given = compute_given(subject.added, self._active_rules)
        more = find_missing(subject.held, given, workspace=subject.root)
        if more != NO_GRANTS:
            return f"it is input for a command with more than others: {more.describe_more()}"
        if mode == "auto":
            return None
        return f"input for {subject.receiver or 'a command'} needs your OK in {mode} mode"

    def _review_request(
        self, subject: CallSubject, allows: Verdict | None, *, has_sandbox: bool
    ) -> _RequestReview:
        asked, rules = subject.request.grants, self._active_rules
        if asked == NO_GRANTS:
            return _RequestReview()
        asks = None
        if asking := find_asking_rule(subject, rules):
            asks = _make_verdict(asking, subject, decision="ask", says="requires approval")
        missing = NO_GRANTS
        if has_sandbox:
            given = compute_given((allows.grants if allows else NO_GRANTS) | subject.added, rules)
            missing = find_missing(asked, given, workspace=subject.root)
        refusal = refuse_request(
            subject, rules, own=self._list_own(), keeps_sandbox=self._keeps_sandbox
        )
        return _RequestReview(refusal=refusal, asks_each_time=asks, missing=missing)

    def _cover(
        self, subject: CallSubject, conditions: CommandConditions | None
    ) -> LineCoverage | None:
        if conditions is None or not isinstance(subject.line, PlainLine):
            return None
        return cover_line(
            subject.line,
            subject,
            rules=self._active_rules,
            prover=conditions.prover,
            reads_alone=conditions.is_confined,
        )

    def _list_rules(self, decision: RuleDecision) -> list[PermissionRule]:
        return [rule for rule in self._active_rules if rule.decision == decision]

    @property
    def _active_rules(self) -> list[PermissionRule]:
        """The rules that are valid now, by their `when`."""
        return [rule for rule in self._rules if rule.when == "always" or self._is_untrusted()]


def why_unreachable(reach: ReachedPath) -> str:
    """Return why no approval lets a tool read a path outside the workspace; empty if one does."""
    keys = find_reserved(Path(os.path.realpath(home_of_user())))
    return keys.why_hidden(reach.real) or ("" if exists(reach.real) else "it does not exist")


def _why_not_reading(
    subject: CallSubject, conditions: CommandConditions | None, *, coverage: LineCoverage | None
) -> str | None:
    """Return why the call is not known to only read; None if it only reads."""
    if subject.line is None:
        # What a poll prints was allowed with its command.
        is_read = subject.effect is Effect.READ or subject.is_poll
        return None if is_read else f"{subject.tool} is not read-only"
    if conditions is None or not conditions.is_confined:
        return NO_SANDBOX
    if isinstance(subject.line, OpaqueLine):
        return f"{subject.line.reason} cannot be checked"
    return coverage.why_not_read if coverage else None


def _deny_in_plan(subject: CallSubject, why_not_read: str | None, *, mode: Mode) -> Verdict | None:
    # What is on the web is only read. A page's host must be approved nevertheless.
    if mode != "plan" or why_not_read is None or subject.host or subject.is_search:
        return None
    return Verdict(decision="deny", by="mode", reason=f"plan mode is read-only: {why_not_read}")


def _allow_by_parts(subject: CallSubject, coverage: LineCoverage) -> Verdict | None:
    if coverage.uncovered or not coverage.used:
        return None
    if coverage.grants == NO_GRANTS and not coverage.needs_rule:
        return None  # what only reads needs no rule, unless a rule gives it more
    verdict = _make_verdict(coverage.used[0], subject, decision="allow", says="allows it")
    named = ", ".join(dict.fromkeys(map(str, coverage.used)))
    return replace(verdict, rule=named, grants=coverage.grants)


def _allow_reading(why_not_read: str | None, *, mode: Mode) -> Verdict | None:
    if why_not_read is not None:
        return None
    return Verdict(decision="allow", by="mode", reason=f"{mode} mode allows reading")


def _why_mode_asks(subject: CallSubject, *, mode: Mode) -> str | None:
    """Return why the mode does not allow a call that is no command; None if it does."""
    if subject.is_search:
        return None  # the user has chosen the engine, and it is sent nothing but the query
    if subject.host or subject.page:
        return _why_host_asks(subject)
    if subject.effect is Effect.NETWORK:
        return "it uses the network"
    is_free = mode == "auto" or (mode == "auto-edit" and subject.effect is Effect.WRITE)
    if subject.takes_path and (reason := _why_not_editable(subject)):
        return reason
    if is_free:
        return None
    what = "edits need" if subject.tool in EDITING else f"{subject.tool} needs"
    return f"{what} your OK in {mode} mode"


_ACTS = {"look": "look at", "click": "click at", "type": "type at", "navigate": "open"}
"""The classes of actions in the browser, as words before a host."""


def _why_host_asks(subject: CallSubject) -> str:
    if subject.host:
        return f"no rule allows pages of {name_host(subject.host)}"
    acts = " and ".join(_ACTS[act] for act in sorted(subject.acts))
    return f"no rule allows the browser to {acts} {name_host(subject.page)}"


def _add_directories(verdict: Verdict, subject: CallSubject) -> Verdict:
    """Return the verdict with what the user added to the workspace, or lets this call read."""
    if verdict.decision == "deny":
        return verdict
    added = subject.added if subject.line is not None else NO_GRANTS
    if subject.paths and (verdict.decision == "ask" or verdict.by == "rule"):
        added |= Grants(readable=tuple(reach.real for reach in subject.outside))
    return verdict if added == NO_GRANTS else replace(verdict, grants=verdict.grants | added)


def _why_not_editable(subject: CallSubject) -> str | None:
    roots = (subject.root, *subject.added.writable)
    for reach in subject.paths:
        if reach.is_temporary:
            continue
        root = next((one for one in roots if reach.real.is_relative_to(one)), None)
        if root is None:
            return f"{reach.written} is outside the workspace"
        if is_protected(root, reach.real.relative_to(root).parts):
            return f"{reach.written} belongs to git or to agentcli's settings"
    return None if subject.paths else "the path is unknown"


def _explain_need(subject: CallSubject) -> str:
    return f"and {subject.tool} needs to know what is in it"


def _make_verdict(
    rule: PermissionRule,
    subject: CallSubject,
    *,
    decision: Literal["allow", "ask", "deny"],
    says: str,
) -> Verdict:
    if rule.when == "untrusted":
        says = f"{says} while text from outside the workspace is in the conversation"
    matched = (
        subject.command
        or subject.host
        or subject.page
        or ", ".join(str(reach.written) for reach in subject.paths)
    )
    return Verdict(
        decision=decision,
        by="rule",
        reason=rule.explain(says),
        rule=str(rule),
        matched=matched or subject.tool,
        grants=rule.grants if decision != "deny" else NO_GRANTS,
    )
