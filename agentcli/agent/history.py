"""Facts to messages: what the model is told is a fold over what happened.

Invariant: each call of a reply is answered exactly once, in order, directly after it, whatever
prefix of whatever log is folded. A call without a recorded result is answered by a stand-in.
"""

from collections.abc import Iterable

from agentcli.types.events import CallFinished, Fact, ModelReplied, Told, TurnStarted
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult
from agentcli.types.wire import Message

NEVER_RAN = "Cancelled before it ran."


class History:
    """The fold, kept as it grows: adding a fact costs nothing that was paid before."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._settled: list[Message] = []
        self._calls: tuple[ToolCall, ...] = ()
        self._results: list[ToolResult | None] = []
        for fact in facts:
            self.add(fact)

    def add(self, fact: Fact) -> None:
        match fact:
            case TurnStarted(message=message):
                self._say(message)
            case Told(text=text):
                self._say(UserMessage(content=(Text(text=text),)))
            case ModelReplied(message=message):
                self._reply(message)
            case CallFinished(result=result):
                self._answer(result)
            case _:
                pass

    def messages(self) -> tuple[Message, ...]:
        return (*self._settled, *self._open_answers())

    def _say(self, message: UserMessage) -> None:
        self._settle()
        self._settled.append(message)

    def _reply(self, message: AssistantMessage) -> None:
        self._settle()
        if message.content:
            self._settled.append(message)
        self._calls = message.tool_calls
        self._results = [None] * len(self._calls)

    def _answer(self, result: ToolResult) -> None:
        """The first call with that id that has no result yet; a stray result is nobody's."""
        for index, call in enumerate(self._calls):
            if call.id == result.call_id and self._results[index] is None:
                self._results[index] = result
                return

    def _settle(self) -> None:
        self._settled.extend(self._open_answers())
        self._calls, self._results = (), []

    def _open_answers(self) -> tuple[ToolMessage, ...]:
        if not self._calls:
            return ()
        answers = zip(self._calls, self._results, strict=True)
        return (ToolMessage(results=tuple(result or _never_ran(call) for call, result in answers)),)


def messages(facts: Iterable[Fact]) -> tuple[Message, ...]:
    return History(facts).messages()


def _never_ran(call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.id,
        name=call.name,
        status="error",
        content=(Text(text=NEVER_RAN),),
        error=ErrorKind.CANCELLED,
    )
