"""A final answer that must be data of a given form: taken, checked, asked for once more.

The form is a JSON Schema. Where the provider holds the model to it, the reply's text is the
answer; elsewhere the model gives it by a call of the tool `answer`.
"""

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from agentcli.types.checks import AnswerChecked
from agentcli.types.events import Emit
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
