"""The verdict of the rules on a call, and on past calls, in words or as JSON."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from agentcli.features.policy.engine import PolicyAnswer, PolicyReplay, explain_call, replay_policy
from agentcli.permissions.explain import Explanation
from agentcli.permissions.replay import RejudgedCall
from agentcli.system.grants import PRESETS
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit
from agentcli.types.messages import Json
from agentcli.types.settings import Settings
from agentcli.types.verdicts import Mode
from agentcli.types.words import pluralize

_VERDICTS = {
    "allow": "would be allowed",
    "ask": "would ask (denied in non-interactive runs)",
    "deny": "would be denied",
}
_LABEL = 10
_MOST_CHARS = 72
_MOST_ROWS = 200


def show_presets() -> Exit:
    width = max(map(len, PRESETS))
    _write_lines(f"{name:<{width}}  {' '.join(hosts)}" for name, hosts in PRESETS.items())
    return Exit.DONE


def show_explanation(settings: Settings, query: str, *, as_json: bool) -> Exit:
    answer = explain_call(settings, query)
    if as_json:
        _write_json(_explanation_json(answer))
    else:
        _write_lines(_render_explanation(answer))
    return Exit.DONE


def show_replay(settings: Settings, runs: str, *, mode: Mode | None, as_json: bool) -> Exit:
    """Show the replay. Exit with a code of its own if a verdict would differ, for checks in CI."""
    replay = replay_policy(settings, runs, mode=mode)
    for reason in replay.unreadable:
        sys.stderr.write(
            f"warning: a session could not be read completely: {show_controls(reason)}\n"
        )
    if as_json:
        _write_json(_replay_json(replay))
    else:
        _write_lines(_render_replay(replay))
    return Exit.VERIFY_FAILED if replay.differences else Exit.DONE


def _render_explanation(answer: PolicyAnswer) -> Iterator[str]:
    explained = answer.explanation
    yield f"{explained.tool}: {_format_input(explained.input)}"
    yield f"{_VERDICTS[explained.verdict.decision]}: {explained.verdict.reason}"
    for label, words in _list_facts(answer):
        yield f"  {label:<{_LABEL}}  {words}"


def _list_facts(answer: PolicyAnswer) -> Iterator[tuple[str, str]]:
    explained = answer.explanation
    yield "mode", explained.mode
    if explained.verdict.rule:
        yield (
            "rule",
            explained.verdict.rule + (f", at {explained.where}" if explained.where else ""),
        )
        yield "matched", explained.verdict.matched or ""
    if explained.not_plain:
        yield "parts", f"unclear: {explained.not_plain}"
    for part in explained.parts:
        yield "part", f"{part.source}: {part.why}"
    yield "read-only", "yes" if explained.why_not_read is None else explained.why_not_read
    if explained.tool == "bash":
        yield "sandbox", _describe_sandbox(answer)
    for path in answer.not_given:
        yield "not given", f"{path}: it does not exist, or a link leads elsewhere"
    yield from (("to allow", words) for words in _list_remedies(explained))


def _describe_sandbox(answer: PolicyAnswer) -> str:
    grants = answer.explanation.verdict.grants.describe()
    if not answer.layer:
        return f"none: {answer.why_no_layer}; {grants}"
    return f"{answer.layer}: {grants}"


def _list_remedies(explanation: Explanation) -> Iterator[str]:
    if explanation.suggestion is None:
        return
    yield from explanation.remedies
    if not explanation.remedies:
        yield f"no rule to suggest: {explanation.suggestion.reason}"


def _explanation_json(answer: PolicyAnswer) -> dict[str, Any]:
    explained = answer.explanation
    verdict, suggestion = explained.verdict, explained.suggestion
    return {
        "tool": explained.tool,
        "input": explained.input,
        "mode": explained.mode,
        "decision": verdict.decision,
        "by": verdict.by,
        "reason": verdict.reason,
        "rule": verdict.rule,
        "where": explained.where,
        "matched": verdict.matched,
        "plain": not explained.not_plain,
        "not_plain": explained.not_plain,
        "parts": [
            {"command": part.source, "reads": part.reads, "why": part.why}
            for part in explained.parts
        ],
        "read_only": explained.why_not_read is None,
        "why_not_read": explained.why_not_read,
        "sandbox": {
            "applies": explained.tool == "bash" and bool(answer.layer),
            "layer": answer.layer,
            "network": verdict.grants.network,
            "hosts": list(verdict.grants.hosts),
            "writable": list(map(str, verdict.grants.writable)),
            "readable": list(map(str, verdict.grants.readable)),
            "credentials": list(verdict.grants.credentials),
            "outside": verdict.grants.outside,
            "not_given": list(map(str, answer.not_given)),
        },
        "to_allow": list(explained.rules),
        "why_not_allowable": suggestion.reason if suggestion else "",
    }


def _render_replay(replay: PolicyReplay) -> Iterator[str]:
    calls, differences = len(replay.judged), replay.differences
    for one in differences[:_MOST_ROWS]:
        yield f"{one.past.was:<5} -> {one.would.decision:<5}  {_format_call(one)}"
        yield f"{'':<16}{_describe_difference(one)}"
    if len(differences) > _MOST_ROWS:
        yield f"… and {len(differences) - _MOST_ROWS} more (-o json lists all)"
    checked = f"{pluralize(calls, 'call')} of {pluralize(replay.sessions, 'session')}"
    yield f"Checked {checked}: {len(differences)} would differ."
    questions = sum(one.would.decision == "ask" for one in replay.judged)
    if not replay.reliefs:
        return
    yield f"{questions} would ask. These rules would save the most questions and allow nothing"
    yield "that was denied before:"
    for relief in replay.reliefs:
        rules = " ".join(f"--allow '{rule}'" for rule in relief.rules)
        yield f"  {relief.questions:>4}  {rules}"


def _describe_difference(one: RejudgedCall) -> str:
    if not one.differs_in_grants:
        return one.would.reason
    return f"{one.past.verdict.grants.describe()} -> {one.would.grants.describe()}"


def _replay_json(replay: PolicyReplay) -> dict[str, Any]:
    return {
        "sessions": replay.sessions,
        "calls": len(replay.judged),
        "questions": sum(one.would.decision == "ask" for one in replay.judged),
        "differences": [
            {
                "session": one.past.session,
                "at": one.past.at,
                "tool": one.past.call.name,
                "input": one.past.call.input,
                "was": one.past.was,
                "was_by": one.past.verdict.by,
                "would_be": one.would.decision,
                "reason": one.would.reason,
                "rule": one.would.rule,
                "had": one.past.verdict.grants.describe(),
                "would_have": one.would.grants.describe(),
            }
            for one in replay.differences
        ],
        "suggestions": [
            {"allow": list(one.rules), "questions": one.questions} for one in replay.reliefs
        ],
        "unreadable": list(replay.unreadable),
    }


def _format_call(one: RejudgedCall) -> str:
    return f"{one.past.call.name}: {_format_input(one.past.call.input)}"


def _format_input(tool_input: Json) -> str:
    """Return the one argument that a call is about, or all of them."""
    text = json.dumps(tool_input, ensure_ascii=False)
    if isinstance(tool_input, dict):
        subject = tool_input.get("command") or tool_input.get("path")
        text = subject if isinstance(subject, str) else text
    line = show_controls(text).replace("\n", "⏎")
    return line if len(line) <= _MOST_CHARS else line[: _MOST_CHARS - 1] + "…"


def _write_json(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def _write_lines(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{show_controls(line)}\n")
