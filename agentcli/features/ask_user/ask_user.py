"""ask_user: let the user decide between choices, or answer in their own words."""

from collections.abc import Awaitable, Callable
from dataclasses import field
from functools import partial
from typing import ClassVar, TypeAlias

from agentcli.tools.arguments import (
    ArgumentFault,
    ArrayCheck,
    BuiltinArguments,
    TextCheck,
    WrongValue,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.forms import ANSWER_FIELD, FormField, ServerForm
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Effect, ErrorKind, Output, Raw, ToolContext, ToolSpec
from agentcli.types.verdicts import Question, RuleSuggestion, Verdict

Ask: TypeAlias = Callable[[Question], Awaitable[Verdict]]

LEAST_CHOICES, MOST_CHOICES = 2, 4
QUESTION_CHARS, CHOICE_CHARS = 2000, 200


def _limit_text(most: int, text: str) -> None:
    if len(text) > most:
        raise WrongValue(
            ArgumentFault(kind="needs", wanted=f"at most {most} characters", given=text)
        )


def _check_number(choices: list[str]) -> None:
    if not LEAST_CHOICES <= len(choices) <= MOST_CHOICES:
        wanted = f"{LEAST_CHOICES} to {MOST_CHOICES} choices"
        raise WrongValue(ArgumentFault(kind="needs", wanted=wanted, given=choices))


_QUESTION = TextCheck(is_filled=True, accept=partial(_limit_text, QUESTION_CHARS))
_CHOICE = TextCheck(is_filled=True, accept=partial(_limit_text, CHOICE_CHARS))
_CHOICES = ArrayCheck(item=_CHOICE, accept=_check_number)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUserArgs(BuiltinArguments):
    question: str = field(metadata=declare_argument(_QUESTION))
    choices: list[str] = field(metadata=declare_argument(_CHOICES))

    aliases: ClassVar[dict[str, str]] = {"options": "choices", "prompt": "question"}


class AskUserTool:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @property
    def spec(self) -> ToolSpec:
        return load_spec("ask_user")

    def parse(self, raw: Json) -> AskUserArgs:
        return parse_arguments(AskUserArgs, raw)

    def effect(self, args: AskUserArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: AskUserArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: AskUserArgs, context: ToolContext) -> Output:
        verdict = await self._ask(_build_question(args, context.call_id))
        if verdict.by == "nobody":
            raise ToolError(
                "Denied: nobody can be asked here. Decide yourself, and say in your answer what "
                "you assumed.",
                kind=ErrorKind.DENIED,
            )
        answer = verdict.input.get(ANSWER_FIELD) if isinstance(verdict.input, dict) else None
        if not isinstance(answer, str) or not answer.strip():
            return Output.of(
                "The user gave no answer. Decide yourself, or do what does not depend on it."
            )
        is_choice = answer in args.choices
        did = "chose" if is_choice else "answered"
        return Output.of(f"The user {did}: {answer}", details=Raw(text=f"you {did}: {answer}"))


def _build_question(args: AskUserArgs, call_id: str) -> Question:
    field = FormField(
        name=ANSWER_FIELD,
        kind="choice",
        is_required=True,
        choices=tuple((choice, choice) for choice in dict.fromkeys(args.choices)),
    )
    return Question(
        call=ToolCall(id=call_id, name="the model", input=args.question),
        effect=Effect.READ,
        preview=None,
        verdict=Verdict(decision="ask", by="rule", reason="only you can decide it"),
        suggestion=RuleSuggestion(reason="an answer cannot be saved as a rule"),
        form=ServerForm(
            server="the model", kind="question", message=args.question, fields=(field,)
        ),
    )
