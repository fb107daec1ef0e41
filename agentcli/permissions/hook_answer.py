"""The meaning of a hook's exit code and output, in the format that is common for agent hooks.

Exit code 2 refuses, with stderr as the reason. Exit code 0 approves nothing by itself: an object
on stdout may decide, change or add something. Other text is context when a prompt or a session
begins, and otherwise ignored. Every other exit code is a failure of the hook.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from agentcli.permissions.hook_events import CONTEXT_BY_PRINTING, STOPPING, HookEvent
from agentcli.permissions.hook_process import HookProblem, HookRun
from agentcli.system.output import cap
from agentcli.system.plain_text import to_plain_text
from agentcli.system.strict_json import parse_json
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image, Json, Text
from agentcli.types.tools import Command, Diff, FileView, Output
from agentcli.types.verdicts import Reaction

HookDecision = Literal["none", "allow", "ask", "deny", "failed"]
Clean = Callable[[str], str]

DENIED_EXIT_CODE = 2
NO_REASON = "no reason given"
REASON_BYTES = 4_000
CONTEXT_BYTES = 20_000
"""The limit of the text for the model. A hook may print more, mostly not meant for it."""

_WORDS: dict[str, HookDecision] = {
    "allow": "allow",
    "approve": "allow",
    "ask": "ask",
    "deny": "deny",
    "block": "deny",
}
STRICTNESS: tuple[HookDecision, ...] = ("none", "allow", "ask", "failed", "deny")
_OUTPUT_FIELDS = ("updatedToolOutput", "updatedMCPToolOutput")


class HookFailure(HookProblem):
    """A hook that ran to its end and reported its own failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """The answer of a hook, before it is applied to the call it was asked about."""

    decision: HookDecision = "none"
    reason: str = ""
    input: dict[str, Json] | None = None
    """Arguments to run instead (PreToolUse), under the names the hook was given."""
    output: str | None = None
    """Text that the model gets instead (PostToolUse)."""
    context: str = ""
    """Text that the hook adds for the model."""
    message: str = ""
    """Text that the hook shows to the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookResult:
    """The outcome of one hook for one event."""

    hook: str
    event: HookEvent
    decision: HookDecision
    call_id: str = ""
    reason: str = ""
    input: Json = None
    """The arguments to run instead; None if unchanged."""
    output: str | None = None
    context: str = ""
    message: str = ""
    is_broken: bool = False
    """True if the hook failed without reporting it itself; then `decision` is `failed`."""
    duration_s: float = 0.0


def parse_answer(event: HookEvent, ran: HookRun, *, clean: Clean) -> HookAnswer:
    """Parse a hook's answer. All text in it is clean and bounded.

    Raise HookProblem if the output has no meaning.
    """
    if ran.exit_code == DENIED_EXIT_CODE:
        reason = ran.stderr or ran.stdout or NO_REASON
        return HookAnswer(
            decision="deny", reason=_clean_text(reason, clean, limit_bytes=REASON_BYTES)
        )
    if ran.exit_code != 0:
        last = ran.stderr.splitlines()[-1:] or [""]
        shown = _clean_text(last[0], clean, limit_bytes=REASON_BYTES)
        raise HookFailure(f"ended with exit code {ran.exit_code} {shown}".rstrip())
    if ran.stdout.startswith("{"):
        outer, inner = _parse_objects(ran.stdout)
        return _clean(_build_answer(event, outer, inner=inner), clean)
    printed = ran.stdout if event in CONTEXT_BY_PRINTING else ""
    return HookAnswer(context=_clean_text(printed, clean, limit_bytes=CONTEXT_BYTES))


def _parse_objects(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the answer and its `hookSpecificOutput`."""
    try:
        answer = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise HookProblem(f"printed an object that is not JSON ({error})") from None
    inner = answer.get("hookSpecificOutput") or {}
    if not isinstance(inner, dict):
        raise HookProblem("printed a hookSpecificOutput that is not an object")
    return answer, inner


def _build_answer(event: HookEvent, outer: dict[str, Any], *, inner: dict[str, Any]) -> HookAnswer:
    fields = {**outer, **inner, **_read_behavior(inner.get("decision"))}
    changed = fields.get("updatedInput")
    if changed is not None and not isinstance(changed, dict):
        raise HookProblem("printed an updatedInput that is not an object")
    decision = max(_read_decision(outer), _read_decision(inner), key=STRICTNESS.index)
    reason = fields.get("permissionDecisionReason") or fields.get("reason") or ""
    answer = HookAnswer(
        decision=decision,
        reason=str(reason or (NO_REASON if decision in ("ask", "deny") else "")),
        input=changed,
        output=_read_output(fields),
        context=str(fields.get("additionalContext") or ""),
        message=str(fields.get("systemMessage") or ""),
    )
    if _goes_on(outer) and _goes_on(inner):
        return answer
    if event in STOPPING:  # the agent stops, whatever else the hook wants
        return replace(answer, decision="none")
    reason = fields.get("stopReason") or reason or "it asked to stop"
    return replace(answer, decision="deny", reason=str(reason))


def _read_behavior(decision: Any) -> dict[str, Any]:
    """Return the fields of a decision that is an object, as for a request for permission."""
    if not isinstance(decision, dict):
        return {}
    if decision.get("updatedInput") is not None and decision.get("behavior") == "allow":
        raise HookProblem("allowed other arguments, which only a PreToolUse hook can change")
    return {"reason": decision.get("message") or ""}


def _goes_on(fields: dict[str, Any]) -> bool:
    word = fields.get("continue")
    if word is not None and not isinstance(word, bool):
        raise HookProblem(f"printed {word!r} for continue, which is not true or false")
    return word is not False


def _read_decision(fields: dict[str, Any]) -> HookDecision:
    """Return the stricter decision if there are two."""
    decision = fields.get("decision")
    word = decision.get("behavior") if isinstance(decision, dict) else decision
    words = [fields.get("permissionDecision"), word]
    return max(map(_parse_word, words), key=STRICTNESS.index)


def _parse_word(word: Any) -> HookDecision:
    if word is None:
        return "none"
    if not isinstance(word, str) or word not in _WORDS:
        raise HookProblem(f"printed the decision {word!r}, which is not allow, ask or deny")
    return _WORDS[word]


def _read_output(fields: dict[str, Any]) -> str | None:
    for name in _OUTPUT_FIELDS:
        given = fields.get(name)
        if isinstance(given, dict):
            given = given.get("content", given.get("stdout"))
        if isinstance(given, str):
            return given
        if given is not None:
            raise HookProblem(f"printed an {name} that is neither text nor has one as content")
    return None


def _clean(answer: HookAnswer, clean: Clean) -> HookAnswer:
    return replace(
        answer,
        reason=_clean_text(answer.reason, clean, limit_bytes=REASON_BYTES),
        output=None if answer.output is None else clean(to_plain_text(answer.output)),
        context=_clean_text(answer.context, clean, limit_bytes=CONTEXT_BYTES),
        message=_clean_text(answer.message, clean, limit_bytes=REASON_BYTES),
    )


def _clean_text(text: str, clean: Clean, *, limit_bytes: int) -> str:
    return cap(clean(to_plain_text(text)), limit_bytes)[0]


# A tool's result as hooks get it, and the effect of a hook's answer on it


def read_text(output: Output) -> str:
    return "\n".join(block.text for block in output.content if not isinstance(block, Image))


def build_response(output: Output, text: str, *, file_path: Json) -> Json:
    """Return the result in the format that existing hooks expect, as far as we can fill it.

    `file_path` is the one file that the hook was asked about, or empty if there is none."""
    is_error = output.error is not None
    response: dict[str, Json] = {"content": text, "is_error": is_error, "success": not is_error}
    match output.details:
        case Command(exit_code=exit_code, timed_out=timed_out):
            response |= {"stdout": text, "stderr": "", "exit_code": exit_code}
            response["interrupted"] = timed_out
        case Diff(path=path) | FileView(path=path):
            response["filePath"] = file_path or path
        case _:
            pass
    return response


def join_reactions(before: Reaction | None, now: Reaction) -> Reaction:
    """Join the reactions of one hook that saw a call in parts, so that none is lost."""
    if before is None or now.decision in ("transformed", "rejected"):
        return now
    return now if before.decision == "observed" else before


def build_reaction(result: HookResult, output: Output) -> Reaction:
    """Return the reaction to a hook's result.

    A broken hook may have been there to remove something, so its failure rejects the output.
    """
    reaction = Reaction(
        hook=result.hook, decision="observed", reason=result.reason, event=result.event
    )
    if result.decision == "deny" or result.is_broken:
        return replace(reaction, decision="rejected")
    if result.decision == "failed":
        return replace(reaction, decision="failed")
    content = output.content
    if result.output is not None:
        images = (block for block in content if isinstance(block, Image))
        content = (Text(text=result.output), *images)
    if result.context:
        content = (*content, Text(text=f"[hook: {result.context}]"))
    if content == output.content:
        return reaction
    changed = replace(output, content=content)
    return replace(reaction, decision="transformed", output=changed, reason="")
