"""Checks of the ending and of the cost: the log, the process, the last turn, the dearest ones."""

from collections.abc import Iterator

from agentcli.features.insights.finding import Level, TriageCase, TriageFinding
from agentcli.types.checks import AnswerChecked, ClaimsChecked, Verified
from agentcli.types.errors import ADVICE_OF_ENDING, UNANSWERED, Ending
from agentcli.types.events import (
    Compacted,
    HookRan,
    ModelFailed,
    ResultsTrimmed,
    SessionEnded,
    SessionResumed,
    TurnEnded,
    Warned,
)

FAULTS_SHOWN = 5
SIGNAL_ENDINGS = (Ending.TERMINATED, Ending.HUNG_UP)


def find_damage(case: TriageCase) -> Iterator[TriageFinding]:
    for fault in case.trace.faults[:FAULTS_SHOWN]:
        yield TriageFinding(
            level=Level.ERROR,
            record=fault.line,
            what=f"line {fault.line} of the log is damaged: {fault.reason}",
            why="what follows can no longer be verified",
            fix="agentcli audit verify shows more; agentcli fork continues from before the damage",
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
            what="the log has no readable record",
            why="nothing is known about this session",
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
            what="the session is still running",
            why="what looks unfinished may still be in progress",
            fix="run triage again when it has ended",
        )
        return
    yield TriageFinding(
        level=Level.ERROR if in_turn else Level.WARNING,
        record=entries[-1].seq,
        what="the session was not closed" + (": it stopped in the middle of a turn" * in_turn),
        why="the process was killed, it crashed, or the disk failed",
        fix="continue it with agentcli --resume; a crash of agentcli leaves a report",
    )


def find_bad_ending(case: TriageCase) -> Iterator[TriageFinding]:
    ended = case.trace.facts(TurnEnded)
    if not ended or ended[-1][1].ending is Ending.DONE:
        return
    record, last = ended[-1]
    reason = f": {last.message}" if last.message else ""
    ending = _find_signal(case, record) or last.ending
    yield TriageFinding(
        level=Level.WARNING if ending is Ending.CANCELLED else Level.ERROR,
        record=record,
        what=f"the last turn ended with {ending}{reason}",
        why="the task was not finished",
        fix=last.hint or ADVICE_OF_ENDING.get(ending) or _suggest_resume(ending),
    )


def _find_signal(case: TriageCase, turn_end: int) -> Ending | None:
    """Return the signal that ended the session after this record: its turn was only cancelled."""
    endings = [fact.ending for record, fact in case.trace.facts(SessionEnded) if record > turn_end]
    return next((ending for ending in endings if ending in SIGNAL_ENDINGS), None)


def _suggest_resume(ending: Ending) -> str:
    resume = "continue it: agentcli --resume"
    return f"agentcli doctor, then {resume}" if ending in UNANSWERED else resume


def find_stop_reasons(case: TriageCase) -> Iterator[TriageFinding]:
    for record, reply in case.trace.replies:
        stop = reply.message.stop
        if stop in ("length", "refusal", "error", "overflow"):
            detail = f" ({reply.message.stop_detail})" if reply.message.stop_detail else ""
            yield TriageFinding(
                level=Level.WARNING,
                record=record,
                what=f"a reply ended early: {stop}{detail}",
                why="the rest of it is lost, or had to be requested again",
                fix=_STOP_FIXES[stop],
            )


_STOP_FIXES = {
    "length": "ask for smaller steps, or use a model with a larger output limit",
    "refusal": "explain what the task is for, or use another model",
    "error": "if it happens again, use another model: the calls of this one are unreadable",
    "overflow": "start a new session, or split the task",
}


def find_failed_requests(case: TriageCase) -> Iterator[TriageFinding]:
    for record, failed in case.trace.facts(ModelFailed):
        yield TriageFinding(
            level=Level.WARNING,
            record=record,
            what=f"a request got no reply ({failed.kind}): {failed.message}",
            why="all retries failed; the turn ended, or the conversation was shortened",
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
                why="the task is done only if it passes",
                fix="read its output in the trace, or run it by hand",
            )
    answers = case.trace.facts(AnswerChecked)
    if answers and answers[-1][1].problem:
        yield TriageFinding(
            level=Level.ERROR,
            record=answers[-1][0],
            what=f"the answer does not match the required form: {answers[-1][1].problem}",
            why="programs cannot read it as data",
            fix="simplify the schema, or describe it in the prompt",
        )


def find_unsupported_claims(case: TriageCase) -> Iterator[TriageFinding]:
    for record, checked in case.trace.facts(ClaimsChecked):
        for claim in checked.claims:
            if claim.verdict == "not_supported":
                yield TriageFinding(
                    level=Level.WARNING,
                    record=record,
                    what=f"the log does not support the answer: {claim.text}",
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
                why="the whole prompt was billed again, and the reply was slower",
                fix="do not change it within a session, and avoid long pauses",
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
        what=f"{prompts} prompt tokens in {len(usages)} requests, none of them cached",
        why="every request was billed for the whole conversation",
        fix="for long tasks, use a model whose provider caches prompts",
    )


def find_retries(case: TriageCase) -> Iterator[TriageFinding]:
    for record, reply in case.trace.replies:
        if reply.retries:
            again = _format_times(reply.retries)
            yield TriageFinding(
                level=Level.NOTE,
                record=record,
                what=f"the request was sent again {again} before a reply came",
                why=f"the reply took {reply.duration_s:.1f} s",
                fix="nothing, if it is rare; else raise the rate limit, or use another model",
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
                why="most expensive turns",
                fix="agentcli trace shows the cost of each request",
            )


def find_shortenings(case: TriageCase) -> Iterator[TriageFinding]:
    for record, compacted in case.trace.facts(Compacted):
        yield TriageFinding(
            level=Level.NOTE,
            record=record,
            what=f"the conversation of {compacted.tokens_before} tokens was summarized",
            why="the model no longer knows what the summary omits",
            fix="start a new session for a new task",
        )
    trimmed = case.trace.facts(ResultsTrimmed)
    if trimmed:
        freed = sum(fact.freed_tokens for _, fact in trimmed)
        yield TriageFinding(
            level=Level.NOTE,
            record=trimmed[0][0],
            what=f"old results were trimmed {_format_times(len(trimmed))}, {freed} tokens in all",
            why="the model must read a file again if it needs it",
            fix="nothing",
        )


def find_failed_hooks(case: TriageCase) -> Iterator[TriageFinding]:
    for record, hook in case.trace.facts(HookRan):
        if hook.decision == "failed":
            yield TriageFinding(
                level=Level.WARNING,
                record=record,
                what=f"the hook {hook.hook} failed: {hook.reason}",
                why="its check or action did not happen",
                fix="run it by hand with the input described in the documentation of hooks",
            )


def find_other_warnings(case: TriageCase) -> Iterator[TriageFinding]:
    for record, warned in case.trace.facts(Warned):
        if warned.code != CACHE_MISSED:
            yield TriageFinding(
                level=Level.NOTE,
                record=record,
                what=warned.message,
                why=f"you were warned during the session ({warned.code})",
                fix="nothing, if you know about it",
            )


def _format_times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
