"""The person's own commands around what the agent does: JSON in, a decision out.

A hook can refuse a call, change its arguments, ask for a person, or say that it needs none. It
cannot lift what a rule refuses. One that fails, hangs or talks nonsense has not looked at the call:
that is said, and before a tool runs it counts as a wish to ask.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from agentcli.guard.hook_process import HookProblem, HookRun, run_hook
from agentcli.types.errors import SettingsError
from agentcli.types.messages import Json

HookEvent = Literal[
    "PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd", "Stop"
]
HookDecision = Literal["none", "allow", "ask", "deny", "failed"]

TIMEOUT_S = 60.0
DENIED_EXIT_CODE = 2

_WORDS: dict[str, HookDecision] = {
    "allow": "allow",
    "approve": "allow",
    "ask": "ask",
    "deny": "deny",
    "block": "deny",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    event: HookEvent
    command: str | tuple[str, ...]
    """A line for the shell, or the words of a program."""
    matcher: str = ""
    """A regular expression for whole tool names; empty: every tool."""
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if self.event not in get_args(HookEvent):
            raise SettingsError(
                f"there is no hook event {self.event!r}",
                hint=f"the events are {', '.join(get_args(HookEvent))}",
            )
        if not self.command or self.timeout_s <= 0:
            raise SettingsError(f"the {self.event} hook needs a command and a positive time limit")
        try:
            re.compile(self.matcher)
        except re.error as error:
            raise SettingsError(
                f"the matcher {self.matcher!r} of a hook is no regular expression: {error}"
            ) from None

    @property
    def name(self) -> str:
        line = self.command if isinstance(self.command, str) else " ".join(self.command)
        return line if len(line) <= 60 else f"{line[:59]}…"

    def concerns(self, event: HookEvent, tool: str) -> bool:
        matches = not self.matcher or not tool or re.fullmatch(self.matcher, tool) is not None
        return event == self.event and matches


@dataclass(frozen=True, slots=True, kw_only=True)
class HookResult:
    """What one hook made of one event."""

    hook: str
    event: HookEvent
    decision: HookDecision
    reason: str = ""
    updated_input: Json = None
    context: str = ""
    """What it wants the model to know."""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What all hooks together say before a call."""

    decision: HookDecision = "none"
    hook: str = ""
    reason: str = ""
    input: Json = None
    """The arguments to run instead; None: unchanged."""


class Hooks:
    def __init__(
        self,
        hooks: Iterable[Hook],
        *,
        session_id: str,
        cwd: Path,
        env: Mapping[str, str],
        tell: Callable[[HookResult], None] = lambda result: None,
    ) -> None:
        """`tell` hears of every result, also of those that decide nothing."""
        self._hooks = tuple(hooks)
        self._session_id = session_id
        self._cwd = cwd
        self._env = dict(env)
        self._tell = tell

    async def before(self, tool: str, tool_input: Json) -> Before:
        """Each hook sees the arguments as the one before left them; a denial ends it."""
        said = Before()
        for hook in self._concerned("PreToolUse", tool):
            given = tool_input if said.input is None else said.input
            result = await self._run(hook, {"tool_name": tool, "tool_input": given})
            said = _joined(said, result)
            if said.decision == "deny":
                break
        return said

    async def after(self, tool: str, tool_input: Json, response: Json) -> Sequence[HookResult]:
        details = {"tool_name": tool, "tool_input": tool_input, "tool_response": response}
        return await self._run_all("PostToolUse", tool, details)

    async def at(self, event: HookEvent, **details: Json) -> Sequence[HookResult]:
        """At the start or the end of a session or turn, or when the person has written a prompt."""
        return await self._run_all(event, "", details)

    async def _run_all(
        self, event: HookEvent, tool: str, details: Mapping[str, Json]
    ) -> Sequence[HookResult]:
        return [await self._run(hook, details) for hook in self._concerned(event, tool)]

    def _concerned(self, event: HookEvent, tool: str) -> Sequence[Hook]:
        return [hook for hook in self._hooks if hook.concerns(event, tool)]

    async def _run(self, hook: Hook, details: Mapping[str, Json]) -> HookResult:
        told = {
            "session_id": self._session_id,
            "cwd": str(self._cwd),
            "hook_event_name": hook.event,
            **details,
        }
        result = await _result(hook, told, cwd=self._cwd, env=self._env)
        self._tell(result)
        return result


def _joined(said: Before, result: HookResult) -> Before:
    """The stricter of the two decides; the last change of the arguments holds."""
    order: Sequence[HookDecision] = ("none", "allow", "ask", "failed", "deny")
    changed = said.input if result.updated_input is None else result.updated_input
    if order.index(result.decision) <= order.index(said.decision):
        hook = result.hook if result.updated_input is not None else said.hook
        return Before(decision=said.decision, hook=hook, reason=said.reason, input=changed)
    return Before(decision=result.decision, hook=result.hook, reason=result.reason, input=changed)


async def _result(
    hook: Hook, told: Mapping[str, Json], *, cwd: Path, env: Mapping[str, str]
) -> HookResult:
    began = time.monotonic()
    try:
        ran = await run_hook(
            hook.command,
            stdin=json.dumps(told, default=str).encode(),
            cwd=cwd,
            env=env,
            timeout_s=hook.timeout_s,
        )
        result = _understood(hook, ran)
    except HookProblem as problem:
        result = HookResult(
            hook=hook.name, event=hook.event, decision="failed", reason=f"the hook {problem}"
        )
    return replace(result, duration_s=round(time.monotonic() - began, 4))


def _understood(hook: Hook, ran: HookRun) -> HookResult:
    """Raises HookProblem for what means nothing."""
    result = HookResult(hook=hook.name, event=hook.event, decision="none", context=ran.stdout)
    if ran.exit_code == DENIED_EXIT_CODE:
        reason = ran.stderr or ran.stdout or "it gave no reason"
        return replace(result, decision="deny", reason=reason, context="")
    if ran.exit_code != 0:
        last = ran.stderr.splitlines()[-1:] or [""]
        raise HookProblem(f"ended with exit code {ran.exit_code} {last[0]}".rstrip())
    if not ran.stdout.startswith("{"):
        return result
    return _answered(result, _answer(ran.stdout))


def _answer(text: str) -> dict[str, Any]:
    """The fields of the answer; what stands in `hookSpecificOutput` goes before the rest."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HookProblem(f"printed an object that is not JSON ({error})") from None
    inner = answer.get("hookSpecificOutput") or {}
    if not isinstance(inner, dict):
        raise HookProblem("printed a hookSpecificOutput that is not an object")
    return {**answer, **inner}


def _answered(result: HookResult, answer: dict[str, Any]) -> HookResult:
    word = answer.get("permissionDecision", answer.get("decision"))
    if word is not None and not (isinstance(word, str) and word in _WORDS):
        raise HookProblem(f"printed the decision {word!r}, which is not allow, ask or deny")
    changed = answer.get("updatedInput")
    if changed is not None and not isinstance(changed, dict):
        raise HookProblem("printed an updatedInput that is not an object")
    reason = answer.get("permissionDecisionReason", answer.get("reason", ""))
    return replace(
        result,
        decision=_WORDS[word] if word is not None else "none",
        reason=str(reason),
        updated_input=changed,
        context=str(answer.get("additionalContext", "")),
    )
