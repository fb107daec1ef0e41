"""Checks of how it ended: the log itself, the process, the last turn."""

from collections.abc import Iterator

from agentcli.record.triage.finding import Level, TriageCase, TriageFinding
from agentcli.types.checks import AnswerChecked, ClaimsChecked, Verified
from agentcli.types.events import Ending, ModelFailed, SessionEnded, SessionResumed, TurnEnded

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
