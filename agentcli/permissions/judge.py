"""The judge of every call: rules and mode, then hooks, a model, the user, and one verdict.

What rules or plan mode refuse stays refused: nobody else is even asked. Arguments that a hook or
the user changed are judged again before they may run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from agentcli.permissions.decide import CallReview, PolicyDecider
from agentcli.permissions.rules import make_answer_rule, make_line_rule
from agentcli.permissions.subject import KNOWN_TOOLS, CallSubject, SubjectFactory
from agentcli.permissions.suggest import (
    find_remedy,
    format_options,
    suggest_for_call,
    suggest_rules,
)
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Details, Effect, PreparedCall
from agentcli.types.verdicts import (
    WIDE,
    AskUser,
    By,
    CurrentMode,
    Decision,
    Delegation,
    Mode,
    Preview,
    Question,
    RuleSuggestion,
    Verdict,
)

if TYPE_CHECKING:
    from agentcli.permissions.hooks import HookRunner, HookVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """A call that a model is asked to evaluate."""

    call: ToolCall
    effect: Effect
    workspace: str
    mode: Mode
    verdict: Verdict
    """The `ask` that holds if there is no evaluation, with the rule that wants one."""


Evaluate: TypeAlias = Callable[[EvaluationRequest], Awaitable[Verdict]]

_RULES_OPTION = "--policy FILE"
"""The option for a file of rules, which give what no other option can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedCall:
    """One call and everything known about it."""

    prepared: PreparedCall
    review: CallReview
    """What rules and mode said of it last: they are asked again after every wait."""
    preview: Preview | None
    """None if the arguments were changed, since the prepared preview is then out of date."""
    child: Delegation | None


class PolicyJudge:
    def __init__(
        self,
        *,
        mode: CurrentMode,
        decider: PolicyDecider,
        subjects: SubjectFactory,
        ask_user: AskUser | None,
        hooks: "HookRunner | None" = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        """If `ask_user` is None, nobody can be asked, and what would be asked is denied.
        `evaluate` asks a model where a rule wants it; if it is None, the user is asked."""
        self.mode = mode
        self._decider = decider
        self._subjects = subjects
        self._ask_user = ask_user
        self._hooks = hooks
        self._evaluator = evaluate
        self._one_approval_at_a_time = asyncio.Lock()

    async def __call__(
        self, call: PreparedCall, /, *, preview: Preview, child: Delegation | None = None
    ) -> Verdict:
        """Return the verdict. `child` is the calling agent, if it is not the session's own."""
        case = self._build_case(call, preview=preview, child=child)
        if case.review.verdict.decision == "deny":
            return case.review.verdict
        if self._hooks is None:
            return await self._judge(case, None)
        by_hooks = await self._hooks.run_before(call, child)
        if by_hooks.decision == "deny":
            return _make_hook_verdict("deny", by_hooks)
        case = self._renew(case)
        if by_hooks.input is not None:
            changed = self._change_input(case, by_hooks.input, by="hook")
            if isinstance(changed, Verdict):
                return changed
            case = changed
        verdict = await self._judge(case, by_hooks)
        if by_hooks.input is None or verdict.decision != "allow":
            return verdict
        reason = f"{verdict.reason}; the arguments were changed by hook {by_hooks.hook}"
        return replace(verdict, decision="modify", input=by_hooks.input, reason=reason)

    def _build_case(
        self, prepared: PreparedCall, *, preview: Preview | None, child: Delegation | None
    ) -> _JudgedCall:
        # Rules see the arguments as the tool understands them, whatever names the model used.
        spec = prepared.tool.spec
        subject = self._subjects.build(
            spec.name, prepared.args, effect=prepared.effect, source=spec.source
        )
        review = self._review(subject)
        return _JudgedCall(prepared=prepared, review=review, preview=preview, child=child)

    def _review(self, subject: CallSubject) -> CallReview:
        return self._decider.review(subject, mode=self.mode.value)

    def _renew(self, case: _JudgedCall) -> _JudgedCall:
        """Return the case as rules and mode see it now, after a wait."""
        return replace(case, review=self._review(case.review.subject))

    def _change_input(self, case: _JudgedCall, new_input: Json, *, by: By) -> _JudgedCall | Verdict:
        """Return the case with other arguments, or the refusal of these arguments."""
        tool, call = case.prepared.tool, replace(case.prepared.call, input=new_input)
        try:
            args = tool.parse(new_input)
            prepared = PreparedCall(call=call, tool=tool, args=args, effect=tool.effect(args))
            changed = self._build_case(prepared, preview=None, child=case.child)
        except ToolError as error:
            reason = f"the changed arguments are not valid: {error}"
            return Verdict(decision="deny", by=by, reason=reason, input=new_input)
        verdict = changed.review.verdict
        return verdict if verdict.decision == "deny" else changed

    async def _judge(self, case: _JudgedCall, by_hooks: "HookVerdict | None") -> Verdict:
        on_call = _apply_hooks(case.review.verdict, by_hooks)
        if on_call.by == "evaluator" and self._evaluator is not None:
            on_call = await self._evaluator(self._build_evaluation(case, on_call))
            case = self._renew(case)
        verdict = case.review.add_grants(on_call)
        if verdict.decision != "ask":
            return verdict
        if answer := await self._ask_hooks(case, on_call):
            return answer
        if self._ask_user is None:
            return _deny_unattended(case.review, verdict, is_call_open=on_call.decision == "ask")
        async with self._one_approval_at_a_time:
            # The answer to the previous question may have been "for the whole session".
            case = self._renew(case)
            now = case.review.add_grants(_apply_hooks(case.review.verdict, by_hooks))
            if now.decision != "ask":
                return now
            answer = await self._ask(case, verdict)
        if answer.by == "nobody":  # whoever could answer is gone
            is_open = on_call.decision == "ask"
            unattended = _deny_unattended(case.review, verdict, is_call_open=is_open)
            return replace(answer, remedy=unattended.remedy)
        return answer

    async def _ask_hooks(self, case: _JudgedCall, verdict: Verdict) -> Verdict | None:
        """Return the answer of a PermissionRequest hook, or None if the user must give it.

        Like other hooks they lift no rule, and give nothing beyond the sandbox."""
        if self._hooks is None:
            return None
        said = await self._hooks.run_permission_request(case.prepared, case.child)
        if said.decision == "deny":
            return _make_hook_verdict("deny", said)
        if said.decision != "allow" or verdict.by != "mode":
            return None
        allowed = self._renew(case).review.add_grants(_make_hook_verdict("allow", said))
        return allowed if allowed.decision == "allow" else None

    def _build_evaluation(self, case: _JudgedCall, verdict: Verdict) -> EvaluationRequest:
        return EvaluationRequest(
            call=case.prepared.call,
            effect=case.prepared.effect,
            workspace=str(case.review.subject.root),
            mode=self.mode.value,
            verdict=verdict,
        )

    async def _ask(self, case: _JudgedCall, verdict: Verdict) -> Verdict:
        assert self._ask_user is not None
        preview = await self._preview(case)
        question = Question(
            call=case.prepared.call,
            effect=case.prepared.effect,
            preview=preview,
            verdict=verdict,
            own_input=case.prepared.own_input,
            suggestion=_suggest(case.review),
            child=case.child,
            wanted_for=case.review.subject.request.reason,
        )
        answer = await self._ask_user(question)
        # A yes gives exactly what the question showed, and nothing else gives anything.
        is_yes = answer.decision in ("allow", "modify")
        answer = replace(answer, grants=verdict.grants if is_yes else NO_GRANTS)
        return self._apply_answer(case, answer)

    async def _preview(self, case: _JudgedCall) -> Details | None:
        """Return the preview. Raise ToolError if it cannot be made: then nobody is asked.

        The reason of the error may reveal what is in a file. If reading that file would be asked
        about or denied, return None instead, so that the question comes first."""
        try:
            return await case.preview() if case.preview else None
        except ToolError:
            reading = replace(case.review.subject, tool="read_file", effect=Effect.READ)
            verdict = self._decider.decide(reading, mode=self.mode.value)
            if verdict.decision == "allow":
                raise
            return None

    def _apply_answer(self, case: _JudgedCall, answer: Verdict) -> Verdict:
        """Return the user's answer as far as rules permit: typed arguments can be refused, too."""
        if answer.decision == "modify":
            changed = self._change_input(case, answer.input, by="user")
            return changed if isinstance(changed, Verdict) else answer
        if answer.is_lasting:
            self._remember(self._renew(case), answer)
        if answer.decision == "ask":
            return replace(answer, decision="deny", reason=answer.reason or "no answer")
        return answer

    def _remember(self, case: _JudgedCall, answer: Verdict) -> None:
        """Add the rules of an answer. It has the grants that the question showed."""
        if case.review.asks_each_time and answer.decision == "allow":
            return
        subject = case.review.subject
        tools = KNOWN_TOOLS | {subject.tool}
        suggested = suggest_rules(case.review)
        is_exact = suggested.grants.outside  # such a grant is never for more than the line itself
        is_wide = answer.decision == "allow" and answer.lasts in WIDE
        wider = suggested.session_rules if is_wide else ()
        for text in () if is_exact else wider or suggested.rules:
            self._decider.add(make_answer_rule(text, answer, tools=tools, grants=suggested.grants))
        still = self._decider.decide(subject, mode=self.mode.value)
        if still.decision == "ask" and subject.line is not None:
            self._decider.add(make_line_rule(subject.command, answer))


def _apply_hooks(verdict: Verdict, by_hooks: "HookVerdict | None") -> Verdict:
    """Return the verdict on a call after its hooks: they lift no rule."""
    if by_hooks is None:
        return verdict
    is_open = verdict.decision == "allow" or verdict.by == "evaluator"
    if by_hooks.decision in ("ask", "failed") and is_open:
        return replace(_make_hook_verdict("ask", by_hooks), grants=verdict.grants)
    if by_hooks.decision == "allow" and verdict.decision == "ask" and verdict.by == "mode":
        return _make_hook_verdict("allow", by_hooks)
    return verdict


def _suggest(review: CallReview) -> RuleSuggestion:
    """Return the rules to offer. There are none if a rule asks about each such call."""
    asks = review.asks_each_time
    return RuleSuggestion(reason=asks.reason) if asks else suggest_rules(review)


def _deny_unattended(review: CallReview, verdict: Verdict, *, is_call_open: bool) -> Verdict:
    """Return a denial that says what would have permitted the call."""
    suggestion = suggest_rules(review)
    remedy, only_by_rule = find_remedy(suggestion, is_call_open=is_call_open)
    way = ""
    if verdict.by != "mode":
        remedy, way = "", "; only a user can approve it"
    elif only_by_rule:
        named = " and ".join(suggestion.rules) or "one for a simpler command"
        remedy = _RULES_OPTION
        way = f"; only a rule can give that: {named} with {only_by_rule}"
    elif is_call_open and not suggestion.rules:
        remedy, way = _find_wide_remedy(review.subject, suggestion, reason=verdict.reason)
    reason = f"{verdict.reason}, and this run cannot ask{way}"
    return replace(
        verdict, decision="deny", by="nobody", reason=reason, remedy=remedy, grants=NO_GRANTS
    )


def _find_wide_remedy(
    subject: CallSubject, suggestion: RuleSuggestion, *, reason: str
) -> tuple[str, str]:
    if subject.line is None:
        why = f" ({suggestion.reason})" if suggestion.reason != reason else ""
        return "", f"; no rule can allow it{why}"
    rules = suggest_for_call(subject, suggestion)
    remedy = format_options(rules, suggestion.grants.hosts)
    return remedy, "; a rule could allow a simpler command"


def _make_hook_verdict(decision: Decision, by_hooks: "HookVerdict") -> Verdict:
    return Verdict(decision=decision, by="hook", reason=f"hook {by_hooks.hook}: {by_hooks.reason}")
