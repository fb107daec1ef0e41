"""Checks of what it cost: caches missed, retries, the dearest turns, warnings on the way."""

from collections.abc import Iterator

from agentcli.record.triage.finding import Level, TriageCase, TriageFinding
from agentcli.types.events import Compacted, HookRan, ResultsTrimmed, Warned

CACHE_MISSED = "cache.missed"
UNCACHED_TOKENS = 10_000
"""Of prompts without any cache, from which on it is worth a word."""
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
