"""A session from beginning to end, one paragraph for each record, bounded unless `--full`."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from agentcli.features.insights.trace import Trace, TracedTurn, read_trace
from agentcli.features.insights.transcript import describe_undo
from agentcli.log.reader import build_empty_error
from agentcli.log.sessions import find_log
from agentcli.system.hosts import join_port
from agentcli.system.plain_text import show_controls
from agentcli.types.agents import (
    AgentEnded,
    AgentStarted,
    PatchDecided,
    describe_agent_fact,
)
from agentcli.types.checks import GoalChanged, Verified
from agentcli.types.events import (
    AsideAnswered,
    CallFinished,
    CallJudged,
    Checkpointed,
    CheckpointFailed,
    Compacted,
    ContextNote,
    DirectoryAdded,
    EffortChanged,
    Entry,
    Fact,
    FileAttached,
    HookRan,
    HostJudged,
    ModeChanged,
    ModelChanged,
    ModelFailed,
    ModelReplied,
    OutputStored,
    Rewound,
    ServerAsked,
    SessionEnded,
    SessionForked,
    SessionNamed,
    SessionResumed,
    SessionStarted,
    SignatureJudged,
    TokensSpent,
    TurnEnded,
    TurnStarted,
    Undone,
    Warned,
)
from agentcli.types.messages import Text, Thinking, ToolCall
from agentcli.types.spending import Spending, compute_spending
from agentcli.types.tools import Command, ToolResult
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import (
    describe_decision,
    describe_hosted,
    format_call,
    format_duration,
    format_target,
)
from agentcli.ui.report import BLOCK, ReportLine, write_report
from agentcli.ui.streams import out_is_terminal

BODY_LINES = 6
BODY_CHARS = 160
MARGIN = " " * 18


def show_trace(session: str | None, *, full: bool) -> None:
    log = find_log(session)
    trace = read_trace(log)
    if not trace.entries and not trace.faults:
        raise build_empty_error(log, "trace")
    write_report(render_trace(trace, full=full), is_cut=not full)
    if out_is_terminal():
        write_report(render_waterfall(trace.entries))


def render_trace(trace: Trace, *, full: bool = False) -> Iterator[ReportLine]:
    renderer = _TraceRenderer(trace, full=full)
    for fault in trace.faults:
        yield [("failed", show_controls(f"damaged: line {fault.line}: {fault.reason}"))]
    for entry in trace.entries:
        yield from renderer.render_entry(entry)


WATERFALL_COLUMNS = 40
MODEL = "model"


def render_waterfall(entries: Sequence[Entry]) -> Iterator[ReportLine]:
    """Yield a bar for each reply and call, where it stands in the time of the session.

    Nothing is yielded if there is only one of them."""
    bars = list(_list_bars(entries))
    if len(bars) < 2:
        return
    first = min(start for start, _, _ in bars)
    span_s = max(start + lasted for start, lasted, _ in bars) - first or 1.0
    per_s = WATERFALL_COLUMNS / span_s
    yield []
    yield [("strong", "where the time went"), ("dim", f", {format_duration(span_s)} in all")]
    for start, lasted, what in bars:
        before = min(WATERFALL_COLUMNS - 1, int((start - first) * per_s))
        cells = max(1, min(WATERFALL_COLUMNS - before, round(lasted * per_s)))
        bar = f"{' ' * before}{BLOCK * cells}".ljust(WATERFALL_COLUMNS)
        yield [
            ("accent" if what == MODEL else "ok", f"  {bar}"),
            ("dim", f"  {format_duration(lasted):>8}  "),
            ("dim" if what == MODEL else "", show_controls(what)),
        ]


def _list_bars(entries: Sequence[Entry]) -> Iterator[tuple[float, float, str]]:
    """Yield start and duration, in seconds, and a name."""
    calls: dict[str, ToolCall] = {}
    for entry in entries:
        ended = _parse_seconds(entry.at)
        if ended is None:
            continue
        match entry.fact:
            case ModelReplied(message=message, duration_s=lasted):
                calls |= {call.id: call for call in message.tool_calls}
                yield ended - lasted, lasted, MODEL
            case CallFinished(result=result, duration_s=lasted):
                call = calls.get(result.call_id)
                yield ended - lasted, lasted, f"{result.name} {format_target(call) if call else ''}"
            case _:
                pass


class _TraceRenderer:
    def __init__(self, trace: Trace, *, full: bool) -> None:
        self._full = full
        self._began = _parse_seconds(trace.entries[0].at) if trace.entries else None
        self._calls: dict[str, ToolCall] = {}
        self._turns = {turn.record: turn for turn in trace.turns}
        self._turn: TracedTurn | None = None

    def render_entry(self, entry: Entry) -> Iterator[ReportLine]:
        head, *body = self._render_fact(entry)
        now = _parse_seconds(entry.at)
        at = "       ?" if now is None or self._began is None else f"{now - self._began:8.3f}"
        # The log may hold anything: print one line, with nothing that a terminal would obey.
        shown = show_controls(head.replace("\n", " "))
        yield [("dim", f"{entry.seq:>6} {at}s  "), (_choose_style(entry.fact), shown)]
        for text in body:
            yield from ([("dim", line)] for line in self._render_body(text))

    def _render_fact(self, entry: Entry) -> list[str]:
        fact = entry.fact
        match fact:
            case TurnStarted():
                self._turn = self._turns.get(entry.seq)
                number = self._turn.number if self._turn else "?"
                prompt = self._turn.prompt if self._turn else ""
                return [f"turn {number}", prompt]
            case ModelReplied():
                return self._render_reply(fact)
            case CallJudged(call=call):
                self._calls[call.id] = call
                return [f"  judged   {_render_verdict(fact)}"]
            case CallFinished():
                return self._render_result(fact)
            case TurnEnded():
                return [self._render_turn_end(fact)]
            case _:
                render = _RENDERERS.get(type(fact))
                return [render(fact) if render else f"  {fact.type}"]

    def _render_reply(self, reply: ModelReplied) -> list[str]:
        message = reply.message
        retries = f" · {pluralize(reply.retries, 'retry', many='retries')}" if reply.retries else ""
        request = f" · request {message.request_id}" if message.request_id else ""
        head = (
            f"  reply    {format_duration(reply.duration_s)} · "
            f"{_format_usage(compute_spending(reply))} · "
            f"stop {message.stop}{retries}{request}"
        )
        body = []
        for block in message.content:
            match block:
                case Text(text=text):
                    body.append(text)
                case Thinking(text=text) if text:
                    body.append(f"(thinking) {text}")
                case ToolCall() as call:
                    self._calls[call.id] = call
                    body.append(f"-> {call.name} {format_target(call)}  [{call.id}]")
                case _:
                    pass
        return [head, *body, *describe_hosted(message)]

    def _render_result(self, finished: CallFinished) -> list[str]:
        result = finished.result
        call = self._calls.get(result.call_id)
        if call is None:
            call = ToolCall(id=result.call_id, name=result.name, input=None)
        cut = " · cut" if result.truncated else ""
        return [
            f"  result   {format_call(call, result, duration_s=finished.duration_s)}{cut}",
            result.text,
        ]

    def _render_turn_end(self, ended: TurnEnded) -> str:
        reason = f": {ended.message}" if ended.message else ""
        turn, self._turn = self._turn, None
        if turn is None:
            return f"ended {ended.ending}{reason}"
        return (
            f"ended {ended.ending}{reason} · {turn.spending.request_summary} · "
            f"{pluralize(len(turn.calls), 'call')} · {_format_usage(turn.spending)}"
        )

    def _render_body(self, text: str) -> Iterator[str]:
        """Yield the lines, or only the first and last ones if there are too many."""
        rows = show_controls(text).strip("\n").split("\n") if text.strip() else []
        if self._full:
            yield from (f"{MARGIN}{row}" for row in rows)
            return
        left_out = len(rows) - BODY_LINES
        if left_out > 0:
            half = BODY_LINES // 2
            rows = [*rows[:half], f"… {left_out} more lines (--full)", *rows[-half:]]
        for row in rows:
            yield MARGIN + (row if len(row) <= BODY_CHARS else row[:BODY_CHARS] + "…")


def _choose_style(fact: Fact) -> str:
    """Return the style of a record: what a reader looks for stands out."""
    match fact:
        case TurnStarted():
            return "strong"
        case TurnEnded(ending=ending):
            return "ok" if ending == "done" else "failed"
        case CallFinished(result=ToolResult(status="error")):
            return "failed"
        case CallFinished(result=ToolResult(details=Command(exit_code=exit_code))):
            return "failed" if exit_code else ""
        case CallJudged(verdict=verdict):
            return "warning" if verdict.decision == "deny" else "dim"
        case Verified(exit_code=exit_code):
            return "failed" if exit_code else "ok"
        case _:
            return _STYLES.get(type(fact), "")


_STYLES: dict[type[Fact], str] = {
    ModelReplied: "accent",
    ModelFailed: "failed",
    Warned: "warning",
    ContextNote: "dim",
}


def _render_verdict(judged: CallJudged) -> str:
    verdict = judged.verdict
    rule = f" {verdict.rule}" if verdict.rule else ""
    call = f"{judged.call.name} {format_target(judged.call)}"
    reason = "" if verdict.by == "user" else f" · {verdict.reason}"
    return f"{describe_decision(verdict)}{rule} · {judged.effect} · {call}{reason}"


def _format_usage(spent: Spending) -> str:
    usage = spent.usage
    cached = f" ({usage.cache_read_tokens} cached)" if usage.cache_read_tokens else ""
    return f"{usage.prompt_tokens} in{cached}, {usage.output_tokens} out · {spent.cost_text}"


_SPENT_ON = {
    "broken_off": "a cut-off attempt",
    "evaluation": "the evaluation of a call",
    "title": "the title of the session",
}


def _render_spent_tokens(fact: TokensSpent) -> str:
    return f"  spent    on {_SPENT_ON[fact.why]} · {_format_usage(compute_spending(fact))}"


def _parse_seconds(at: str) -> float | None:
    try:
        return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _render_session_start(fact: SessionStarted | SessionResumed) -> str:
    verb = "session" if isinstance(fact, SessionStarted) else "resumed"
    where = fact.workspace
    return f"{verb} {fact.session} · agentcli {fact.version} · {fact.model} · {fact.mode} · {where}"


def _render_session_end(fact: SessionEnded) -> str:
    reason = f": {fact.message}" if fact.message else ""
    return f"session ended, exit code {fact.exit_code}{reason}"


def _render_check(fact: Verified) -> str:
    code = "killed" if fact.exit_code is None else f"exit {fact.exit_code}"
    return f"  check    {fact.command}: {code} ({format_duration(fact.duration_s)})"


def _render_changes(fact: Checkpointed) -> str:
    more = fact.paths_total - len(fact.paths[:5])
    shown = ", ".join(fact.paths[:5]) + (f" and {more} more" if more > 0 else "")
    lost = f"not stored: {', '.join(fact.not_kept[:5])}" if fact.not_kept else ""
    return f"  changed  {' · '.join(filter(None, (shown, lost)))}"


def _render_undo(fact: Undone) -> str:
    verb = "undid" if fact.action == "undo" else "redid"
    numbers = ", ".join(map(str, fact.numbers))
    lost = f" · conflicts: {', '.join(fact.conflicts)}" if fact.conflicts else ""
    return f"you {verb} change {numbers}: {', '.join(fact.paths)}{lost}"


_RENDERERS: dict[type[Fact], Callable[..., str]] = {
    SessionStarted: _render_session_start,
    SessionResumed: _render_session_start,
    SessionForked: lambda fact: f"forked from {fact.origin} after record {fact.at_seq}",
    SessionNamed: lambda fact: f"named {fact.name}",
    DirectoryAdded: lambda fact: (
        f"directory {fact.path} added{'' if fact.writable else ', only to read'}"
    ),
    SessionEnded: _render_session_end,
    GoalChanged: lambda fact: f"goal {', '.join(fact.commands) or 'dropped'}",
    AsideAnswered: lambda fact: f"you asked aside: {fact.question[:BODY_CHARS]}",
    EffortChanged: lambda fact: f"effort {fact.effort or 'default'}",
    ModeChanged: lambda fact: f"mode {fact.mode}",
    ModelChanged: lambda fact: f"model {fact.model}",
    ContextNote: lambda fact: f"  note     ({fact.why}) {fact.text[:BODY_CHARS]}",
    Warned: lambda fact: f"  warning  {fact.message}",
    FileAttached: lambda fact: f"  attached {fact.name}, {fact.size_bytes} bytes",
    ServerAsked: lambda fact: f"  asked    by {fact.server}: {fact.message} ({fact.answer})",
    ModelFailed: lambda fact: f"  no reply {fact.kind}: {fact.message}",
    TokensSpent: _render_spent_tokens,
    HookRan: lambda fact: f"  hook     {fact.hook} {fact.decision} {fact.reason}",
    HostJudged: lambda fact: (
        f"  host     {join_port(fact.host, fact.port)}{f' for {fact.server}' * bool(fact.server)}"
        f"{' ' * bool(fact.credential)}{fact.credential} {fact.verdict.decision}"
        f" by {fact.verdict.by}: {fact.verdict.reason}"
    ),
    SignatureJudged: lambda fact: (
        f"  ssh      {fact.purpose} with {fact.key}: {fact.verdict.decision}"
        f" by {fact.verdict.by}: {fact.verdict.reason}"
    ),
    OutputStored: lambda fact: f"  output   {Path(fact.log_path).name} ended",
    Verified: _render_check,
    Compacted: lambda fact: (
        f"  summary  of {fact.tokens_before} tokens · {_format_usage(compute_spending(fact))}"
    ),
    AgentStarted: lambda fact: f"  agent    {describe_agent_fact(fact)}",
    AgentEnded: lambda fact: f"  agent    {describe_agent_fact(fact)}",
    PatchDecided: lambda fact: f"  agent    {describe_agent_fact(fact)}",
    Checkpointed: _render_changes,
    CheckpointFailed: lambda fact: f"  unstored {fact.reason}: cannot be undone",
    Undone: _render_undo,
    Rewound: describe_undo,
}
