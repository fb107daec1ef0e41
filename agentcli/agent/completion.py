"""A final answer that must be data of a given form: taken, checked, asked for once more.

The form is a JSON Schema. Where the provider holds the model to it, the reply's text is the
answer; elsewhere the model gives it by a call of the tool `answer`.
"""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from agentcli.agent.journal import Journal
from agentcli.types.events import (
    AnswerChecked,
    Claim,
    ClaimsChecked,
    ContextNote,
    Emit,
    Ending,
    Fact,
    NoteReason,
    TurnEnded,
    TurnStarted,
    Verified,
)
from agentcli.types.messages import Json

ANSWER_TOOL = "answer"
FAILURES_MAX = 2
"""The first is repaired, the second ends the run."""

FindProblem: TypeAlias = Callable[[Json], str]
"""What is wrong with a value; empty: nothing."""

_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


class AnswerForm:
    def __init__(
        self, schema: Json, *, find_problem: FindProblem, by_call: bool, emit: Emit
    ) -> None:
        self.schema = schema
        self.by_call = by_call
        self.problem = ""
        """What was wrong with the latest try."""
        self.is_met = False
        self._find_problem = find_problem
        self._emit = emit
        self._failures = 0

    @property
    def is_failed(self) -> bool:
        return self._failures >= FAILURES_MAX

    def reset(self) -> None:
        """What was answered no longer holds."""
        self.is_met = False

    def check_value(self, value: Json) -> str:
        """One try. Returns what is wrong with it."""
        return self._record_attempt(self._find_problem(value), value)

    def check_text(self, text: str) -> str:
        """A reply's text as the answer. Returns what to tell the model; empty: it is taken."""
        value, fault = _parse_json(text)
        problem = self._record_attempt(fault or self._find_problem(value), value)
        if not problem:
            return ""
        way = f"call {ANSWER_TOOL}" if self.by_call else "reply with the JSON alone"
        return f"Your answer does not have the form that was asked for: {problem}. Now {way}."

    def _record_attempt(self, problem: str, value: Json) -> str:
        self.problem = problem
        self.is_met = not problem
        self._failures += bool(problem)
        self._emit(AnswerChecked(problem=problem, value=None if problem else value))
        return problem


def _parse_json(text: str) -> tuple[Json, str]:
    """The value, or what keeps it from being one."""
    fenced = _FENCED.fullmatch(text.strip())
    try:
        return json.loads(fenced[1] if fenced else text), ""
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON ({error})"


# Between a model's last word and the end of the turn: its answer's form, and the person's checks.


ROUNDS_MAX = 5
"""How often a failed verification goes back to the model."""

RunCheck: TypeAlias = Callable[[str], Awaitable[Verified]]
FindClaims: TypeAlias = Callable[[str, Sequence[Fact]], tuple[Claim, ...]]

DONE = TurnEnded(ending=Ending.DONE)

_LIMITS = (Ending.STEP_LIMIT, Ending.COST_LIMIT, Ending.TOKEN_LIMIT, Ending.REPEATED, Ending.LENGTH)


class CompletionChecks:
    def __init__(
        self,
        journal: Journal,
        *,
        checks: Sequence[str] = (),
        run_check: RunCheck,
        form: AnswerForm | None = None,
        find_claims: FindClaims,
        claims_must_hold: bool = False,
    ) -> None:
        self._journal = journal
        self._checks = checks
        self._run_check = run_check
        self._form = form
        self._find_claims = find_claims
        self._claims_must_hold = claims_must_hold
        self._rounds = 0
        self._failing: Verified | None = None

    @property
    def has_form(self) -> bool:
        """Then it is for the form to say what is wrong with an answer, also with none."""
        return self._form is not None

    async def check_reply(self) -> TurnEnded | None:
        """The model has nothing more to call. None: it was told something, and is asked again."""
        if self._form is not None and not self._form.is_met:
            problem = self._form.check_text(self._journal.answer())
            if self._form.is_failed:
                return self._build_schema_unmet()
            if problem:
                self._journal.append(ContextNote(text=problem, why=NoteReason.SCHEMA))
                return None
        return await self._run_checks(self._journal.answer())

    async def check_after_calls(self) -> TurnEnded | None:
        """Calls were run, and one of them may have been the answer."""
        if self._form is None:
            return None
        if self._form.is_failed:
            return self._build_schema_unmet()
        return await self._run_checks("") if self._form.is_met else None

    def convert_limit_ending(self, ended: TurnEnded) -> TurnEnded:
        """A limit that was reached while a check fails is a failed check."""
        if self._failing is None or ended.ending not in _LIMITS:
            return ended
        return TurnEnded(
            ending=Ending.VERIFY_FAILED,
            message=f"{_describe_failed_check(self._failing)}, and {ended.message}",
            hint=ended.hint or _describe_log(self._failing),
        )

    async def _run_checks(self, text: str) -> TurnEnded | None:
        self._rounds += 1
        runs = [await self._run_and_record(command) for command in self._checks]
        failed = [run for run in runs if not run.passed]
        self._failing = failed[0] if failed else None
        if self._failing is None:
            return self._check_claims(text)
        if self._rounds >= ROUNDS_MAX:
            times = f"{self._rounds} times in a row"
            return TurnEnded(
                ending=Ending.VERIFY_FAILED,
                message=f"{_describe_failed_check(self._failing)}, {times}",
                hint=_describe_log(self._failing),
            )
        self._journal.append(ContextNote(text=_format_failed_checks(failed), why=NoteReason.VERIFY))
        if self._form is not None:
            self._form.reset()
        return None

    async def _run_and_record(self, command: str) -> Verified:
        run = replace(await self._run_check(command), attempt=self._rounds)
        self._journal.append(run)
        return run

    def _check_claims(self, text: str) -> TurnEnded:
        claims = self._find_claims(text, self._turn_facts()) if text else ()
        if claims:
            self._journal.append(ClaimsChecked(claims=claims))
        wrong = [claim for claim in claims if claim.verdict == "not_supported"]
        if not wrong or not self._claims_must_hold:
            return DONE
        return TurnEnded(
            ending=Ending.CLAIM_UNSUPPORTED,
            message=f"the answer says {wrong[0].text!r}, but {wrong[0].evidence}",
            hint="read the record of the session, or run without --check-claims",
        )

    def _turn_facts(self) -> Sequence[Fact]:
        facts = self._journal.facts
        begun = (at for at in reversed(range(len(facts))) if isinstance(facts[at], TurnStarted))
        return facts[next(begun, 0) :]

    def _build_schema_unmet(self) -> TurnEnded:
        assert self._form is not None
        return TurnEnded(
            ending=Ending.SCHEMA_UNMET,
            message=f"the answer does not meet the schema: {self._form.problem}",
            hint="make the schema simpler, say in the prompt what it means, or use another model",
        )


def _describe_failed_check(run: Verified) -> str:
    how = "did not end by itself" if run.exit_code is None else f"exit code {run.exit_code}"
    return f"--verify {run.command!r} failed ({how})"


def _describe_log(run: Verified) -> str:
    return f"its output is in {run.log_path}" if run.log_path else ""


def _format_failed_checks(failed: Sequence[Verified]) -> str:
    parts = [f"$ {run.command}\n{run.output}" for run in failed]
    return (
        "Not done yet: the checks that decide whether the task is done were run, and failed.\n\n"
        + "\n\n".join(parts)
        + "\n\nFix what they show, then finish again."
    )
