"""Checks of the ending: the log itself, the process, the last turn."""

from collections.abc import Iterator

from agentcli.features.insights.finding import Level, TriageCase, TriageFinding
from agentcli.types.events import (
    AnswerChecked,
    ClaimsChecked,
    Compacted,
    Ending,
    HookRan,
    ModelFailed,
    ResultsTrimmed,
    SessionEnded,
    SessionResumed,
    TurnEnded,
    Verified,
    Warned,
)

FAULTS_SHOWN = 5

_FIXES = {
    Ending.DENIED: "allow the call: a mode that does, or --allow with the rule the denial names",
    Ending.STEP_LIMIT: "look for a loop in the trace; if the task is that long, raise max_turns",
    Ending.TIME_LIMIT: "look at the slowest calls; raise the timeout if all of them were needed",
    Ending.COST_LIMIT: "look at the cost by turn; raise max_cost if it was worth it",
    Ending.TOKEN_LIMIT: "look at the cost by turn; raise the limit if it was worth it",
    Ending.REPEATED: "look at the repeated call: its result does not help the model",
    Ending.LENGTH: "ask for less at once, or use a model with a larger output limit",
    Ending.OVERFLOW: "start a new session, or split the task: the conversation did not fit",
    Ending.REFUSED: "say what the task is for, or use another model",
    Ending.MISCONFIGURED: "agentcli doctor",
    Ending.PROVIDER_FAILED: "agentcli doctor, then run it again: the session can be resumed",
}


def find_damage(case: TriageCase) -> Iterator[TriageFinding]:
    for fault in case.trace.faults[:FAULTS_SHOWN]:
        yield TriageFinding(
            level=Level.ERROR,
            record=fault.line,
            what=f"line {fault.line} of the log is damaged: {fault.reason}",
            why="nothing proves any more that what follows is what happened",
            fix="agentcli audit verify says more; agentcli fork goes on from before the damage",
        )
    if len(case.trace.faults) > FAULTS_SHOWN:
        yield TriageFinding(
            level=Level.ERROR,
            record=case.trace.faults[FAULTS_SHOWN].line,
            what=f"{len(case.trace.faults) - FAULTS_SHOWN} more lines are damaged",
            why="the file was overwritten, or it is not a log",
            fix="restore it from a backup",
        )


def find_crash(case: TriageCase) -> Iterator[TriageFinding]:
    entries = case.trace.entries
    if not entries:
        yield TriageFinding(
            level=Level.ERROR,
            record=0,
            what="the log has no record that can be read",
            why="nothing can be said about this session",
            fix="name another session: agentcli sessions list --all",
        )
        return
    ends = [entry.seq for entry in entries if isinstance(entry.fact, SessionEnded)]
    begins = [entry.seq for entry in entries if isinstance(entry.fact, SessionResumed)]
    in_turn = bool(case.trace.turns) and case.trace.turns[-1].ended is None
    if ends and (not begins or begins[-1] < ends[-1]):
        return
    if case.is_running:
        yield TriageFinding(
            level=Level.NOTE,
            record=entries[-1].seq,
            what="the session is running: this is how far it is",
            why="what looks unfinished may be at work",
            fix="look again when it has ended",
        )
        return
    yield TriageFinding(
        level=Level.ERROR if in_turn else Level.WARNING,
        record=entries[-1].seq,
        what="there is no closing record" + (": it stopped in the middle of a turn" * in_turn),
        why="the process was killed, crashed, or lost its disk",
        fix="agentcli --resume goes on; a crash of agentcli itself leaves a report",
    )


def find_bad_ending(case: TriageCase) -> Iterator[TriageFinding]:
    ended = case.trace.facts(TurnEnded)
    if not ended or ended[-1][1].ending is Ending.DONE:
        return
    record, last = ended[-1]
    said = f": {last.message}" if last.message else ""
    by_person = last.ending is Ending.CANCELLED
    yield TriageFinding(
        level=Level.WARNING if by_person else Level.ERROR,
        record=record,
        what=f"the last turn ended with {last.ending}{said}",
        why="the task was not finished",
        fix=last.hint or _FIXES.get(last.ending, "agentcli --resume goes on"),
    )


def find_stop_reasons(case: TriageCase) -> Iterator[TriageFinding]:
    for record, reply in case.trace.replies:
        stop = reply.message.stop
        if stop in ("length", "refusal", "error", "overflow"):
            detail = f" ({reply.message.stop_detail})" if reply.message.stop_detail else ""
            yield TriageFinding(
                level=Level.WARNING,
                record=record,
                what=f"a reply stopped for {stop}{detail}",
                why="what it was going to say or call is lost, or had to be asked for again",
                fix=_STOP_FIXES[stop],
            )


_STOP_FIXES = {
    "length": "ask for smaller steps, or use a model with a larger output limit",
    "refusal": "say what the task is for, or use another model",
    "error": "if it comes again, use another model: this one's calls cannot be read",
    "overflow": "start a new session, or split the task",
}


def find_failed_requests(case: TriageCase) -> Iterator[TriageFinding]:
    for record, failed in case.trace.facts(ModelFailed):
        yield TriageFinding(
            level=Level.WARNING,
            record=record,
            what=f"a request got no reply ({failed.kind}): {failed.message}",
            why="after all retries; the turn ended here or had to be shortened",
            fix=failed.hint or "agentcli doctor",
        )


def find_failed_checks(case: TriageCase) -> Iterator[TriageFinding]:
    latest = {run.command: (record, run) for record, run in case.trace.facts(Verified)}
    for record, run in latest.values():
        if run.exit_code != 0:
            yield TriageFinding(
                level=Level.ERROR,
                record=record,
                what=f"the check {run.command} failed with exit code {run.exit_code}",
                why="the task counts as done only when it passes",
                fix="its output is in the record; run it by hand",
            )
    answers = case.trace.facts(AnswerChecked)
    if answers and answers[-1][1].problem:
        yield TriageFinding(
            level=Level.ERROR,
            record=answers[-1][0],
            what=f"the answer has not the form it must have: {answers[-1][1].problem}",
            why="whoever reads it as data cannot",
            fix="make the schema simpler, or say in the prompt what it is",
        )


def find_unsupported_claims(case: TriageCase) -> Iterator[TriageFinding]:
    for record, checked in case.trace.facts(ClaimsChecked):
        for claim in checked.claims:
            if claim.verdict == "not_supported":
                yield TriageFinding(
                    level=Level.WARNING,
                    record=record,
                    what=f"the answer says what the record does not: {claim.text}",
                    why=claim.evidence,
                    fix="check it by hand before you rely on it",
                )


# Checks of the cost: cache misses, retries, the most expensive turns, warnings


CACHE_MISSED = "cache.missed"
UNCACHED_TOKENS = 10_000
"""The number of prompt tokens without any cache that is worth a finding."""
UNCACHED_REQUESTS = 3


def find_cache_misses(case: TriageCase) -> Iterator[TriageFinding]:
    for record, warned in case.trace.facts(Warned):
        if warned.code == CACHE_MISSED:
            yield TriageFinding(
                level=Level.WARNING,
                record=record,
                what=warned.message,
                why="the whole prompt was paid for again, and the reply came later",
                fix="leave what is named there as it is within a session, and do not wait long",
            )


def find_missing_cache(case: TriageCase) -> Iterator[TriageFinding]:
    usages = [reply.message.usage for _, reply in case.trace.replies]
    prompts = sum(usage.prompt_tokens for usage in usages)
    touched = any(usage.cache_read_tokens or usage.cache_write_tokens for usage in usages)
    if touched or len(usages) < UNCACHED_REQUESTS or prompts < UNCACHED_TOKENS:
        return
    yield TriageFinding(
        level=Level.NOTE,
        record=case.trace.replies[0][0],
        what=f"{prompts} tokens of prompt in {len(usages)} requests, none of them from a cache",
        why="every request paid for the whole conversation",
        fix="use a model whose provider caches prompts, if it is a long task",
    )


def find_retries(case: TriageCase) -> Iterator[TriageFinding]:
    for record, reply in case.trace.replies:
        if reply.retries:
            yield TriageFinding(
                level=Level.NOTE,
                record=record,
                what=f"the request was sent again {_times(reply.retries)} before a reply came",
                why=f"the reply took {reply.duration_s:.1f} s",
                fix="nothing, if it is rare; else a higher rate limit, or another model",
            )


def find_expensive_turns(case: TriageCase) -> Iterator[TriageFinding]:
    costs = [(turn.spending.known_usd, turn) for turn in case.trace.turns]
    total = sum(cost for cost, _ in costs)
    if total <= 0 or len(costs) < 2:
        return
    for cost, turn in sorted(costs, key=lambda one: -one[0])[:3]:
        if cost > 0:
            share, about = f"{cost / total:.0%} of ${total:.4f}", turn.spending.estimate_prefix
            yield TriageFinding(
                level=Level.NOTE,
                record=turn.record,
                what=(
                    f"turn {turn.number} cost {about}${cost:.4f} ({share}): "
                    f"{turn.spending.request_summary}"
                ),
                why="the dearest turns, in order",
                fix="agentcli trace shows what each request of it cost",
            )


def find_shortenings(case: TriageCase) -> Iterator[TriageFinding]:
    for record, compacted in case.trace.facts(Compacted):
        yield TriageFinding(
            level=Level.NOTE,
            record=record,
            what=f"the conversation of {compacted.tokens_before} tokens was summarised",
            why="what the summary leaves out the model no longer knows",
            fix="start a new session for a new task",
        )
    trimmed = case.trace.facts(ResultsTrimmed)
    if trimmed:
        freed = sum(fact.freed_tokens for _, fact in trimmed)
        yield TriageFinding(
            level=Level.NOTE,
            record=trimmed[0][0],
            what=f"old results were trimmed {_times(len(trimmed))}, {freed} tokens in all",
            why="the model has to read a file again if it needs it",
            fix="nothing: it can",
        )


def find_failed_hooks(case: TriageCase) -> Iterator[TriageFinding]:
    for record, hook in case.trace.facts(HookRan):
        if hook.decision == "failed":
            yield TriageFinding(
                level=Level.WARNING,
                record=record,
                what=f"the hook {hook.hook} failed: {hook.reason}",
                why="what it should have seen to was not seen to",
                fix="run it by hand with the input that the hooks' documentation names",
            )


def find_other_warnings(case: TriageCase) -> Iterator[TriageFinding]:
    for record, warned in case.trace.facts(Warned):
        if warned.code != CACHE_MISSED:
            yield TriageFinding(
                level=Level.NOTE,
                record=record,
                what=warned.message,
                why=f"the person was warned of it ({warned.code})",
                fix="nothing, if it was known",
            )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
