"""A session from top to bottom, one paragraph a record, each bounded unless all is wanted."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime

from agentcli.machine.plain import visible
from agentcli.record.sessions import log_of
from agentcli.record.triage.trace import Trace, TracedTurn, read_trace
from agentcli.types.checks import Verified
from agentcli.types.events import (
    Attached,
    CallFinished,
    CallJudged,
    Checkpointed,
    Compacted,
    Entry,
    Fact,
    HookRan,
    ModeChanged,
    ModelChanged,
    ModelFailed,
    ModelReplied,
    ServerAsked,
    SessionEnded,
    SessionForked,
    SessionNamed,
    SessionResumed,
    SessionStarted,
    TokensSpent,
    Told,
    TurnEnded,
    TurnStarted,
    Undone,
    Warned,
)
from agentcli.types.messages import Text, Thinking, ToolCall
from agentcli.types.spending import Spending, spent_on
from agentcli.types.words import counted
from agentcli.ui.lines import call_line, duration, target

BODY_LINES = 6
BODY_CHARS = 160
MARGIN = " " * 18


def show(session: str | None, *, full: bool) -> None:
    trace = read_trace(log_of(session))
    for line in lines(trace, full=full):
        sys.stdout.write(line + "\n")


def lines(trace: Trace, *, full: bool = False) -> Iterator[str]:
    told = _Telling(trace, full=full)
    for fault in trace.faults:
        yield visible(f"damaged: line {fault.line}: {fault.reason}")
    for entry in trace.entries:
        yield from told.entry(entry)


class _Telling:
    def __init__(self, trace: Trace, *, full: bool) -> None:
        self._full = full
        self._began = _seconds(trace.entries[0].at) if trace.entries else None
        self._calls: dict[str, ToolCall] = {}
        self._turns = {turn.record: turn for turn in trace.turns}
        self._turn: TracedTurn | None = None

    def entry(self, entry: Entry) -> Iterator[str]:
        head, *body = self._told(entry)
        now = _seconds(entry.at)
        at = "       ?" if now is None or self._began is None else f"{now - self._began:8.3f}"
        # Whatever a log may hold: one line, with nothing in it that a terminal would obey.
        yield visible(f"{entry.seq:>6} {at}s  {head}".replace("\n", " "))
        for text in body:
            yield from self._body(text)

    def _told(self, entry: Entry) -> list[str]:
        fact = entry.fact
        match fact:
            case TurnStarted():
                self._turn = self._turns.get(entry.seq)
                number = self._turn.number if self._turn else "?"
                prompt = self._turn.prompt if self._turn else ""
                return [f"turn {number}", prompt]
            case ModelReplied():
                return self._replied(fact)
            case CallJudged(call=call):
                self._calls[call.id] = call
                return [f"  judged   {_verdict(fact)}"]
            case CallFinished():
                return self._finished(fact)
            case TurnEnded():
                return [self._ended(fact)]
            case _:
                tell = _WORDS.get(type(fact))
                return [tell(fact) if tell else f"  {fact.type}"]

    def _replied(self, reply: ModelReplied) -> list[str]:
        message = reply.message
        retries = f" · {counted(reply.retries, 'retry', 'retries')}" if reply.retries else ""
        head = (
            f"  reply    {duration(reply.duration_s)} · {_used(spent_on(reply))} · "
            f"stop {message.stop}{retries}"
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
                    body.append(f"-> {call.name} {target(call)}  [{call.id}]")
                case _:
                    pass
        return [head, *body]

    def _finished(self, finished: CallFinished) -> list[str]:
        result = finished.result
        call = self._calls.get(result.call_id)
        if call is None:
            call = ToolCall(id=result.call_id, name=result.name, input=None)
        cut = " · cut" if result.truncated else ""
        return [f"  result   {call_line(call, result, finished.duration_s)}{cut}", result.text]

    def _ended(self, ended: TurnEnded) -> str:
        said = f": {ended.message}" if ended.message else ""
        turn, self._turn = self._turn, None
        if turn is None:
            return f"ended {ended.ending}{said}"
        return (
            f"ended {ended.ending}{said} · {turn.spending.asked} · "
            f"{counted(len(turn.calls), 'call')} · {_used(turn.spending)}"
        )

    def _body(self, text: str) -> Iterator[str]:
        """The first lines and the last, where all of them would be too many."""
        rows = visible(text).strip("\n").split("\n") if text.strip() else []
        if self._full:
            yield from (f"{MARGIN}{row}" for row in rows)
            return
        left_out = len(rows) - BODY_LINES
        if left_out > 0:
            half = BODY_LINES // 2
            rows = [*rows[:half], f"… {left_out} more lines (--full)", *rows[-half:]]
        for row in rows:
            yield MARGIN + (row if len(row) <= BODY_CHARS else row[:BODY_CHARS] + "…")


def _verdict(judged: CallJudged) -> str:
    verdict = judged.verdict
    rule = f" {verdict.rule}" if verdict.rule else ""
    call = f"{judged.call.name} {target(judged.call)}"
    reason = verdict.reason
    return f"{verdict.decision} by {verdict.by}{rule} · {judged.effect} · {call} · {reason}"


def _used(spent: Spending) -> str:
    usage = spent.usage
    cached = f" ({usage.cache_read_tokens} cached)" if usage.cache_read_tokens else ""
    return f"{usage.prompt_tokens} in{cached}, {usage.output_tokens} out · {spent.cost}"


def _spent(fact: TokensSpent) -> str:
    what = "an attempt that broke off" if fact.why == "broken_off" else "an opinion on a call"
    return f"  spent    on {what} · {_used(spent_on(fact))}"


def _seconds(at: str) -> float | None:
    try:
        return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _opened(fact: SessionStarted | SessionResumed) -> str:
    verb = "session" if isinstance(fact, SessionStarted) else "resumed"
    where = fact.workspace
    return f"{verb} {fact.session} · agentcli {fact.version} · {fact.model} · {fact.mode} · {where}"


def _closed(fact: SessionEnded) -> str:
    said = f": {fact.message}" if fact.message else ""
    return f"session ended, exit code {fact.exit_code}{said}"


def _verified(fact: Verified) -> str:
    code = "killed" if fact.exit_code is None else f"exit {fact.exit_code}"
    return f"  check    {fact.command}: {code} ({duration(fact.duration_s)})"


def _changed(fact: Checkpointed) -> str:
    more = fact.paths_total - len(fact.paths[:5])
    shown = ", ".join(fact.paths[:5]) + (f" and {more} more" if more > 0 else "")
    lost = f" · not kept: {', '.join(fact.not_kept[:5])}" if fact.not_kept else ""
    return f"  changed  {shown}{lost}"


def _undone(fact: Undone) -> str:
    verb = "took back" if fact.action == "undo" else "put back"
    numbers = ", ".join(map(str, fact.numbers))
    lost = f" · conflicts: {', '.join(fact.conflicts)}" if fact.conflicts else ""
    return f"the person {verb} change {numbers}: {', '.join(fact.paths)}{lost}"


_WORDS: dict[type[Fact], Callable[..., str]] = {
    SessionStarted: _opened,
    SessionResumed: _opened,
    SessionForked: lambda fact: f"forked from {fact.origin} after record {fact.at_seq}",
    SessionNamed: lambda fact: f"named {fact.name}",
    SessionEnded: _closed,
    ModeChanged: lambda fact: f"mode {fact.mode}",
    ModelChanged: lambda fact: f"model {fact.model}",
    Told: lambda fact: f"  told     ({fact.why}) {fact.text[:BODY_CHARS]}",
    Warned: lambda fact: f"  warning  {fact.message}",
    Attached: lambda fact: f"  attached {fact.name}, {fact.size_bytes} bytes",
    ServerAsked: lambda fact: f"  asked    by {fact.server}: {fact.message} ({fact.answer})",
    ModelFailed: lambda fact: f"  no reply {fact.kind}: {fact.message}",
    TokensSpent: _spent,
    HookRan: lambda fact: f"  hook     {fact.hook} {fact.decision} {fact.reason}",
    Verified: _verified,
    Compacted: lambda fact: f"  summary  of {fact.tokens_before} tokens · {_used(spent_on(fact))}",
    Checkpointed: _changed,
    Undone: _undone,
}
