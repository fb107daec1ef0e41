"""Completion of a turn: the form of the final answer, and the user's checks.

The form is a JSON Schema. If the provider can enforce it, the text of the reply is the answer.
Otherwise the model calls the tool `answer`. An answer of the wrong form is asked for once more.
"""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from agentcli.agent.evidence import describe_evidence
from agentcli.agent.journal import Journal
from agentcli.system.lazy import compile_later
from agentcli.system.strict_json import parse_json
from agentcli.types.checks import AnswerChecked, GoalChanged, Verified
from agentcli.types.deltas import CheckStarted
from agentcli.types.errors import LIMIT_ENDINGS, Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    ContextNote,
    Emit,
    Fact,
    ModelReplied,
    NoteReason,
    TurnEnded,
    TurnStarted,
    Undone,
)
from agentcli.types.messages import Json
from agentcli.types.provider import ToolChoice
from agentcli.types.tools import ErrorKind

ANSWER_TOOL = "answer"
FAILURES_MAX = 2
"""The number of invalid answers that ends the run; after the first the model may try again."""

FindProblem: TypeAlias = Callable[[Json], Awaitable[str]]
"""Returns what is wrong with a value, or an empty string."""

_FENCED = compile_later(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


_TAGGED_CALL = compile_later(r"<(tool_call|function)\b[^>]*>.*</\1>$", re.DOTALL)


def is_call_as_text(answer: str) -> bool:
    """Return whether an answer is nothing but a tool call, or ends in a tagged one.

    Weak models do that, and servers that do not know how a model writes its calls.
    """
    if answer.startswith("[TOOL_CALLS]") or (answer.endswith(">") and _TAGGED_CALL.search(answer)):
        return True
    fenced = _FENCED.fullmatch(answer) if answer.startswith("```") else None
    text = fenced[1].strip() if fenced else answer
    if not text.startswith(("{", "[")):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    calls = value if isinstance(value, list) else [value]
    return bool(calls) and all(map(_is_written_call, calls))


def _is_written_call(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    called = value.get("function")
    called = called if isinstance(called, dict) else value
    arguments = called.get("arguments", called.get("parameters"))
    return isinstance(called.get("name"), str) and isinstance(arguments, dict | str)


class AnswerForm:
    def __init__(
        self, schema: Json, *, find_problem: FindProblem, by_call: bool, emit: Emit, hint: str = ""
    ) -> None:
        """`hint` is for the user, if no answer has the form."""
        self.schema = schema
        self.hint = hint
        self.by_call = by_call
        self.problem = ""
        """The problem of the latest attempt."""
        self.is_met = False
        self._find_problem = find_problem
        self._emit = emit
        self._failures = 0

    @property
    def is_failed(self) -> bool:
        return self._failures >= FAILURES_MAX

    @property
    def awaits_call(self) -> bool:
        """True if the model answered in a wrong form, and must now call the tool."""
        return self.by_call and bool(self.problem)

    def reset(self) -> None:
        """Forget the accepted answer; it no longer holds."""
        self.is_met = False

    async def check_value(self, value: Json) -> str:
        """Check one attempt; return what is wrong with it, or an empty string.

        Text is what the model wrote instead of an object."""
        value, fault = _parse_json(value) if isinstance(value, str) else (value, "")
        return self._record_attempt(fault or await self._find_problem(value), value)

    async def check_text(self, text: str) -> str:
        """Check a reply's text as the answer; return a note for the model, empty if accepted."""
        value, fault = _parse_json(text)
        problem = self._record_attempt(fault or await self._find_problem(value), value)
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
    """Return the parsed value, or the reason why it is not JSON."""
    fenced = _FENCED.fullmatch(text.strip())
    try:
        return parse_json(fenced[1] if fenced else text), ""
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON ({error})"


# Between the model's last reply and the end of the turn: the answer's form, the user's checks.


ROUNDS_MAX = 5
"""The number of rounds of checks; if one fails in the last round, the turn ends."""

EVIDENCE = (
    "Before you end, from the record of this turn: {facts}\n\nCheck and fix what is left, if you "
    "can. Then give your whole final answer again; it may claim only what the record shows."
)


class Goal:
    """The commands that must pass before a turn is done. The user can change them."""

    def __init__(self, journal: Journal, commands: Sequence[str] = (), *, hint: str = "") -> None:
        """`commands` hold until the user changes them. `hint` says how to drop them."""
        changes = [fact for fact in journal.facts if isinstance(fact, GoalChanged)]
        self.commands = changes[-1].commands if changes else tuple(commands)
        self.hint = hint
        self._journal = journal

    def change(self, *commands: str) -> None:
        self.commands = commands
        self._journal.append(GoalChanged(commands=commands))

    def list_due(self) -> list[str]:
        """Return the commands that have not passed since they were named, or since a change."""
        return [command for command in self.commands if self._is_due(command)]

    def _is_due(self, command: str) -> bool:
        for fact in reversed(self._journal.facts):
            match fact:
                case Verified() if fact.command == command:
                    return not fact.passed
                case GoalChanged() | Undone() | Checkpointed():
                    return True
                case CallFinished(result=result) if result.change:
                    return True
                case _:
                    pass
        return False


CALL_MISSING = "Not done yet: the user wants you to call {tool} in this turn. Call it now."

RunCheck: TypeAlias = Callable[[str], Awaitable[Verified]]

DONE = TurnEnded(ending=Ending.DONE)

_NOT_FINISHED = LIMIT_ENDINGS | {Ending.REPEATED, Ending.LENGTH}


class CompletionChecks:
    def __init__(
        self,
        journal: Journal,
        *,
        checks: Sequence[str] = (),
        goal: Goal | None = None,
        run_check: RunCheck,
        form: AnswerForm | None = None,
        denial_note: str = "",
        tool_choice: ToolChoice = "auto",
        shows_evidence: bool = True,
    ) -> None:
        """`checks` run whenever a turn is done, those of the `goal` if something was changed.
        `denial_note` tells the model, after the first denial, what it may do instead.
        `tool_choice` is the user's: a call that it requires is required once per turn.
        `shows_evidence` tells the model, once, if nothing that passed has checked its edits."""
        self._journal = journal
        self._checks = checks
        self._goal = goal or Goal(journal)
        self._run_check = run_check
        self._form = form
        self._denial_note = denial_note
        self._tool_choice = tool_choice
        self._was_asked_for_call = False
        self._has_shown_evidence = not shows_evidence
        self._rounds = 0
        self._failing: Verified | None = None

    def begin_step(self, *, is_first: bool) -> ToolChoice:
        """Return the choice of tools for the next request, the first of a turn or a later one.

        Note for the model, once, what a denial in its last reply means."""
        if is_first:
            self._rounds, self._failing = 0, None
        if self._denial_note and _has_unattended_denial(self._journal.facts):
            self._journal.append(ContextNote(text=self._denial_note, why=NoteReason.DENIED))
            self._denial_note = ""
        if self._form is not None and self._form.awaits_call:
            return ANSWER_TOOL
        is_open = self._tool_choice == "none" or self._lacks_call()
        return self._tool_choice if is_open else "auto"

    @property
    def has_form(self) -> bool:
        """True if the answer has a form, which then also reports an empty answer."""
        return self._form is not None

    def collect_evidence(self) -> Sequence[ContextNote]:
        """Return, once, what failed after the last edit, or that nothing ran that could check it.

        Checks of the user, which have passed by now, are evidence enough."""
        if self._has_shown_evidence or self._checks or self._goal.commands:
            return ()
        facts = describe_evidence(self._journal.facts)
        if not facts:
            return ()
        self._has_shown_evidence = True
        if self._form is not None:
            self._form.reset()
        return (ContextNote(text=EVIDENCE.format(facts=facts), why=NoteReason.EVIDENCE),)

    async def check_reply(self) -> TurnEnded | None:
        """Check a reply without calls; return None if the model got a note and must reply again."""
        if self._lacks_call():
            return self._ask_for_call()
        if self._form is not None and not self._form.is_met:
            problem = await self._form.check_text(self._journal.answer())
            if self._form.is_failed:
                return self._build_schema_unmet()
            if problem:
                self._journal.append(ContextNote(text=problem, why=NoteReason.SCHEMA))
                return None
        return await self._run_checks()

    async def check_after_calls(self) -> TurnEnded | None:
        """Check after calls have run, since one of them may have been the answer."""
        if self._form is None:
            return None
        if self._form.is_failed:
            return self._build_schema_unmet()
        return await self._run_checks() if self._form.is_met else None

    def convert_limit_ending(self, ended: TurnEnded) -> TurnEnded:
        """Return a failed check as the ending if a limit was reached while a check fails."""
        if self._failing is None or ended.ending not in _NOT_FINISHED:
            return ended
        return TurnEnded(
            ending=Ending.VERIFY_FAILED,
            message=f"{self._describe_failed_check(self._failing)}, and {ended.message}",
            hint=ended.hint or self._build_hint(self._failing),
        )

    def _lacks_call(self) -> bool:
        """Return whether the turn has no call yet of the kind that the user requires."""
        if self._tool_choice in ("auto", "none"):
            return False
        for fact in reversed(self._journal.facts):
            match fact:
                case TurnStarted():
                    return True
                case CallFinished(result=result) if result.error is not ErrorKind.NOT_RUN:
                    if self._tool_choice in ("required", result.name):
                        return False
                case _:
                    pass
        return True

    def _ask_for_call(self) -> TurnEnded | None:
        """Ask once for the call: not every model can be forced to make it."""
        tool = "a tool" if self._tool_choice == "required" else self._tool_choice
        if self._was_asked_for_call:
            return TurnEnded(
                ending=Ending.PROVIDER_FAILED,
                message=f"the model did not call {tool}, as --tool-choice requires",
                hint="use another model: --model",
            )
        self._was_asked_for_call = True
        note = CALL_MISSING.format(tool=tool)
        self._journal.append(ContextNote(text=note, why=NoteReason.TOOL_CHOICE))
        return None

    async def _run_checks(self) -> TurnEnded | None:
        self._rounds += 1
        due = dict.fromkeys((*self._checks, *self._goal.list_due()))
        runs = [await self._run_and_record(command) for command in due]
        failed = [run for run in runs if not run.passed]
        self._failing = failed[0] if failed else None
        if self._failing is None:
            return DONE
        if self._rounds >= ROUNDS_MAX:
            times = f"{self._rounds} times in a row"
            return TurnEnded(
                ending=Ending.VERIFY_FAILED,
                message=f"{self._describe_failed_check(self._failing)}, {times}",
                hint=self._build_hint(self._failing),
            )
        self._journal.append(ContextNote(text=_format_failed_checks(failed), why=NoteReason.VERIFY))
        if self._form is not None:
            self._form.reset()
        return None

    async def _run_and_record(self, command: str) -> Verified:
        self._journal.append(CheckStarted(command=command))
        run = replace(await self._run_check(command), attempt=self._rounds)
        self._journal.append(run)
        return run

    def _describe_failed_check(self, run: Verified) -> str:
        how = "did not finish" if run.exit_code is None else f"exit code {run.exit_code}"
        what = "--verify" if run.command in self._checks else "the goal"
        return f"{what} {run.command!r} failed ({how})"

    def _build_hint(self, run: Verified) -> str:
        log = f"its output is in {run.log_path}" if run.log_path else ""
        drop = "" if run.command in self._checks else self._goal.hint
        return "; ".join(filter(None, (log, drop)))

    def _build_schema_unmet(self) -> TurnEnded:
        assert self._form is not None
        return TurnEnded(
            ending=Ending.SCHEMA_UNMET,
            message=f"the answer does not match the schema: {self._form.problem}",
            hint=self._form.hint,
        )


def _has_unattended_denial(facts: Sequence[Fact]) -> bool:
    """Return whether a call of the last reply was denied because nobody could be asked."""
    for fact in reversed(facts):
        match fact:
            case CallJudged(verdict=verdict) if verdict.by == "nobody":
                return True
            case ModelReplied() | TurnStarted():
                return False
            case _:
                pass
    return False


def _format_failed_checks(failed: Sequence[Verified]) -> str:
    parts = [f"$ {run.command}\n{run.output}" for run in failed]
    return (
        "Not done yet: the checks that decide whether the task is done were run, and failed.\n\n"
        + "\n\n".join(parts)
        + "\n\nFix what they show, then finish again."
    )
