"""What a command asks for beyond the sandbox: its request, and hosts and signatures while it runs.

What it gets by rules and by its request is computed in `decide`.
"""

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agentcli.permissions.rules import PermissionRule, make_answer_rule
from agentcli.permissions.subject import CallSubject
from agentcli.system.files import exists, is_socket, locate_home
from agentcli.system.grants import covers_host, find_missing
from agentcli.system.hosts import USUAL_PORTS, HostPattern, join_port, parse_host
from agentcli.system.reserved import find_reserved, is_protected
from agentcli.system.temporary import TEMPORARY
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect
from agentcli.types.verdicts import (
    LASTING,
    ApprovalSpan,
    AskUser,
    Delegation,
    Question,
    RuleSuggestion,
    SignatureRequest,
    Verdict,
)

_SUBJECTS = {"network": "command", "web": "url", "computer": "url"}
"""What reaches for a host, by the kind of rule: a command, or the address of a page."""
_RUN_OF_USERS = Path("/run/user")
_SHARED = (_RUN_OF_USERS, *TEMPORARY)
"""Directories of all programs, where they keep sockets, of ssh agents too."""
_ACTS = {"computer": "look "}
"""What a page may do with the hosts that it reaches for itself."""


def refuse_request(
    subject: CallSubject,
    rules: Sequence[PermissionRule],
    *,
    own: Sequence[Path],
    keeps_sandbox: bool = False,
) -> Verdict | None:
    """Return the denial of a request that no user should be asked about, or None.

    `own` are agentcli's directories: whoever writes there gives themselves any grant.
    `keeps_sandbox` is True if the policy of the machine lets no command out of the sandbox."""
    asked = find_missing(subject.request.grants, subject.added, workspace=subject.root)
    if keeps_sandbox and asked.outside:
        return _deny("the policy of this machine keeps commands in the sandbox")
    return _refuse_hosts(asked, rules) or _refuse_paths(asked, own)


def _refuse_hosts(asked: Grants, rules: Sequence[PermissionRule]) -> Verdict | None:
    for rule in (rule for rule in rules if rule.hosts and rule.decision != "allow"):
        for host in asked.hosts:
            if rule.decision == "deny" and rule.matches_host(host):
                return _deny(rule.explain(f"forbids {host}"), rule=rule)
        if asked.network:
            says = "cannot be kept with the whole network; ask for the hosts by name"
            return _deny(rule.explain(says), rule=rule)
    return None


def _refuse_paths(asked: Grants, own: Sequence[Path]) -> Verdict | None:
    for path in (*asked.writable, *asked.readable):
        if why := _why_not_grantable(path, writes=path in asked.writable, own=own):
            return _deny(f"{path} cannot be granted: {why}")
    return None


def _why_not_grantable(path: Path, *, writes: bool, own: Sequence[Path]) -> str:
    if not exists(path):
        return "there is no such file or directory"
    if is_socket(path):
        return "it is a socket; only a command with outside can use it"
    if path.parent == _RUN_OF_USERS or any(one.is_relative_to(path) for one in _SHARED):
        return "sockets of your programs are in it; name what is needed in it"
    reserved = find_reserved(Path(os.path.realpath(locate_home())))
    if any(path.is_relative_to(one) or one.is_relative_to(path) for one in own):
        return "agentcli keeps its settings or records there"
    if why := reserved.why_hidden(path) or (reserved.why_guarded(path) if writes else ""):
        return why
    if writes and is_protected(path, path.parts):
        return "it belongs to git or to agentcli's settings"
    held = (*reserved.secrets(), *(reserved.iter_startup() if writes else ()))
    if any(one.is_relative_to(path) and one.exists() for one in held):
        return "it contains keys or files that run at login; name what is needed in it"
    return ""


def _deny(reason: str, *, rule: PermissionRule | None = None) -> Verdict:
    named = str(rule) if rule else None
    return Verdict(decision="deny", by="rule", reason=reason, rule=named)


# One host, when a command first reaches for it


def decide_host(host: str, port: int, grants: Grants, rules: Sequence[PermissionRule]) -> Verdict:
    """Return allow, ask or deny: deny rules, the command's grants, ask rules, allow rules."""
    reached = join_port(host, port)
    about = [rule for rule in rules if rule.hosts and rule.matches_host(reached)]
    for rule in (rule for rule in about if rule.decision == "deny"):
        return _deny(rule.explain(f"forbids {reached}"), rule=rule)
    asking = next((rule for rule in about if rule.decision == "ask"), None)
    if covers_host(grants, reached) and (
        asking is None or _was_granted_by_user(grants, reached, asking=asking)
    ):
        return Verdict(decision="allow", by="rule", reason=f"{reached} was granted")
    if asking is not None:
        reason = asking.explain("requires approval")
        return Verdict(decision="ask", by="rule", reason=reason, rule=str(asking))
    for rule in rules:
        if rule.decision == "allow" and covers_host(Grants(hosts=rule.hosts), reached):
            reason = rule.explain("allows it")
            return Verdict(decision="allow", by="rule", reason=reason, rule=str(rule))
    return Verdict(decision="ask", by="mode", reason=f"no rule gives commands {reached}")


def _was_granted_by_user(grants: Grants, reached: str, *, asking: PermissionRule) -> bool:
    """Return whether the user has approved the host, although the rule asks about it.

    They have if the grants name it: rules give no host that a rule asks about."""
    if grants.network:
        return False  # it is left out while there is such a rule
    host = HostPattern.parse(reached)
    return any(
        HostPattern.parse(one).covers(host) and asking.matches_host(one) for one in grants.hosts
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCommand:
    """The command that reaches for a host, as the question shows it."""

    command: str
    child: Delegation | None = None


class HostJudge:
    """Judges the hosts that commands reach for, one at a time.

    Nothing is kept by the id of a call: an agent and its child may use the same one. Whoever asks
    keeps the verdict for its command."""

    def __init__(
        self,
        *,
        decide: Callable[[str, int, Grants], Verdict],
        add_rule: Callable[[PermissionRule], None],
        ask_user: AskUser | None,
        find_command: Callable[[str], RunningCommand],
        kind: Literal["network", "web", "computer"] = "network",
    ) -> None:
        """`decide` is the verdict of the rules. If `ask_user` is None, nobody can be asked.
        `kind` is the kind of rule that an answer adds: for every command, for pages to fetch, or
        for the browser."""
        self._decide = decide
        self._add_rule = add_rule
        self._ask_user = ask_user
        self._find_command = find_command
        self._kind = kind
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, call_id: str, host: str, port: int, grants: Grants) -> Verdict:
        """Return allow or deny. A user's answer holds for the command, the session or always."""
        try:
            host = parse_host(host)
            verdict = self._decide(host, port, grants)
        except ValueError as error:
            return _deny(str(error))
        if verdict.decision != "ask":
            return verdict
        unattended = _deny_unattended(verdict, self._name_option(host, port))
        if self._ask_user is None:
            return unattended
        async with self._one_at_a_time:
            # The answer to the previous question may have been "for the whole session".
            now = self._decide(host, port, grants)
            if now.decision != "ask":
                return now
            answer = await self._ask(self._ask_user, call_id, host=host, port=port, verdict=now)
        # If nobody answered, whoever could is gone.
        return replace(answer, remedy=unattended.remedy) if answer.by == "nobody" else answer

    async def _ask(
        self, ask_user: AskUser, call_id: str, *, host: str, port: int, verdict: Verdict
    ) -> Verdict:
        running = self._find_command(call_id)
        rule = self._name_rule(host, port)
        is_asked_always = verdict.by == "rule"
        answer = await ask_user(
            Question(
                call=ToolCall(
                    id=call_id,
                    name=self._kind,
                    input={
                        _SUBJECTS[self._kind]: running.command,
                        "host": join_port(host, port),
                    },
                ),
                effect=Effect.NETWORK,
                preview=None,
                verdict=verdict,
                suggestion=RuleSuggestion(reason=verdict.reason)
                if is_asked_always
                else RuleSuggestion(rules=(rule,), session=rule),
                child=running.child,
            )
        )
        if answer.is_lasting and not (is_asked_always and answer.decision == "allow"):
            self._add_rule(make_answer_rule(rule, answer))
        return _deny_unless_allowed(answer)

    def _name_option(self, host: str, port: int) -> str:
        """Return the option that would permit the host."""
        if self._kind == "network":
            return f"--network {shlex.quote(_name_host(host, port))}"
        return f"--allow {shlex.quote(self._name_rule(host, port))}"

    def _name_rule(self, host: str, port: int) -> str:
        return f"{self._kind}({_ACTS.get(self._kind, '')}{_name_host(host, port)})"


def _deny_unless_allowed(answer: Verdict) -> Verdict:
    """Return the user's answer to a question that only a yes opens anything for."""
    if answer.decision == "allow":
        return answer
    return replace(answer, decision="deny", reason=answer.reason or "no answer")


class SignatureJudge:
    """Judges the signatures of the user's ssh agent, for commands that may ask it.

    Where a user can be asked, each signature is a question. Otherwise the grant came from a rule,
    and covers logins at servers that the command may reach, and nothing else."""

    def __init__(
        self, *, ask_user: AskUser | None, find_command: Callable[[str], RunningCommand]
    ) -> None:
        self._ask_user = ask_user
        self._find_command = find_command
        self._answers: dict[SignatureRequest, Verdict] = {}
        """The answers of the user that last."""
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, call_id: str, request: SignatureRequest) -> Verdict:
        """Return allow or deny."""
        if self._ask_user is None:
            return _judge_unattended(request)
        async with self._one_at_a_time:
            if before := self._answers.get(request):
                verb = "approved" if before.decision == "allow" else "denied"
                reason = f"the user {verb} it for {LASTING[before.lasts]}"
                return replace(before, reason=reason)
            answer = await self._ask_user(self._build_question(call_id, request))
        if answer.is_lasting:
            self._answers[request] = answer
        return _deny_unless_allowed(answer)

    def drop(self, span: ApprovalSpan) -> None:
        """Forget the answers that lasted this long."""
        self._answers = {one: said for one, said in self._answers.items() if said.lasts != span}

    def _build_question(self, call_id: str, request: SignatureRequest) -> Question:
        running = self._find_command(call_id)
        asked = "a signature with your key needs approval"
        reason = asked if request.is_expected else f"{asked}, and it is not what a push needs"
        return Question(
            call=ToolCall(
                id=call_id,
                name="ssh-agent",
                input={
                    "sign": request.purpose,
                    "key": request.key,
                    "command": running.command,
                },
            ),
            effect=Effect.NETWORK,
            preview=None,
            verdict=Verdict(decision="ask", by="mode", reason=reason),
            suggestion=RuleSuggestion(
                reason="each session asks again", session=f"{request.purpose}, with this key"
            ),
            child=running.child,
        )


def _judge_unattended(request: SignatureRequest) -> Verdict:
    if request.is_expected:
        return Verdict(decision="allow", by="rule", reason="the ssh agent is granted")
    reason = "only a user can approve this signature, and this run cannot ask"
    return Verdict(decision="deny", by="nobody", reason=reason)


def _name_host(host: str, port: int) -> str:
    return str(HostPattern(host=host, port=None if port in USUAL_PORTS else port))


def _deny_unattended(verdict: Verdict, remedy: str) -> Verdict:
    if verdict.by != "mode":
        reason = f"{verdict.reason}, and this run cannot ask; only a user can approve it"
        return replace(verdict, decision="deny", by="nobody", reason=reason)
    return replace(
        verdict,
        decision="deny",
        by="nobody",
        reason=f"{verdict.reason}, and this run cannot ask",
        remedy=remedy,
    )
