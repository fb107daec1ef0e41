"""Facts to messages: what the model is told is a fold over what happened.

Invariant: each call of a reply is answered exactly once, in order, directly after it, whatever
prefix of whatever log is folded. A call without a recorded result is answered by a stand-in that
says whether it can have run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from agentcli.agent.trimming import last_reply, new_results
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    Fact,
    ModelReplied,
    Restored,
    ResultsTrimmed,
    Told,
    TurnStarted,
    TurnWithdrawn,
    Why,
)
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult
from agentcli.types.wire import Message

T = TypeVar("T")

NEVER_RAN = "Cancelled before it ran."
MAY_HAVE_RUN = (
    "Interrupted: it may have run in part, in whole, or not at all, and its result is lost. "
    "Look before you do it again."
)
PINNED = (Why.INSTRUCTIONS, Why.PLAN)
"""What must never be summarised away."""
SUMMARISED = "[The conversation until here, shortened. What was said and done, and what is open:]"


class History:
    """The fold, kept as it grows: adding a fact costs nothing that was paid before."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._settled: list[Message] = []
        self._all: list[Message] = []
        """The same, with nothing trimmed or summarised."""
        self._lasting: list[tuple[UserMessage, bool]] = []
        """What a summary leaves as it is, and whether the person said it."""
        self._open_prompt: UserMessage | None = None
        """Of the last turn, until the model has replied."""
        self._pinned: dict[str, UserMessage] = {}
        """What was told last of each subject that is never summarised away."""
        self._calls: tuple[ToolCall, ...] = ()
        self._results: list[ToolResult | None] = []
        self._begun: set[str] = set()
        for fact in facts:
            self.add(fact)

    def add(self, fact: Fact) -> None:
        match fact:
            case TurnStarted(message=message):
                self._say(message)
                self._lasting.append((message, True))
                self._open_prompt = message
            case TurnWithdrawn():
                self._withdraw()
            case Told():
                self._tell(fact)
            case ModelReplied(message=message):
                self._reply(message)
            case CallJudged(call=call, verdict=verdict) if verdict.decision != "deny":
                self._begun.add(call.id)
            case CallFinished(result=result):
                self._answer(result)
            case ResultsTrimmed() | Compacted() | Restored():
                self._shorten(fact)
            case _:
                pass

    def messages(self) -> tuple[Message, ...]:
        return (*self._settled, *self._open_answers())

    def said(self) -> tuple[UserMessage, ...]:
        """All that the person has said, and not withdrawn."""
        return tuple(message for message, is_by_the_person in self._lasting if is_by_the_person)

    def kept(self, left_out: int) -> tuple[UserMessage, ...]:
        """What a summary now would leave as it is, without so many words of the person."""
        return tuple(self._left_as_is(left_out))

    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no result."""
        answers = zip(self._calls, self._results, strict=True)
        return tuple(call for call, result in answers if result is None)

    def unanswered(self) -> tuple[ToolResult, ...]:
        """Stand-ins for the results that open calls do not have."""
        return tuple(self._stand_in(call) for call in self.open_calls())

    def _say(self, message: UserMessage) -> None:
        self._settle()
        self._keep(message)

    def _tell(self, told: Told) -> None:
        message = UserMessage(content=(Text(text=told.text), *told.attached))
        self._say(message)
        if told.why == Why.PERSON:
            self._lasting.append((message, True))
        elif told.why in PINNED:
            self._pin(Why.PLAN if told.why == Why.PLAN else told.text.partition("\n")[0], message)

    def _pin(self, subject: str, message: UserMessage) -> None:
        """In the place of what was told of it before: another plan, a file that has changed."""
        before = self._pinned.get(subject)
        self._pinned[subject] = message
        self._lasting = [one for one in self._lasting if one[0] is not before]
        self._lasting.append((message, False))

    def _withdraw(self) -> None:
        gone, self._open_prompt = self._open_prompt, None
        if gone is not None:
            self._settled = _without_last(self._settled, gone)
            self._all = _without_last(self._all, gone)
            self._lasting = _without_last(self._lasting, (gone, True))

    def _reply(self, message: AssistantMessage) -> None:
        self._settle()
        self._open_prompt = None
        if message.content or message.echo:
            self._keep(message)
        self._calls = message.tool_calls
        self._results = [None] * len(self._calls)
        self._begun.clear()

    def _answer(self, result: ToolResult) -> None:
        """The first call with that id that has no result yet; a stray result is nobody's."""
        for index, call in enumerate(self._calls):
            if call.id == result.call_id and self._results[index] is None:
                self._results[index] = result
                if not self.open_calls():
                    self._settle()  # from now on the same object, which others need not look at
                return

    def _settle(self) -> None:
        for answers in self._open_answers():
            self._keep(answers)
        self._calls, self._results = (), []

    def _keep(self, message: Message) -> None:
        self._settled.append(message)
        self._all.append(message)

    def _shorten(self, fact: ResultsTrimmed | Compacted | Restored) -> None:
        self._settle()
        match fact:
            case ResultsTrimmed(results=results):
                self._replace({result.call_id: result.text for result in results})
            case Compacted(summary=summary):
                told = UserMessage(content=(Text(text=f"{SUMMARISED}\n\n{summary}"),))
                new = self._new() if fact.keeps_new else ()
                self._settled = [*self._left_as_is(fact.left_out), told, *new]
            case Restored():
                self._settled = list(self._all)

    def _replace(self, lines: dict[str, str]) -> None:
        """Ids may come again: a new result is meant rather than an old one that shares its id."""
        new = {result.call_id for result in new_results(self._settled)}
        of_new = {call_id: lines[call_id] for call_id in lines if call_id in new}
        of_old = {call_id: lines[call_id] for call_id in lines if call_id not in new}
        at = last_reply(self._settled)
        self._settled = [
            _with_lines(message, of_new if index > at else of_old)
            for index, message in enumerate(self._settled)
        ]

    def _new(self) -> tuple[Message, ...]:
        """Return what no request has carried yet, with the reply whose calls it answers.

        What a summary leaves anyway is not among it."""
        at = last_reply(self._settled)
        lasting = [id(message) for message, _ in self._lasting]
        new = [one for one in self._settled[at + 1 :] if id(one) not in lasting]
        reply = self._settled[at] if at >= 0 else None
        if isinstance(reply, AssistantMessage) and reply.tool_calls:
            # What it continues on the provider's side is what the summary takes the place of.
            return (replace(reply, echo=None), *new)
        return tuple(new)

    def _left_as_is(self, left_out: int) -> Iterator[UserMessage]:
        """The first request of all is never among those that are left out."""
        number = 0
        for message, is_by_the_person in self._lasting:
            number += is_by_the_person
            if not is_by_the_person or number == 1 or number > 1 + left_out:
                yield message

    def _open_answers(self) -> tuple[ToolMessage, ...]:
        if not self._calls:
            return ()
        answers = zip(self._calls, self._results, strict=True)
        return (
            ToolMessage(results=tuple(result or self._stand_in(call) for call, result in answers)),
        )

    def _stand_in(self, call: ToolCall) -> ToolResult:
        return ToolResult(
            call_id=call.id,
            name=call.name,
            status="error",
            content=(Text(text=MAY_HAVE_RUN if call.id in self._begun else NEVER_RAN),),
            error=ErrorKind.CANCELLED,
        )


def _without_last(items: Sequence[T], gone: T) -> list[T]:
    """It may have been summarised away."""
    at = next((at for at in reversed(range(len(items))) if items[at] == gone), len(items))
    return [*items[:at], *items[at + 1 :]]


def _with_lines(message: Message, lines: dict[str, str]) -> Message:
    if not isinstance(message, ToolMessage) or lines.keys().isdisjoint(
        result.call_id for result in message.results
    ):
        return message
    return replace(message, results=tuple(_with_line(each, lines) for each in message.results))


def _with_line(result: ToolResult, lines: dict[str, str]) -> ToolResult:
    line = lines.get(result.call_id)
    return result if line is None else replace(result, content=(Text(text=line),))


def messages(facts: Iterable[Fact]) -> tuple[Message, ...]:
    return History(facts).messages()
