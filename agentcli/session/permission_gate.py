"""The permission gate between a call and the machine: rules, hooks, a model, and the user.

The judge is created at the first call: the first request does not need it. Only the rules are read
at once, so that the user learns of unreadable rules without waiting for a model.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentcli.agent.dispatch import Clean
from agentcli.permissions.masking import EventMasking, restore_answer
from agentcli.permissions.secrets import Redactor
from agentcli.session.configuration import Configuration, keeps_sandbox
from agentcli.session.model import SessionModel
from agentcli.session.sandbox_host import SandboxHost, list_guarded
from agentcli.settings import RULES_FILE, get_user_directory
from agentcli.system.files import build_unwritable_error
from agentcli.system.hosts import join_port
from agentcli.types.computer import COMPUTER
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Fact
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.own_tools import WEB_FETCH
from agentcli.types.tools import Effect, Output, PreparedCall
from agentcli.types.verdicts import (
    MODES,
    AskUser,
    CurrentMode,
    Delegation,
    Mode,
    Preview,
    Question,
    RuleSuggestion,
    SignatureRequest,
    Verdict,
)

if TYPE_CHECKING:
    from agentcli.permissions.decide import PolicyDecider
    from agentcli.permissions.granting import HostJudge, RunningCommand, SignatureJudge
    from agentcli.permissions.hooks import HookRunner
    from agentcli.permissions.judge import EvaluationRequest, PolicyJudge
    from agentcli.permissions.provenance import OriginTracker
    from agentcli.permissions.rules import PermissionRule
    from agentcli.permissions.subject import CallSubject, SubjectFactory

_CALLS_KEPT = 100


# The model that evaluates a call if a rule says `judge`, opened at the first such call.


class CallEvaluator:
    def __init__(self, *, model: SessionModel, session: str, clean: Clean, emit: Emit) -> None:
        self._model = model
        self._session = session
        self._clean = clean
        self._emit = emit

    async def __call__(self, request: "EvaluationRequest") -> Verdict:
        from agentcli.agent.usage_recorder import RecordingProvider
        from agentcli.permissions.evaluator import ModelEvaluator

        try:
            asked = self._model.open_evaluator()
        except SettingsError as error:
            reason = f"no model to ask: {error} ({request.verdict.reason})"
            return replace(request.verdict, reason=reason)
        provider = RecordingProvider(asked.provider, emit=self._emit, price=asked.price)
        evaluate = ModelEvaluator(
            provider, model=asked.name, session=self._session, clean=self._clean
        )
        return await evaluate(request)


class PermissionGate:
    def __init__(
        self,
        configuration: Configuration,
        host: SandboxHost,
        *,
        redactor: Redactor,
        mode: CurrentMode | None = None,
        ask_user: AskUser | None = None,
        hooks: "HookRunner | None" = None,
        notify: Callable[[Question], None] | None = None,
        evaluator: CallEvaluator | None = None,
        facts: Sequence[Fact] = (),
        find_added: Callable[[], Grants] = lambda: NO_GRANTS,
    ) -> None:
        """`mode` is shared with the hooks; if None, it is that of the settings. `ask_user` is None
        if nobody can be asked. `notify` learns of every question. `facts` are the session's so
        far. `find_added` returns the directories that the user added to the workspace."""
        self.host = host
        self.redactor = redactor
        self.find_added = find_added
        self.can_ask: bool = ask_user is not None
        self._settings = configuration.settings
        self._rules = configuration.rules
        self._mode = mode or CurrentMode(value=self._settings.mode)
        self._ask_user = ask_user
        self._hooks = hooks
        self._notify = notify
        self._evaluator = evaluator
        self._past = facts
        self._calls: dict[str, tuple[PreparedCall, Delegation | None]] = {}
        """The calls that were judged last, for questions while their commands run."""
        self._one_question_at_a_time = asyncio.Lock()

    async def judge(
        self, call: PreparedCall, /, *, preview: Preview, child: Delegation | None = None
    ) -> Verdict:
        verdict = await self._policy_judge(call, preview=preview, child=child)
        if self.host.failure and verdict.by == "nobody" and call.tool.spec.name == "bash":
            raise self.host.failure  # the machine, not a rule, prevents the command
        self._calls[call.call.id] = call, child
        if len(self._calls) > _CALLS_KEPT:
            del self._calls[next(iter(self._calls))]
        return verdict

    async def judge_host(self, call_id: str, host: str, port: int, grants: Grants) -> Verdict:
        """Return whether a running command may reach a host."""
        verdict = await self._host_judge(call_id, host, port, grants)
        if verdict.decision == "allow":
            self._provenance.mark_fetching(call_id)
        return verdict

    async def judge_server_host(
        self, call_id: str, host: str, port: int, grants: Grants
    ) -> Verdict:
        """Return whether a sandboxed MCP server may reach a host.

        It may reach those that its entry lists, unless a rule denies them."""
        from agentcli.sandbox.proxy_service import judge_by_grants

        ruled = self._decider.decide_host(host, port, grants)
        if ruled.decision == "deny":
            return ruled
        return await judge_by_grants(call_id, host, port, grants)

    async def judge_signature(self, call_id: str, request: SignatureRequest) -> Verdict:
        """Return whether a running command gets a signature of the user's ssh agent."""
        return await self._signature_judge(call_id, request)

    async def judge_web_host(self, call_id: str, host: str, port: int) -> Verdict:
        """Return whether a page may come from another host than the one its call names."""
        return await self._web_judge(call_id, host, port, NO_GRANTS)

    async def judge_page_host(self, call_id: str, host: str, port: int) -> Verdict:
        """Return whether the page in the browser may reach a host."""
        return await self._page_judge(call_id, host, port, NO_GRANTS)

    def find_refusal(self, server: str, what: str) -> str:
        """Return why a rule denies a user's own request to a server, or "" if none does."""
        name = f"{server}__{what}"
        subject = self._subjects.build(name, {}, effect=Effect.READ, source=f"mcp {server}")
        verdict = self._decider.decide(subject, mode="ask")
        return verdict.reason if verdict.decision == "deny" else ""

    def mark_untrusted(self) -> None:
        """Record that foreign text entered the conversation by another way than a result."""
        self._provenance.mark_untrusted()

    def find_origin(self, call: PreparedCall, output: Output) -> str:
        """Return the origin of a result's text, or "" if it comes from the workspace."""
        return self._provenance(call, output)

    async def ask(self, question: Question) -> Verdict:
        """Put a question to the user, one at a time. Deny it if nobody can be asked."""
        if self._ask_user is None:
            return Verdict(decision="deny", by="nobody", reason="this run cannot ask")
        masked = EventMasking(self.redactor).mask_value(question)
        async with self._one_question_at_a_time:
            if self._notify is not None:
                self._notify(masked)
            # What would be stored is offered as it is: a masked rule would match nothing.
            answer = await self._ask_user(replace(masked, suggestion=question.suggestion))
        return restore_answer(answer, question, shown=masked, redactor=self.redactor)

    @property
    def mode(self) -> Mode:
        return self._mode.value

    def set_mode(self, mode: Mode) -> None:
        """Set the mode for every call that is judged from now on."""
        self._mode.value = self.limit_mode(mode)

    def limit_mode(self, mode: Mode) -> Mode:
        """Return the mode, or the widest one that the managed policy permits."""
        widest = dict(self._settings.managed).get("mode", MODES[-1])
        return min(mode, widest, key=MODES.index)

    @property
    def agreed_rules(self) -> "Sequence[PermissionRule]":
        """The rules that the user approved, for this session or for less."""
        return self._decider.session_rules if self._calls else ()

    def end_turn(self) -> None:
        """Forget the answers that were for the turn alone."""
        if self._calls:  # otherwise nothing was asked
            self._decider.drop("turn")
            self._signature_judge.drop("turn")

    def store_rules(
        self, suggestion: RuleSuggestion, decision: Literal["allow", "deny"] = "allow"
    ) -> None:
        """Store rules among the user's own. Raise SettingsError if they cannot be written."""
        from agentcli.permissions.policy import store_rule

        try:
            path = get_user_directory() / RULES_FILE
            grants = suggestion.grants if decision == "allow" else NO_GRANTS
            for rule in suggestion.rules:
                store_rule(path, rule, decision=decision, grants=grants)
        except OSError as error:
            raise build_unwritable_error(get_user_directory() / RULES_FILE, error) from error

    @cached_property
    def hides(self) -> Callable[[Path], bool] | None:
        """A test for files that a rule denies a search to read, or None without such a rule."""
        if not any(rule.decision == "deny" and rule.path for rule in self._rules):
            return None
        from agentcli.permissions.subject import ReachedPath

        root = self._settings.workspace
        return lambda path: self._decider.denies_reading(
            ReachedPath(path, Path(os.path.realpath(path))), root=root
        )

    @cached_property
    def asks_to_read(self) -> Callable[[Path, Sequence[Path]], str] | None:
        """Returns the rule that asks about reading a file, or an empty string; see `Workspace`.

        None without such a rule."""
        if not any(rule.decision in ("ask", "judge") and rule.path for rule in self._rules):
            return None
        from agentcli.permissions.subject import ReachedPath

        root = self._settings.workspace

        def find_rule(path: Path, named: Sequence[Path]) -> str:
            reached, *others = (
                ReachedPath(one, Path(os.path.realpath(one))) for one in (path, *named)
            )
            rule = self._decider.find_asking(reached, root=root, named=others)
            return str(rule or "")

        return find_rule

    def close(self) -> None:
        self.host.close()

    @cached_property
    def _policy_judge(self) -> "PolicyJudge":
        from agentcli.permissions.judge import PolicyJudge

        return PolicyJudge(
            mode=self._mode,
            decider=self._decider,
            subjects=self._subjects,
            ask_user=self.ask if self._ask_user else None,
            hooks=self._hooks,
            evaluate=self._evaluator,
        )

    @cached_property
    def _host_judge(self) -> "HostJudge":
        from agentcli.permissions.granting import HostJudge

        decider = self._decider
        return HostJudge(
            decide=decider.decide_host,
            add_rule=decider.add,
            ask_user=self.ask if self._ask_user else None,
            find_command=self._find_command,
        )

    @cached_property
    def _signature_judge(self) -> "SignatureJudge":
        from agentcli.permissions.granting import SignatureJudge

        return SignatureJudge(
            ask_user=self.ask if self._ask_user else None, find_command=self._find_command
        )

    @cached_property
    def _web_judge(self) -> "HostJudge":
        def build_subject(host: str, port: int) -> "CallSubject":
            address = f"https://{join_port(host, port)}/"
            return self._subjects.build(WEB_FETCH, {"url": address}, effect=Effect.NETWORK)

        return self._build_page_judge("web", build_subject)

    @cached_property
    def _page_judge(self) -> "HostJudge":
        def build_subject(host: str, port: int) -> "CallSubject":
            page = {"page": join_port(host, port)}
            subject = self._subjects.build(COMPUTER, page, effect=Effect.NETWORK)
            return replace(subject, acts=frozenset(["look"]))

        return self._build_page_judge("computer", build_subject)

    def _build_page_judge(
        self,
        kind: Literal["web", "computer"],
        build_subject: "Callable[[str, int], CallSubject]",
    ) -> "HostJudge":
        """Build a judge of hosts that pages lead to, each judged like a call of its own."""
        from agentcli.permissions.granting import HostJudge

        decider = self._decider

        def decide(host: str, port: int, grants: Grants) -> Verdict:
            return decider.decide(build_subject(host, port), mode=self.mode)

        return HostJudge(
            decide=decide,
            add_rule=decider.add,
            ask_user=self.ask if self._ask_user else None,
            find_command=self._find_command,
            kind=kind,
        )

    def _find_command(self, call_id: str) -> "RunningCommand":
        from agentcli.permissions.granting import RunningCommand

        call, child = self._calls.get(call_id, (None, None))
        args = call.args if call else None
        command = getattr(args, "command", "") or getattr(args, "url", "")
        return RunningCommand(command=command, child=child)

    @cached_property
    def _subjects(self) -> "SubjectFactory":
        from agentcli.permissions.subject import SubjectFactory

        return SubjectFactory(
            workspace=self._settings.workspace,
            cwd=lambda: self.host.directory.path,
            find_temporary=lambda: self.host.temporary,
            added=self.find_added,
            own=self.host.readable.by_tools,
        )

    @cached_property
    def _decider(self) -> "PolicyDecider":
        from agentcli.permissions.decide import PolicyDecider

        return PolicyDecider(
            rules=self._rules,
            find_conditions=self.host.find_conditions,
            is_untrusted=lambda: self._provenance.is_untrusted,
            list_own=lambda: self.host.own.all,
            list_guarded=cache(list_guarded),
            asks_outside=self.can_ask,
            keeps_sandbox=bool(self._settings.managed) and keeps_sandbox(self._settings),
        )

    @cached_property
    def _provenance(self) -> "OriginTracker":
        from agentcli.permissions.provenance import OriginTracker

        return OriginTracker(
            workspace=self._settings.workspace,
            own=self.host.readable.by_tools,
            find_temporary=lambda: self.host.temporary,
            added=self.find_added,
            is_confined=lambda: self.host.sandbox is not None,
            facts=self._past,
        )
