"""What happens, told on the screen: finished parts are committed, the rest is the live region.

Loaded after the first paint: everything that lays out text comes with it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentcli.machine.plain import plain
from agentcli.types.deltas import CallDelta, CallProgress, RetryDelta, TextDelta, ThinkingDelta
from agentcli.types.events import (
    Attached,
    CallFinished,
    CallJudged,
    Compacted,
    Ending,
    Event,
    Fact,
    ModelReplied,
    ResultsTrimmed,
    ServerAsked,
    Told,
    TurnEnded,
    TurnStarted,
    TurnWithdrawn,
    Warned,
    Why,
)
from agentcli.types.messages import Text, ToolCall
from agentcli.ui.lines import shortened_line, target
from agentcli.ui.render.cards import CHILD, Cards
from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.summary import turn_line
from agentcli.ui.repl import phrases
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.writing import Writing
from agentcli.ui.tally import Tally

RUNNING_ROWS = 4
UNTOLD = (Why.SHELL, Why.ENVIRONMENT, Why.UNDO, Why.REDO)
"""What the person knows by themselves."""


@dataclass(slots=True)
class _Running:
    call: ToolCall
    began: float = field(default_factory=time.monotonic)
    output: str = ""


class Story:
    def __init__(
        self, *, commit: Callable[[str], None], paint: Callable[[], Paint], status: Status
    ) -> None:
        self._commit = commit
        self._paint = paint
        self._status = status
        self.cards = Cards(paint())
        self.tally = Tally()
        self._turn = Tally()
        self._tools = 0
        self._cards = 0
        self.shows_thinking = False
        self.context_tokens = 0
        self._earlier: list[Fact] = []
        self._said: list[bytes | int] = []
        """All that was committed; a number is a card, which can be shown whole. As bytes it takes
        half the room, and is seldom looked at."""
        self._writing = Writing(paint(), put=self._put)
        self._was_streamed = False
        self._calls: dict[str, ToolCall] = {}
        self._judged: dict[str, CallJudged] = {}
        self.running: dict[str, _Running] = {}
        self._thinking_since: float | None = None
        self._thought = ""
        self.notes: dict[str, Sequence[str]] = {}
        """On what goes with messages to the running turn, to be said when the model gets them."""

    # What is told

    def __call__(self, event: Event) -> None:
        self.tally(event)
        self._turn(event)
        match event:
            case TextDelta(text=text):
                self._writes(text)
            case ThinkingDelta(text=text):
                self._thinks(text)
            case CallDelta(name=name, arguments=arguments):
                self._stop_thinking()
                self._status.hears(f"Preparing {name}", arguments)
            case CallProgress(call_id=call_id, text=text):
                if call_id in self.running:
                    self.running[call_id].output = text
            case RetryDelta():
                self._retries(event)
            case _:
                self._fact(event)

    def _fact(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._turn, self._tools = Tally(), 0
                self._turn(event)
                self._status.doing("Waiting for model")
            case ModelReplied():
                self._replied(event)
            case CallJudged():
                self._begins(event)
            case CallFinished():
                self._finishes(event)
            case TurnEnded():
                self._ended(event)
            case _:
                self._remark(event)

    def _remark(self, event: Event) -> None:
        match event:
            case Told(text=text, why=why):
                self._told(text, why)
            case ResultsTrimmed() | Compacted():
                self.add(self._styled(shortened_line(event), "dim"))
            case Warned(message=message):
                self.say(phrases.warning(self._paint(), message))
            case Attached() | ServerAsked():
                self.add(phrases.of_server(self._paint(), event))
            case _:
                pass

    # What is on the screen for good

    def say(self, ansi: str) -> None:
        """A block of its own: one empty line before it."""
        self._flush()
        self._put(ansi, apart=True)

    def add(self, ansi: str) -> None:
        """Directly below what was said last."""
        self._flush()
        self._put(ansi, apart=False)

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        self.say(phrases.table(self._paint(), rows))

    def prompt(self, shown: str) -> None:
        self.say(phrases.prompt(self._paint(), shown))

    def error(self, message: str, hint: str = "") -> None:
        self.say(phrases.error(self._paint(), message, phrases.fix_from_within(hint)))

    def interrupted(self, seconds: float) -> None:
        self.say(phrases.interrupted(self._paint(), seconds, changed=len(self._turn.changed)))

    def card(self, judged: CallJudged, finished: CallFinished) -> None:
        """Of something the person did."""
        self._card(judged, finished)
        self._flush()

    @property
    def answer(self) -> str:
        """The latest that the model said, in all of its parts."""
        return self.tally.said.last_said

    def recall(self, facts: Sequence[Fact]) -> None:
        """Goes on with another session, by what was said last in it; the rest is in the transcript.

        What was shown stays shown."""
        self._flush()
        self.tally, self.context_tokens = Tally(), 0
        self._earlier = [*facts]
        turns = _turns(facts)
        for fact in facts:
            self.tally(fact)
            if isinstance(fact, ModelReplied):
                self._note(fact)
        if not turns:
            return
        more = len(turns) - 1
        if more:
            count = f"{more} earlier {'turn' if more == 1 else 'turns'}"
            self.say(self._styled(f"… {count}, ctrl+o to read", "dim"))
        self._retell(_one_turn(facts, turns[-1]))

    def _retell(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, TurnStarted):
                said = fact.message.content[0]
                self.prompt(said.text if isinstance(said, Text) else "[an image]")
            elif isinstance(fact, ModelReplied | CallJudged | CallFinished):
                self._fact(fact)
        self._flush()

    def transcript(self) -> str:
        """Everything, with nothing left out of the cards."""
        earlier = ""
        if self._earlier:
            before = Story(commit=lambda ansi: None, paint=self._paint, status=Status())
            before._retell(self._earlier)
            earlier = before.transcript()
        return earlier + "".join(
            f"\n{self.cards.show(it)}" if isinstance(it, int) else it.decode("utf-8", "replace")
            for it in self._said
        )

    def plain_transcript(self) -> str:
        return plain(self.transcript()).lstrip("\n")

    # What is on the screen for now

    def tail(self, rows: int) -> list[str]:
        """The end of the text that is being written, never more than so many rows of it."""
        return self._writing.tail(rows)

    def doing(self, rows: int) -> list[str]:
        """The calls that run, and what the newest of them says."""
        return self._running_rows()[: max(0, min(RUNNING_ROWS, rows))]

    def resized(self) -> None:
        """What comes from now on fits the new size."""
        paint = self._paint()
        self.cards.paint = paint
        self._writing.use(paint)

    def _running_rows(self) -> list[str]:
        now, rows = time.monotonic(), []
        newest = next(reversed(self.running), "")
        for call_id, one in self.running.items():
            output = one.output if call_id == newest or one.call.name == CHILD else ""
            shown = self.cards.running(one.call, now - one.began, output)
            rows += shown.rstrip("\n").split("\n")
        held = self.cards.held()
        return [*(held.rstrip("\n").split("\n") if held else []), *rows]

    # How it got there

    def _writes(self, text: str) -> None:
        self._stop_thinking()
        self._status.hears("Writing", text)
        if not self._writing.is_open:
            self._flush()
            self._was_streamed = True
            self._writing.begin(self._paint())
        self._writing.add(text)

    def _thinks(self, text: str) -> None:
        if self._thinking_since is None:
            self._writing.finish()
            self._thinking_since = time.monotonic()
        self._thought += text
        self._status.hears("Thinking", text)

    def _stop_thinking(self) -> None:
        if self._thinking_since is None:
            return
        seconds, self._thinking_since = time.monotonic() - self._thinking_since, None
        text, self._thought = self._thought.strip(), ""
        self.say(phrases.thought(self._paint(), text, seconds, is_shown=self.shows_thinking))

    def _retries(self, retry: RetryDelta) -> None:
        self._stop_thinking()
        why = escape(retry.reason)
        if retry.status == 429:
            why = f"Rate limited ({retry.status})"
        elif self._writing.is_open and retry.status is None:
            why = f"connection lost after {self._status.arriving_tokens} tok"
        if self._writing.is_open:
            self._writing.finish()
            self._was_streamed = False
            self.add(phrases.broken_off(self._paint(), why))
        self._status.retries(
            why, wait_s=retry.wait_s, attempt=retry.attempt, attempts=retry.attempts
        )

    def _replied(self, event: ModelReplied) -> None:
        message = event.message
        self._stop_thinking()
        if message.text.strip() and not self._was_streamed:
            self._writes(message.text)
        self._writing.finish()
        self._was_streamed = False
        self._calls.update((call.id, call) for call in message.tool_calls)
        usage = message.usage
        self._note(event)
        self._status.replied(sent=usage.prompt_tokens, received=usage.output_tokens)
        self._status.doing(_next_verb(message.tool_calls))

    def _note(self, event: ModelReplied) -> None:
        usage = event.message.usage
        if usage.prompt_tokens:
            self.context_tokens = usage.prompt_tokens + usage.output_tokens

    def _begins(self, event: CallJudged) -> None:
        self._judged[event.call.id] = event
        if event.verdict.decision != "deny":
            self._status.doing(f"Running {event.call.name} {target(event.call)}")
            self.running[event.call.id] = _Running(event.call)

    def _finishes(self, event: CallFinished) -> None:
        call_id = event.result.call_id
        self.running.pop(call_id, None)
        self._tools += 1
        judged = self._judged.pop(call_id, None)
        self._card(judged, event)
        if self._paint().accessible:
            self._flush()  # in the order in which it happens, and not in fewer lines
        if not self.running:
            self._status.doing("Waiting for model")

    def _card(self, judged: CallJudged | None, finished: CallFinished) -> None:
        self._writing.finish()
        call = self._calls.pop(finished.result.call_id, None)
        shown = self.cards.finished(judged, finished, call=call)
        self._cards += 1
        self._said.append(self._cards)
        self._put(shown, apart=True, card=self._cards)

    def _told(self, text: str, why: str) -> None:
        if why == Why.PERSON:
            self.prompt(text)
            for note in self.notes.pop(text, ()):
                self.add(self._styled(f"  {note}", "dim"))
        elif why not in UNTOLD:
            self.say(phrases.told(self._paint(), text))

    def _ended(self, event: TurnEnded) -> None:
        self._flush()
        self.running.clear()
        if event.ending is Ending.DONE:
            seconds = self._status.elapsed_s
            line = turn_line(self._paint(), self._turn, tools=self._tools, duration_s=seconds)
            if line:
                self._put(line, apart=True)
        elif event.ending is not Ending.CANCELLED:
            self.error(event.message or event.ending.value, event.hint)

    def _flush(self) -> None:
        self._stop_thinking()
        self._writing.finish()
        self._put(self.cards.flush(), apart=True, card=self._cards)

    def _put(self, ansi: str, *, apart: bool, card: int | None = None) -> None:
        if not ansi:
            return
        ansi = ("\n" if apart else "") + (ansi if ansi.endswith("\n") else ansi + "\n")
        if card is None:
            self._said.append(ansi.encode("utf-8", "replace"))
        self._commit(ansi)

    def _styled(self, text: str, style: str) -> str:
        return phrases.styled(self._paint(), text, style)


def _turns(facts: Sequence[Fact]) -> list[int]:
    """Where those begin that the person has not withdrawn."""
    begun: list[int] = []
    for at, fact in enumerate(facts):
        if isinstance(fact, TurnStarted):
            begun.append(at)
        elif isinstance(fact, TurnWithdrawn) and begun:
            begun.pop()
    return begun


def _one_turn(facts: Sequence[Fact], begin: int) -> Sequence[Fact]:
    later = (at for at in range(begin + 1, len(facts)) if isinstance(facts[at], TurnStarted))
    return facts[begin : next(later, len(facts))]


def _next_verb(calls: Sequence[ToolCall]) -> str:
    return f"Preparing {calls[0].name}" if calls else "Waiting for model"
