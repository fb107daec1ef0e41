"""The user's own commands around what the agent does: JSON in, a decision out.

A hook can refuse a call, change its arguments, ask for the user's approval, or say that none is
needed. It cannot lift what a rule refuses. A hook that fails, hangs or prints nonsense has not
checked the call. That is reported, and before a tool runs it counts as `ask`.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, get_args

from agentcli.permissions.hook_answer import (
    STRICTNESS,
    Clean,
    HookAnswer,
    HookDecision,
    HookFailure,
    HookResult,
    build_reaction,
    build_response,
    join_reactions,
    parse_answer,
    read_text,
)
from agentcli.permissions.hook_events import AFTER_CALLS, WITH_MATCHER, HookEvent
from agentcli.permissions.hook_names import (
    COMMON_MODES,
    HookCallView,
    OwnCall,
    check_matcher,
    describe_call,
    fits_subject,
)
from agentcli.permissions.hook_process import (
    HookProblem,
    build_project_variables,
    post_hook,
    run_hook,
)
from agentcli.system.lazy import compile_later
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Output, PreparedCall
from agentcli.types.verdicts import Delegation, Reaction

TIMEOUT_S = 60.0
_PROJECT = compile_later(r"\$\{((?:AGENTCLI|CLAUDE)_PROJECT_DIR)\}")

After: TypeAlias = Callable[[PreparedCall, Output], Awaitable[Reaction | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    event: HookEvent
    command: str | tuple[str, ...] = ""
    """A line for the shell, or the words of a program."""
    url: str = ""
    """The address that its input is posted to; then there is no command."""
    headers: tuple[tuple[str, str], ...] = ()
    condition: str = ""
    """A rule that a call must match, such as `bash(git push:*)`; empty for every call."""
    problem: str = ""
    """Why it cannot run. Before a call that counts as a failed check."""
    matcher: str = ""
    """Names, or a regular expression for them; empty for every tool."""
    timeout_s: float = TIMEOUT_S
    where: str = ""
    """The file and line."""
    project: Path | None = None
    """The root of the project that brought it; None if it is the user's own."""
    plugin: str = ""
    """The plugin that brought it."""
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables of its environment."""
    is_ours: bool = False
    """True if it tests our names of tools. It gets them if its matcher does not decide."""

    def __post_init__(self) -> None:
        if self.event not in get_args(HookEvent):
            raise SettingsError(
                f"unknown hook event {self.event!r}",
                hint=f"the events are {', '.join(get_args(HookEvent))}",
            )
        if not (self.command or self.url or self.problem) or self.timeout_s <= 0:
            raise SettingsError(
                f"the {self.event} hook needs a command and a positive time limit",
                hint=f"edit {self.where}",
            )
        try:
            check_matcher(self.matcher)
        except re.error as error:
            raise SettingsError(
                f"the matcher {self.matcher!r} of a hook is not a regular expression: {error}",
                hint=f"edit {self.where}",
            ) from None

    @property
    def name(self) -> str:
        words = self.command or self.url or self.problem
        line = words if isinstance(words, str) else " ".join(words)
        return line if len(line) <= 60 else f"{line[:59]}…"

    @property
    def may_allow(self) -> bool:
        """True if it is the user's own. A project or a plugin can only tighten."""
        return self.project is None and not self.plugin

    def is_about(self, event: HookEvent, subject: str) -> bool:
        """Return whether the hook runs for an event that is not about a tool."""
        is_meant = event not in WITH_MATCHER or fits_subject(self.matcher, subject)
        return event == self.event and is_meant


@dataclass(frozen=True, slots=True, kw_only=True)
class HookVerdict:
    """The joint decision of all hooks before a call."""

    decision: HookDecision = "none"
    hook: str = ""
    reason: str = ""
    input: Json = None
    """The arguments to run instead; None if unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """The environment of hooks, and the input that every hook gets."""

    session_id: str
    cwd: Path
    env: dict[str, str]
    transcript: Path | None = None
    mode: Callable[[], str] = lambda: ""
    clean: Clean = str
    """Removes secrets from what a hook says, and from tool output that it gets."""
    own_call: Callable[[PreparedCall, Json], OwnCall] = lambda prepared, given: OwnCall(
        tool=prepared.call.name, input=given
    )
    """Returns a call as its tool understands it, with the arguments that hooks made of it."""
    why_not: Callable[[Hook], str] = lambda hook: ""
    """Returns why a hook may not run any more; empty if it may."""
    fits_condition: Callable[[str, PreparedCall], bool] = lambda rule, prepared: True
    """Returns whether a call may match the rule that is the condition of a hook."""

    def build_input(self, event: HookEvent) -> dict[str, Json]:
        mode = self.mode()
        return {
            "session_id": self.session_id,
            "transcript_path": str(self.transcript or ""),
            "cwd": str(self.cwd),
            "permission_mode": COMMON_MODES.get(mode, mode),
            "agentcli_mode": mode,
            "hook_event_name": event,
        }


class HookRunner:
    def __init__(
        self,
        hooks: Iterable[Hook],
        context: HookContext,
        *,
        emit: Callable[[HookResult], None] = lambda result: None,
    ) -> None:
        """`emit` gets every result, also those that decide nothing."""
        self._hooks = tuple(hooks)
        self._context = context
        self._emit = emit

    async def run_before(
        self, prepared: PreparedCall, child: Delegation | None = None
    ) -> HookVerdict:
        """Run the PreToolUse hooks. Each sees the arguments as the one before left them.

        A denial ends the run.
        """
        verdict, call = HookVerdict(), prepared.call
        for hook in self._hooks:
            given = call.input if verdict.input is None else verdict.input
            for view in self._describe_call(hook, "PreToolUse", prepared=prepared, given=given):
                details = self._build_details(call, view, child=child)
                result = await self._run_pre_hook(hook, call, view=view, details=details)
                verdict = _join_decisions(verdict, result)
                if verdict.decision == "deny":
                    return verdict
        return verdict

    async def run_permission_request(
        self, prepared: PreparedCall, child: Delegation | None = None
    ) -> HookVerdict:
        """Run the PermissionRequest hooks of a call that the user would be asked about."""
        said, call = HookVerdict(), prepared.call
        for hook in self._hooks:
            for view in self._describe_call(
                hook, "PermissionRequest", prepared=prepared, given=call.input
            ):
                details = self._build_details(call, view, child=child)
                said = _join_decisions(
                    said, await self._run_pre_hook(hook, call, view=view, details=details)
                )
        return said

    def build_after(
        self, child: Delegation | None = None, *, only_failures: bool = False
    ) -> Sequence[After]:
        """Return one step for every hook that looks at results, for calls of `child` if given."""
        events = AFTER_CALLS[1:] if only_failures else AFTER_CALLS
        return [
            partial(self._run_post_hook, hook, child)
            for hook in self._hooks
            if hook.event in events
        ]

    def has_hooks(self, event: HookEvent) -> bool:
        return any(hook.event == event for hook in self._hooks)

    async def run_event(
        self, event: HookEvent, subject: str = "", **details: Json
    ) -> Sequence[HookResult]:
        """Run the hooks of an event that is not about a call, all at the same time."""
        due = [hook for hook in self._hooks if hook.is_about(event, subject)]
        results = [
            result for result, _ in await asyncio.gather(*(self._run(one, details) for one in due))
        ]
        for result in results:
            self._emit(result)
        return results

    def _describe_call(
        self, hook: Hook, event: HookEvent, *, prepared: PreparedCall, given: Json
    ) -> Sequence[HookCallView]:
        """Return the call as the hook knows such calls; nothing if the hook is not about it.

        `given` are the arguments, as earlier hooks may have changed them."""
        if hook.event != event:
            return ()
        if hook.condition and not self._context.fits_condition(hook.condition, prepared):
            return ()
        context = self._context
        own = context.own_call(prepared, given)
        return describe_call(hook.matcher, own, root=context.cwd, is_ours=hook.is_ours)

    def _build_details(
        self, call: ToolCall, view: HookCallView, *, child: Delegation | None
    ) -> dict[str, Json]:
        details: dict[str, Json] = {
            "tool_name": view.tool_name,
            "tool_input": view.tool_input,
            "call_id": call.id,
            "agentcli_tool": view.call.tool,
            "agentcli_input": view.call.input,
        }
        if view.is_in_our_names:
            details["permission_mode"] = self._context.mode()
        if child is not None:
            details |= {
                "agent_id": child.child_id,
                "agent_type": child.role,
                "agent_task": child.task,
            }
        return details

    async def _run_pre_hook(
        self, hook: Hook, call: ToolCall, *, view: HookCallView, details: Mapping[str, Json]
    ) -> HookResult:
        result, answer = await self._run(hook, details)
        result = replace(result, call_id=call.id)
        if not hook.may_allow and result.decision == "allow":
            result = replace(result, decision="none")
        changed = None if result.decision == "deny" else answer.input
        if changed is not None and changed != view.tool_input:
            result = _apply_change(result, changed, view=view)
        self._emit(result)
        return result

    async def _run_post_hook(
        self, hook: Hook, child: Delegation | None, prepared: PreparedCall, output: Output
    ) -> Reaction | None:
        """Return the hook's reaction; None if the call does not concern it."""
        reaction: Reaction | None = None
        call = prepared.call
        if hook.event == "PostToolUseFailure" and output.error is None:
            return None
        for view in self._describe_call(hook, hook.event, prepared=prepared, given=call.input):
            details = self._build_details(call, view, child=child)
            text = self._context.clean(read_text(output))
            details["tool_response"] = build_response(output, text, file_path=view.file_path)
            if output.error is not None:
                details["error"] = text
            result, _ = await self._run(hook, details)
            self._emit(replace(result, call_id=call.id))
            reaction = join_reactions(reaction, build_reaction(result, output))
            if reaction.decision == "rejected":
                break
            output = reaction.output or output
        return reaction

    async def _run(self, hook: Hook, details: Mapping[str, Json]) -> tuple[HookResult, HookAnswer]:
        began = time.monotonic()
        answer, broken = HookAnswer(), False
        try:
            answer = await self._answer(hook, details)
        except HookProblem as problem:
            answer = HookAnswer(decision="failed", reason=f"the hook {problem}")
            broken = not isinstance(problem, HookFailure)
        except OSError as error:  # no space for its input, no handle for its output
            answer = HookAnswer(decision="failed", reason=f"the hook could not be run: {error}")
            broken = True
        result = HookResult(
            hook=hook.name,
            event=hook.event,
            decision=answer.decision,
            reason=answer.reason,
            output=answer.output,
            context=answer.context,
            message=answer.message,
            is_broken=broken,
            duration_s=round(time.monotonic() - began, 4),
        )
        return result, answer

    async def _answer(self, hook: Hook, details: Mapping[str, Json]) -> HookAnswer:
        context = self._context
        if why_not := hook.problem or context.why_not(hook):
            raise HookProblem(f"was not run: {why_not}")
        hook_input = json.dumps({**context.build_input(hook.event), **details}, default=str)
        stdin = hook_input.encode("utf-8", "replace")
        if hook.url:
            ran = await post_hook(
                hook.url, body=stdin, headers=hook.headers, timeout_s=hook.timeout_s
            )
            return parse_answer(hook.event, ran, clean=context.clean)
        own = build_project_variables(hook.project) if hook.project else {}
        env = context.env | own | dict(hook.variables)
        ran = await run_hook(
            hook.command if isinstance(hook.command, str) else _fill_words(hook.command, env),
            stdin=stdin,
            cwd=hook.project or context.cwd,
            env=env,
            timeout_s=hook.timeout_s,
        )
        return parse_answer(hook.event, ran, clean=context.clean)


def _fill_words(words: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of a program, for which no shell fills in the project's directory."""
    return tuple(_PROJECT.sub(lambda found: env.get(found[1], ""), word) for word in words)


def _apply_change(
    result: HookResult, changed: dict[str, Json], *, view: HookCallView
) -> HookResult:
    try:
        if not view.takes_changes:
            raise HookProblem("tried to change a part of the call that hooks cannot change")
        return replace(result, input=view.translate_back(changed))
    except HookProblem as problem:
        return replace(result, decision="failed", reason=f"the hook {problem}", is_broken=True)


def _join_decisions(verdict: HookVerdict, result: HookResult) -> HookVerdict:
    """Join two decisions: the stricter one wins, and the last change of the arguments holds."""
    changed = verdict.input if result.input is None else result.input
    if STRICTNESS.index(result.decision) <= STRICTNESS.index(verdict.decision):
        hook = result.hook if result.input is not None else verdict.hook
        return HookVerdict(
            decision=verdict.decision, hook=hook, reason=verdict.reason, input=changed
        )
    return HookVerdict(
        decision=result.decision, hook=result.hook, reason=result.reason, input=changed
    )
