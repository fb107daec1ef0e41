"""What would happen to a call, and why: the verdict, part by part, and what would allow it."""

import json
from dataclasses import dataclass

from agentcli.permissions.decide import PolicyDecider
from agentcli.permissions.shell import OpaqueLine
from agentcli.permissions.subject import EDITING, KNOWN_TOOLS, READING, CallSubject, SubjectFactory
from agentcli.permissions.suggest import RuleSuggestion, suggest_rules
from agentcli.types.errors import UsageError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, Verdict

_MCP = "mcp__"
_IN_RULES = {"edit": "edit_file", "read": "read_file"}
"""How rules name tools of a kind, and the one of them that an example is about."""
_HOW = """write: bash: git push   or: edit_file: src/a.py   or: bash: {"command": "git push"}"""


@dataclass(frozen=True, slots=True)
class PartView:
    """One command of a line."""

    source: str
    reads: bool
    """Proven to only read."""
    why: str
    """Which rule allows it, or what keeps it from being allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What would happen to a call if nobody changed anything."""

    tool: str
    input: Json
    mode: Mode
    verdict: Verdict
    where: str
    """The file and line, or the option, of the rule that decides."""
    suggestion: RuleSuggestion | None
    """What would allow it; None: it is allowed, or nothing can allow it."""
    parts: tuple[PartView, ...] = ()
    not_plain: str = ""
    """What keeps a command line from being taken apart."""
    why_not_read: str | None = None
    """None: it only reads."""


def explain(
    tool: str, tool_input: Json, *, decider: PolicyDecider, subjects: SubjectFactory, mode: Mode
) -> Explanation:
    subject = subjects.build(tool, tool_input, source=_source(tool))
    effect = guess_effect(subject)
    verdict = decider.decide(subject, effect=effect, mode=mode)
    is_open = verdict.decision == "ask" and verdict.by == "mode"
    return Explanation(
        tool=tool,
        input=tool_input,
        mode=mode,
        verdict=verdict,
        where=decider.locate_rule(verdict),
        suggestion=suggest_rules(subject, decider) if is_open else None,
        parts=tuple(PartView(*told) for told in decider.explain_parts(subject)),
        not_plain=subject.line.reason if isinstance(subject.line, OpaqueLine) else "",
        why_not_read=decider.why_not_reading(subject, effect),
    )


def parse_query(query: str) -> tuple[str, Json]:
    """`bash: git push`, or with arguments in JSON, as a tool and its input. Raises UsageError."""
    tool, colon, rest = (part.strip() for part in query.partition(":"))
    is_foreign = tool.startswith(_MCP)
    if not colon or not (rest or is_foreign):
        raise UsageError(f"{query!r} is not a call", hint=_HOW)
    tool = _IN_RULES.get(tool, tool)
    if tool not in KNOWN_TOOLS and not is_foreign:
        raise UsageError(
            f"there is no tool {tool}", hint=f"tools: {', '.join(sorted(KNOWN_TOOLS))}"
        )
    return tool, _arguments(rest) if rest.startswith("{") else build_input(tool, rest)


def _arguments(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the arguments are not JSON: {error}", hint=_HOW) from None
    return found


def build_input(tool: str, text: str) -> Json:
    """The arguments that a text in an example or a query stands for."""
    if tool == "bash":
        return {"command": text}
    return {"patch": f"*** Update File: {text}"} if tool == "apply_patch" else {"path": text}


def _source(tool: str) -> str:
    """`mcp__github__create` is the name of a server's tool as a model gets it."""
    server, separator, _ = tool.removeprefix(_MCP).partition("__")
    return f"mcp {server}" if tool.startswith(_MCP) and separator else "built-in"


def guess_effect(subject: CallSubject) -> Effect:
    if subject.tool in READING:
        return Effect.READ
    return Effect.WRITE if subject.tool in EDITING else Effect.EXECUTE
