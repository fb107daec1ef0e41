"""Explanations of verdicts: what would happen to a call, part by part, and what would allow it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from agentcli.permissions.decide import PolicyDecider, why_unreachable
from agentcli.permissions.readonly import LineCoverage
from agentcli.permissions.shell import OpaqueLine
from agentcli.permissions.subject import (
    KNOWN_TOOLS,
    SHELL,
    CallSubject,
    SubjectFactory,
)
from agentcli.permissions.suggest import (
    find_remedy,
    format_options,
    suggest_for_call,
    suggest_rules,
)
from agentcli.system.grants import flatten_request, parse_request
from agentcli.types.errors import UsageError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.own_tools import WEB_FETCH, ToolKind, get_kind
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, RuleSuggestion, Verdict

_MCP = "mcp__"
_IN_RULES = {"edit": "edit_file", "read": "read_file"}
"""Names of tool groups in rules, each with the tool that stands for it in an example."""
_HOW = "agentcli policy explain 'bash: git push'   or: 'edit_file: src/a.py'"

_EFFECT_OF_KIND: Mapping[ToolKind, Effect] = {
    "read": Effect.READ,
    "search": Effect.READ,
    "edit": Effect.WRITE,
    "fetch": Effect.NETWORK,
}
"""The effects of kinds of tools; that of other kinds is taken for `execute`."""

_HOW_TO_NEED = """write 'bash: {"command": "make", "needs": ["network:docs.example.org"]}'"""


@dataclass(frozen=True, slots=True)
class PartView:
    """One command of a line."""

    source: str
    reads: bool
    """True if it is proven to only read."""
    why: str
    """The rule that allows it, or why it is not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The verdict on a call under the current rules and mode, with its reasons."""

    tool: str
    input: Json
    mode: Mode
    verdict: Verdict
    where: str
    """The file and line, or the option, of the rule that decides."""
    suggestion: RuleSuggestion | None
    """Rules that would allow it; None if it is allowed already or nothing can allow it."""
    rules: tuple[str, ...] = ()
    """The same, or the rule for every command if none is for this line."""
    remedies: tuple[str, ...] = ()
    """The options that would permit it, or what a rule must give."""
    parts: tuple[PartView, ...] = ()
    not_plain: str = ""
    """The reason why a command line cannot be split into parts."""
    why_not_read: str | None = None
    """The reason why it does not only read; None if it only reads."""


def explain(
    tool: str, tool_input: Json, *, decider: PolicyDecider, subjects: SubjectFactory, mode: Mode
) -> Explanation:
    effect = _guess_effect(tool, tool_input, proves_read=decider.proves_read)
    subject = subjects.build(tool, tool_input, effect=effect, source=_name_source(tool))
    review = decider.review(subject, mode=mode)
    verdict = _refuse_unreachable(review.add_grants(review.verdict), subject)
    is_open = verdict.decision == "ask" and verdict.by == "mode"
    suggestion = suggest_rules(review) if is_open else None
    return Explanation(
        tool=tool,
        input=tool_input,
        mode=mode,
        verdict=verdict,
        where=decider.locate_rule(verdict),
        suggestion=suggestion,
        rules=suggest_for_call(subject, suggestion) if suggestion else (),
        remedies=_list_remedies(suggestion, subject, is_call_open=review.verdict.decision == "ask"),
        parts=tuple(_explain_parts(review.coverage)) if review.coverage else (),
        not_plain=subject.line.reason if isinstance(subject.line, OpaqueLine) else "",
        why_not_read=review.why_not_read,
    )


def _explain_parts(coverage: LineCoverage) -> Iterator[PartView]:
    uncovered = {id(one.part): one.reason for one in coverage.uncovered}
    for one in coverage.parts:
        allowed = f"rule {one.rules[0].cited} allows it" if one.rules else "read-only"
        why = uncovered.get(id(one.part)) or allowed
        yield PartView(one.part.source, one.why_not_read is None, why)


def _refuse_unreachable(verdict: Verdict, subject: CallSubject) -> Verdict:
    """Return a denial if the mode allows reading a path that the tool cannot reach."""
    if verdict.decision != "allow" or verdict.by != "mode":
        return verdict
    for reach in subject.outside:
        if why := why_unreachable(reach):
            reason = f"{reach.written} is outside the workspace, and {why}"
            return replace(verdict, decision="deny", reason=reason)
    return verdict


def _list_remedies(
    suggestion: RuleSuggestion | None, subject: CallSubject, *, is_call_open: bool
) -> tuple[str, ...]:
    if suggestion is None:
        return ()
    options, only_by_rule = find_remedy(suggestion, is_call_open=is_call_open)
    if is_call_open and not suggestion.rules and not only_by_rule:
        wide = suggest_for_call(subject, suggestion)
        options = format_options(wide, suggestion.grants.hosts)
    in_rule = f"a rule with {only_by_rule}" if only_by_rule else ""
    return tuple(filter(None, (options, in_rule)))


def parse_query(query: str) -> tuple[str, Json]:
    """Parse `bash: git push`, or a tool with JSON arguments. Raise UsageError."""
    tool, colon, rest = (part.strip() for part in query.partition(":"))
    is_foreign = tool.startswith(_MCP)
    if not colon or not (rest or is_foreign):
        raise UsageError(f"{query!r} is not a call", hint=_HOW)
    tool = _IN_RULES.get(tool, tool)
    if tool not in KNOWN_TOOLS and not is_foreign:
        raise UsageError(f"unknown tool {tool}", hint=f"tools: {', '.join(sorted(KNOWN_TOOLS))}")
    is_group = tool == SHELL and rest[1:2].isspace() and rest[1:].lstrip()[:1] not in ('"', "}")
    is_json = rest.startswith("{") and not is_group  # in a shell, { ls; } is a group
    found = _parse_arguments(rest) if is_json else build_input(tool, rest)
    if tool == "bash" and isinstance(found, dict):
        _check_needs(found.get("needs") or [])
    return tool, found


def _check_needs(needs: Json) -> None:
    try:
        entries = flatten_request(needs)
        if not isinstance(entries, list) or not all(isinstance(one, str) for one in entries):
            raise ValueError("needs must be a list of strings")
        parse_request(entries)
    except ValueError as error:
        raise UsageError(f"the needs are not valid: {error}", hint=_HOW_TO_NEED) from None


def _parse_arguments(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the arguments are not JSON: {error}", hint=_HOW) from None
    return found


def build_input(tool: str, text: str) -> Json:
    """Return the arguments that the text of an example or a query stands for."""
    if tool == "bash":
        return {"command": text}
    if tool == WEB_FETCH:
        return {"url": text}
    return {"patch": f"*** Update File: {text}"} if tool == "apply_patch" else {"path": text}


def _name_source(tool: str) -> str:
    """Return the source of a tool. `mcp__github__create` is a server's tool as models name it."""
    server, separator, _ = tool.removeprefix(_MCP).partition("__")
    return f"mcp {server}" if tool.startswith(_MCP) and separator else "built-in"


def _guess_effect(tool: str, tool_input: Json, *, proves_read: Callable[[str], bool]) -> Effect:
    """Return the effect that a session would find for the call, as far as its tool decides it."""
    if tool == SHELL and isinstance(tool_input, dict):
        is_kept = tool_input.get("background") or tool_input.get("terminal")
        is_read = not is_kept and proves_read(str(tool_input.get("command", "")))
        return Effect.READ if is_read else Effect.EXECUTE
    return _EFFECT_OF_KIND.get(get_kind(tool), Effect.EXECUTE)
