"""A session as users read it: turns, and in them the words, calls and notes, in order.

Markdown and HTML are two renderings of this. Only what users never see is left out.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from agentcli.types.agents import (
    AgentEnded,
    AgentStarted,
    PatchDecided,
    describe_agent_fact,
)
from agentcli.types.checks import Verified
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ContextNote,
    Entry,
    Fact,
    ModelFailed,
    ModelReplied,
    Rewound,
    SessionForked,
    SessionResumed,
    SessionStarted,
    TokensSpent,
    TurnEnded,
    TurnStarted,
    Undone,
    Warned,
)
from agentcli.types.messages import Text, Thinking, ToolCall, UserMessage
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending
from agentcli.types.tools import Command, Diff, ToolResult
from agentcli.types.verdicts import Verdict
from agentcli.ui.render.wording import describe_decision, describe_hosted, format_command_ending
from agentcli.ui.stored_changes import count_changes


@dataclass(slots=True)
class TranscriptReply:
    """The model's words of one reply, and the cost of the reply."""

    text: str
    thinking: str
    spent: Spending
    duration_s: float


@dataclass(slots=True)
class TranscriptCall:
    call: ToolCall
    verdict: Verdict | None = None
    result: ToolResult | None = None
    duration_s: float = 0.0


@dataclass(slots=True)
class TranscriptNote:
    """One sentence about something the runtime or the user did."""

    text: str


Item: TypeAlias = TranscriptReply | TranscriptCall | TranscriptNote


@dataclass(slots=True)
class TranscriptTurn:
    prompt: UserMessage
    at: str
    items: list[Item] = field(default_factory=list)
    ended: TurnEnded | None = None


@dataclass(slots=True)
class Transcript:
    session: str = ""
    version: str = ""
    workspace: str = ""
    model: str = ""
    mode: str = ""
    started: str = ""
    last: str = ""
    turns: list[TranscriptTurn] = field(default_factory=list)
    spending: Spending = NO_SPENDING
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        content = self.turns[0].prompt.content if self.turns else ()
        prompt = next((block.text for block in content if isinstance(block, Text)), "")
        words = " ".join(prompt.split())  # what was attached to the message is no title
        return words if len(words) <= 80 else words[:79] + "…"


def build_transcript(entries: Sequence[Entry], sessions: Path | None = None) -> Transcript:
    """`sessions` is the directory of all sessions, for what commands changed; None if unknown."""
    made = Transcript(changed=count_changes([one.fact for one in entries], sessions=sessions))
    for entry in entries:
        _add(made, entry)
        made.spending += compute_spending(entry.fact)
        made.last = entry.at
    return made


def join_prompt_text(message: UserMessage) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


def describe_spending(spent: Spending) -> str:
    usage = spent.usage
    return (
        f"{usage.prompt_tokens} tokens in ({usage.cache_read_tokens} cached), "
        f"{usage.output_tokens} out, {spent.cost_text}"
    )


def _add(made: Transcript, entry: Entry) -> None:
    match entry.fact:
        case SessionStarted() | SessionResumed() as opened:
            made.session, made.version = opened.session, opened.version
            made.workspace, made.model, made.mode = opened.workspace, opened.model, opened.mode
            made.started = made.started or entry.at
        case TurnStarted(message=message):
            made.turns.append(TranscriptTurn(prompt=message, at=entry.at))
        case _ if made.turns:
            _add_to_turn(made.turns[-1], entry.fact)
        case _:
            pass


def _add_to_turn(turn: TranscriptTurn, fact: Fact) -> None:
    match fact:
        case ModelReplied():
            _reply(turn, fact)
        case CallJudged(call=call, verdict=verdict):
            called = _find_call(turn, call.id)
            if called is None:
                called = TranscriptCall(call)  # made by a program that the model wrote
                turn.items.append(called)
            called.verdict = verdict
        case CallFinished(result=result, duration_s=duration_s):
            _finish(turn, result=result, duration_s=duration_s)
        case TokensSpent(why=why):
            what = "An attempt was cut off" if why == "broken_off" else "A model evaluated the call"
            turn.items.append(
                TranscriptNote(f"{what}: {describe_spending(compute_spending(fact))}")
            )
        case TurnEnded():
            turn.ended = fact
        case _:
            note = _describe_note(fact)
            if note:
                turn.items.append(TranscriptNote(note))


def _reply(turn: TranscriptTurn, fact: ModelReplied) -> None:
    message = fact.message
    thinking = "\n".join(block.text for block in message.content if isinstance(block, Thinking))
    turn.items.append(
        TranscriptReply(message.text, thinking.strip(), compute_spending(fact), fact.duration_s)
    )
    if lines := describe_hosted(message):
        turn.items.append(TranscriptNote("\n".join(lines)))
    turn.items.extend(TranscriptCall(call) for call in message.tool_calls)


def _finish(turn: TranscriptTurn, *, result: ToolResult, duration_s: float) -> None:
    called = _find_call(turn, result.call_id)
    if called is not None:
        called.result, called.duration_s = result, duration_s


def _find_call(turn: TranscriptTurn, call_id: str) -> TranscriptCall | None:
    for item in reversed(turn.items):
        if isinstance(item, TranscriptCall) and item.call.id == call_id and item.result is None:
            return item
    return None


def describe_undo(fact: Undone | Rewound) -> str:
    if isinstance(fact, Undone):
        did = "Undid" if fact.action == "undo" else "Redid"
        return f"{did} changes in {', '.join(fact.paths)}"
    did = "Went back to before" if fact.action == "rewind" else "Returned to"
    return f"{did} turn {fact.turn}"


def _describe_note(fact: Fact) -> str:
    match fact:
        case ContextNote(text=text, why=why, attached=attached):
            note = join_prompt_text(UserMessage(content=(Text(text=text), *attached)))
            return f"Context note ({why}): {note}"
        case Warned(message=message):
            return f"Warning: {message}"
        case ModelFailed(kind=kind, message=message):
            return f"No reply ({kind}): {message}"
        case Compacted(summary=summary):
            return f"The conversation was summarized:\n{summary}"
        case Undone() | Rewound():
            return describe_undo(fact)
        case Verified(command=command, exit_code=exit_code):
            return f"Checked with {command}: exit {exit_code}"
        case SessionForked(origin=origin):
            return f"Forked from the session {origin}"
        case _:
            return _describe_agent_note(fact)


def _describe_agent_note(fact: Fact) -> str:
    if isinstance(fact, AgentStarted | AgentEnded | PatchDecided):
        return describe_agent_fact(fact)
    return ""


# Words that both renderings share: targets, verdicts, outcomes, totals


ALLOWED = ("allow", "modify")


def format_arguments(call: ToolCall) -> str:
    if isinstance(call.input, str):
        return call.input
    return json.dumps(call.input, ensure_ascii=False)


def describe_outcome(called: TranscriptCall) -> str:
    result = called.result
    if result is None:
        return "never ran"
    if called.verdict is not None and called.verdict.decision not in ALLOWED:
        return "denied"
    match result.details:
        case Diff() as diff:
            return f"{'new file, ' if diff.created else ''}+{diff.added} −{diff.removed}"
        case Command() as command:
            return format_command_ending(command)
        case _:
            return result.error.value.replace("_", " ") if result.error else "ok"


def describe_verdict(called: TranscriptCall) -> str:
    given = called.verdict
    if given is None:
        return "not judged"
    rule = f" ({given.rule})" if given.rule else ""
    reason = "" if given.by == "user" else f": {given.reason}"
    return f"{describe_decision(given)}{rule}{reason}"


def choose_result_body(result: ToolResult) -> str:
    """Return the part of a result that users want to see."""
    if isinstance(result.details, Diff) and result.details.unified:
        return result.details.unified
    return result.text


def format_seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def format_reply_sums(reply: TranscriptReply) -> str:
    return f"{describe_spending(reply.spent)}, {format_seconds(reply.duration_s)}"


def list_session_sums(made: Transcript) -> list[tuple[str, str]]:
    changed = ", ".join(f"{path} +{add} −{cut}" for path, (add, cut) in made.changed.items())
    return [
        ("session", made.session),
        ("workspace", made.workspace),
        ("model", f"{made.model}, {made.mode} mode"),
        ("when", f"{made.started} to {made.last}"),
        ("used", f"{made.spending.request_summary}, {describe_spending(made.spending)}"),
        ("changed", changed or "nothing"),
        ("agentcli", made.version),
    ]
