"""Facts to messages: the conversation is a fold over the facts of a session.

Invariant: each call of a reply is answered exactly once, in order, directly after it, whatever
prefix of whatever log is folded. A call without a recorded result is answered by a stand-in that
says whether it may have run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ContextNote,
    Fact,
    ModelReplied,
    NoteReason,
    Restored,
    ResultsTrimmed,
    Rewound,
    TurnStarted,
    TurnWithdrawn,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.provider import Message
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult

T = TypeVar("T")

NEVER_RAN = "Cancelled before it ran."
MAY_HAVE_RUN = (
    "Interrupted: it may have run in part, in whole, or not at all, and its result is lost. "
    "Look before you do it again."
)
PINNED = (NoteReason.INSTRUCTIONS, NoteReason.PLAN)
"""The reasons of notes that are never summarized away."""
_OF_THE_USER = (TurnStarted, TurnWithdrawn, ContextNote)
"""Facts whose messages a summary may keep."""
_TAKE_BACK = (Rewound, Restored)
"""Facts that need every message there was."""
SUMMARIZED = "[The conversation until here, shortened. What was said and done, and what is open:]"


class History:
    """The incremental fold: adding a fact does not repeat earlier work."""

    def __init__(self, facts: Sequence[Fact] = ()) -> None:
        self._skipped: list[Fact] = []
        """All facts so far, if the replies and results before a summary were not folded."""
        self._reset()
        self._fold_past(facts)

    def _reset(self) -> None:
        self._messages: list[Message] = []
        self._full_messages: list[Message] = []
        """The same messages, with nothing trimmed or summarized."""
        self._preserved: list[tuple[UserMessage, bool]] = []
        """The messages that a summary keeps, each with True if the user wrote it."""
        self._open_prompt: UserMessage | None = None
        """The prompt of the last turn, until the model has replied."""
        self._pinned: dict[str, UserMessage] = {}
        """The latest note of each subject that is never summarized away."""
        self._calls: tuple[ToolCall, ...] = ()
        self._results: list[ToolResult | None] = []
        self._started_ids: set[str] = set()
        self._turn_count = 0
        self._turns: dict[int, _Snapshot] = {}
        """By number, the conversation before each turn."""
        self._rewound: dict[str, _Snapshot] = {}
        """By its id, the conversation before each rewind."""

    def _fold_past(self, facts: Sequence[Fact]) -> None:
        """Fold the facts, without the replies and results that the last summary replaces."""
        needed = _find_needed(facts)
        for fact in facts[:needed]:
            if isinstance(fact, ModelReplied):
                self._open_prompt = None
            elif isinstance(fact, _OF_THE_USER):
                self._fold(fact)
        for fact in facts[needed:]:
            self._fold(fact)
        self._skipped = list(facts) if needed else []

    def add(self, fact: Fact) -> None:
        if self._skipped and isinstance(fact, _TAKE_BACK):
            self._reset()
            for earlier in self._skipped:
                self._fold(earlier)
            self._skipped = []
        elif self._skipped:
            self._skipped.append(fact)
        self._fold(fact)

    def _fold(self, fact: Fact) -> None:
        match fact:
            case TurnStarted() | TurnWithdrawn() | Rewound():
                self._add_turn(fact)
            case ContextNote():
                self._add_note(fact)
            case ModelReplied(message=message):
                self._add_reply(message)
            case CallJudged(call=call, verdict=verdict) if verdict.decision != "deny":
                self._started_ids.add(call.id)
            case CallFinished(result=result):
                self._add_result(result)
            case ResultsTrimmed() | Compacted() | Restored():
                self._shorten(fact)
            case _:
                pass

    def build_messages(self) -> tuple[Message, ...]:
        return (*self._messages, *self._build_open_results())

    def list_user_messages(self) -> tuple[UserMessage, ...]:
        """Return all user messages that were not withdrawn."""
        return tuple(message for message, is_by_the_person in self._preserved if is_by_the_person)

    def list_preserved_messages(self, left_out: int) -> tuple[UserMessage, ...]:
        """Return what a summary would keep now, without `left_out` of the user's messages."""
        return tuple(self._iter_preserved(left_out))

    def find_open_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the last reply that have no result."""
        answers = zip(self._calls, self._results, strict=True)
        return tuple(call for call, result in answers if result is None)

    def build_missing_results(self) -> tuple[ToolResult, ...]:
        """Return stand-ins for the missing results of open calls."""
        return tuple(self._build_stand_in(call) for call in self.find_open_calls())

    def _add_turn(self, fact: TurnStarted | TurnWithdrawn | Rewound) -> None:
        match fact:
            case TurnStarted(message=message):
                self._start_turn(message)
            case TurnWithdrawn():
                self._withdraw()
            case Rewound():
                self._rewind(fact)

    def _start_turn(self, message: UserMessage) -> None:
        self._close_calls()
        self._turn_count += 1
        self._turns[self._turn_count] = self._take_snapshot()
        self._append(message)
        self._preserved.append((message, True))
        self._open_prompt = message

    def _rewind(self, fact: Rewound) -> None:
        """Go back to before a turn, or take a rewind back. What was sent stays the same objects."""
        self._close_calls()
        if fact.action == "redo":
            snapshot = self._rewound.get(fact.of)
        else:
            self._rewound[fact.id] = self._take_snapshot()
            snapshot = self._turns.get(fact.turn)
        if snapshot is not None:
            self._messages = snapshot.messages.copy()
            self._full_messages = snapshot.full_messages.copy()
            self._preserved = snapshot.preserved.copy()
            self._pinned = dict(snapshot.pinned)
            self._open_prompt = None

    def _take_snapshot(self) -> "_Snapshot":
        return _Snapshot(
            messages=_Prefix(self._messages),
            full_messages=_Prefix(self._full_messages),
            preserved=_Prefix(self._preserved),
            pinned=dict(self._pinned),
        )

    def _add_message(self, message: UserMessage) -> None:
        self._close_calls()
        self._append(message)

    def _add_note(self, note: ContextNote) -> None:
        message = UserMessage(content=(Text(text=note.text), *note.attached))
        self._add_message(message)
        if note.why == NoteReason.USER:
            self._preserved.append((message, True))
        elif note.why in PINNED:
            self._pin(
                NoteReason.PLAN if note.why == NoteReason.PLAN else note.text.partition("\n")[0],
                message,
            )

    def _pin(self, subject: str, message: UserMessage) -> None:
        """Pin a note and drop the earlier one of its subject, such as a plan or a changed file."""
        before = self._pinned.get(subject)
        self._pinned[subject] = message
        self._preserved = [one for one in self._preserved if one[0] is not before]
        self._preserved.append((message, False))

    def _withdraw(self) -> None:
        gone, self._open_prompt = self._open_prompt, None
        if gone is not None:
            self._messages = _remove_last(self._messages, gone)
            self._full_messages = _remove_last(self._full_messages, gone)
            self._preserved = _remove_last(self._preserved, (gone, True))

    def _add_reply(self, message: AssistantMessage) -> None:
        self._close_calls()
        self._open_prompt = None
        if message.content or message.echo:
            self._append(message)
        self._calls = message.tool_calls
        self._results = [None] * len(self._calls)
        self._started_ids.clear()

    def _add_result(self, result: ToolResult) -> None:
        """Give the result to the first open call with its id; ignore a stray result."""
        for index, call in enumerate(self._calls):
            if call.id == result.call_id and self._results[index] is None:
                self._results[index] = result
                if not self.find_open_calls():
                    # from now on the message is the same object, so others can compare by identity
                    self._close_calls()
                return

    def _close_calls(self) -> None:
        for answers in self._build_open_results():
            self._append(answers)
        self._calls, self._results = (), []

    def _append(self, message: Message) -> None:
        self._messages.append(message)
        self._full_messages.append(message)

    def _shorten(self, fact: ResultsTrimmed | Compacted | Restored) -> None:
        self._close_calls()
        match fact:
            case ResultsTrimmed(results=results):
                self._replace({result.call_id: result.text for result in results})
            case Compacted(summary=summary):
                summary_message = UserMessage(content=(Text(text=f"{SUMMARIZED}\n\n{summary}"),))
                new = self._list_new() if fact.keeps_new else ()
                self._messages = [*self._iter_preserved(fact.left_out), summary_message, *new]
            case Restored():
                self._messages = list(self._full_messages)

    def _replace(self, lines: dict[str, str]) -> None:
        """Replace results by lines; if old and new results share an id, the new one is meant."""
        new = {result.call_id for result in find_new_results(self._messages)}
        of_new = {call_id: lines[call_id] for call_id in lines if call_id in new}
        of_old = {call_id: lines[call_id] for call_id in lines if call_id not in new}
        at = find_last_reply(self._messages)
        self._messages = [
            _replace_results(message, of_new if index > at else of_old)
            for index, message in enumerate(self._messages)
        ]

    def _list_new(self) -> tuple[Message, ...]:
        """Return the messages that no request has carried yet, with the reply that made the calls.

        Messages that a summary keeps anyway are not included."""
        at = find_last_reply(self._messages)
        lasting = [id(message) for message, _ in self._preserved]
        new = [one for one in self._messages[at + 1 :] if id(one) not in lasting]
        reply = self._messages[at] if at >= 0 else None
        if isinstance(reply, AssistantMessage) and reply.tool_calls:
            # The provider-side state that it continues is what the summary replaces.
            return (replace(reply, echo=None), *new)
        return tuple(new)

    def _iter_preserved(self, left_out: int) -> Iterator[UserMessage]:
        """Yield the preserved messages; the very first request is never left out."""
        number = 0
        for message, is_by_the_person in self._preserved:
            number += is_by_the_person
            if not is_by_the_person or number == 1 or number > 1 + left_out:
                yield message

    def _build_open_results(self) -> tuple[ToolMessage, ...]:
        if not self._calls:
            return ()
        answers = zip(self._calls, self._results, strict=True)
        return (
            ToolMessage(
                results=tuple(result or self._build_stand_in(call) for call, result in answers)
            ),
        )

    def _build_stand_in(self, call: ToolCall) -> ToolResult:
        return ToolResult(
            call_id=call.id,
            name=call.name,
            status="error",
            content=(Text(text=MAY_HAVE_RUN if call.id in self._started_ids else NEVER_RAN),),
            error=ErrorKind.CANCELLED,
        )


def _find_needed(facts: Sequence[Fact]) -> int:
    """Return the index of the first fact whose reply or result can still be sent.

    It is that of the last reply before the last summary, or 0 if anything is taken back."""
    if any(isinstance(fact, _TAKE_BACK) for fact in facts):
        return 0
    summaries = (at for at in reversed(range(len(facts))) if isinstance(facts[at], Compacted))
    for at in reversed(range(next(summaries, 0))):
        fact = facts[at]
        if isinstance(fact, ModelReplied) and (fact.message.content or fact.message.echo):
            return at
    return 0


class _Prefix(Generic[T]):
    """A list as it is now. It costs no copy: these lists only grow, or are replaced as a whole."""

    def __init__(self, items: list[T]) -> None:
        self._items = items
        self._length = len(items)

    def copy(self) -> list[T]:
        return self._items[: self._length]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    messages: _Prefix[Message]
    full_messages: _Prefix[Message]
    preserved: _Prefix[tuple[UserMessage, bool]]
    pinned: dict[str, UserMessage]


def _remove_last(items: Sequence[T], gone: T) -> list[T]:
    """Remove the last equal item, if any; it may have been summarized away."""
    at = next((at for at in reversed(range(len(items))) if items[at] == gone), len(items))
    return [*items[:at], *items[at + 1 :]]


def _replace_results(message: Message, lines: dict[str, str]) -> Message:
    if not isinstance(message, ToolMessage) or lines.keys().isdisjoint(
        result.call_id for result in message.results
    ):
        return message
    return replace(message, results=tuple(_replace_result(each, lines) for each in message.results))


def _replace_result(result: ToolResult, lines: dict[str, str]) -> ToolResult:
    line = lines.get(result.call_id)
    return result if line is None else replace(result, content=(Text(text=line),))


def build_messages(facts: Iterable[Fact]) -> tuple[Message, ...]:
    return History(tuple(facts)).build_messages()


def find_new_results(messages: Sequence[Message]) -> tuple[ToolResult, ...]:
    """Return the results that no request has carried yet: those after the last reply."""
    return tuple(
        result
        for message in messages[find_last_reply(messages) + 1 :]
        if isinstance(message, ToolMessage)
        for result in message.results
    )


def find_last_reply(messages: Sequence[Message]) -> int:
    """Return the index of the last reply, or -1 if there is none."""
    for at in reversed(range(len(messages))):
        if isinstance(messages[at], AssistantMessage):
            return at
    return -1
