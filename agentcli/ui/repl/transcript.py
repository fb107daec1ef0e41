"""The progress of the session on the screen. Finished parts are committed, the rest is live.

Loaded after the first paint, because everything that lays out text comes with it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentcli.system.plain_text import to_plain_text
from agentcli.types.agents import (
    AgentEnded,
    PatchDecided,
    describe_agent_fact,
)
from agentcli.types.checks import Verified
from agentcli.types.deltas import (
    CallDelta,
    CallProgress,
    CheckStarted,
    RetryDelta,
    ServersAwaited,
    TextDelta,
    ThinkingDelta,
)
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ContextNote,
    Event,
    Fact,
    FileAttached,
    ModelReplied,
    NoteReason,
    ResultsTrimmed,
    ServerAsked,
    TurnEnded,
    TurnStarted,
    TurnWithdrawn,
    Warned,
    list_effective_facts,
)
from agentcli.types.messages import Text, ToolCall
from agentcli.ui.render.cards import CHILD_TOOL, CardRenderer
from agentcli.ui.render.paint import Paint, escape
from agentcli.ui.render.wording import (
    describe_check,
    describe_hosted,
    describe_shortening,
    format_target,
    render_turn_summary,
    render_verification,
)
from agentcli.ui.repl import transcript_blocks
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.transcript_blocks import Display, ScreenPainter, StreamingText
from agentcli.ui.tally import Tally

RUNNING_ROWS = 4
HIDDEN_NOTES = (
    NoteReason.SHELL,
    NoteReason.ENVIRONMENT,
    NoteReason.UNDO,
    NoteReason.REDO,
    NoteReason.REWIND,
)
"""The context notes about what the user already knows."""


@dataclass(slots=True)
class _RunningCall:
    call: ToolCall
    began: float = field(default_factory=time.monotonic)
    output: str = ""


class LiveTranscript:
    def __init__(
        self, display: Display | None, painter: ScreenPainter, *, status: Status, read_key: str = ""
    ) -> None:
        """Without a display, text is only collected for `render_full`, which `read_key` shows."""
        self._display = display
        self._painter = painter
        self._status = status
        self._read_key = read_key
        self._painted = painter.paint
        self.cards = CardRenderer(self._painted)
        self.tally = Tally()
        self._turn = Tally()
        self._tools = 0
        self._cards = 0
        self.shows_thinking = False
        self.context_tokens = 0
        self._earlier: list[Fact] = []
        self._committed: list[bytes | int] = []
        """Everything that was committed. A number is a card, which can be shown in full. Bytes take
        half the memory, and are seldom read."""
        self._streaming_text = StreamingText(self._painted)
        self._was_streamed = False
        self._calls: dict[str, ToolCall] = {}
        self._judged: dict[str, CallJudged] = {}
        self.running: dict[str, _RunningCall] = {}
        self._thinking_since: float | None = None
        self._thought = ""
        self._notes: dict[str, Sequence[str]] = {}
        """Notes on attachments of messages to the running turn, shown when the model gets them."""

    # Events

    def __call__(self, event: Event) -> None:
        self.tally(event)
        self._turn(event)
        match event:
            case TextDelta(text=text):
                self._add_text(text)
            case ThinkingDelta(text=text):
                self._add_thinking(text)
            case CallDelta(name=name, arguments=arguments):
                self._stop_thinking()
                self._status.add_received(f"Preparing {name}", arguments)
            case CallProgress(call_id=call_id, text=text):
                if call_id in self.running:
                    self.running[call_id].output = text
            case RetryDelta():
                self._render_retry(event)
            case ServersAwaited(names=names):
                self._status.set_verb(f"Starting MCP servers ({', '.join(names)})")
            case _:
                self._render_fact(event)

    def _render_fact(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._turn, self._tools = Tally(), 0
                self._turn(event)
                self._status.set_verb("Waiting for model")
            case ModelReplied():
                self._finish_reply(event)
            case CallJudged():
                self._start_call(event)
            case CallFinished():
                self._finish_call(event)
            case CheckStarted() | Verified():
                self._render_check(event)
            case TurnEnded():
                self._finish_turn(event)
            case _:
                self._render_remark(event)

    def _render_remark(self, event: Event) -> None:
        match event:
            case ContextNote():
                self._render_context_note(event)
            case ResultsTrimmed() | Compacted():
                self.add(self._apply_style(describe_shortening(event), "dim"))
            case Warned(message=message):
                self.say(transcript_blocks.render_warning(self._use_paint(), message))
            case AgentEnded() | PatchDecided():
                self.add(self._apply_style(f"  {escape(describe_agent_fact(event))}", "dim"))
            case FileAttached() | ServerAsked():
                self.add(transcript_blocks.render_server_event(self._use_paint(), event))
            case _:
                pass

    # Committed text

    def say(self, ansi: str) -> None:
        """Add a block after an empty line."""
        self._flush()
        self._commit_block(ansi, apart=True)

    def add(self, ansi: str) -> None:
        """Add text directly below the last block."""
        self._flush()
        self._commit_block(ansi, apart=False)

    def print_table(self, rows: Sequence[tuple[str, str]]) -> None:
        self.say(transcript_blocks.render_table(self._use_paint(), rows))

    def add_prompt(self, shown: str) -> None:
        self.say(transcript_blocks.render_prompt(self._use_paint(), shown))

    def add_error(self, message: str, hint: str = "") -> None:
        self.say(
            transcript_blocks.render_error(
                self._use_paint(), message, hint=transcript_blocks.adapt_hint(hint)
            )
        )

    def add_interruption(self, seconds: float) -> None:
        self.say(
            transcript_blocks.render_interruption(
                self._use_paint(), seconds, changed=len(self._turn.changed)
            )
        )

    def hold_notes(self, text: str, notes: Sequence[str]) -> None:
        """Keep the notes on a message's attachments until the model gets the message."""
        self._notes[text] = notes

    def add_card(self, judged: CallJudged, finished: CallFinished) -> None:
        """Add a card for something the user did."""
        self._render_card(judged, finished)
        self._flush()

    @property
    def answer(self) -> str:
        """The model's last answer, in all of its parts."""
        return self.tally.said.last_said

    def load_session(self, facts: Sequence[Fact]) -> None:
        """Continue with another session. Show its last turn; the rest is in the full transcript.

        What was shown stays on the screen."""
        self._flush()
        self.tally, self.context_tokens = Tally(), 0
        self._earlier = shown = list_effective_facts(facts)
        turns = _find_turns(shown)
        for fact in facts:
            self.tally(fact)
        for fact in shown:
            if isinstance(fact, ModelReplied):
                self._update_context(fact)
        if not turns:
            return
        more = len(turns) - 1
        if more:
            count = f"{more} earlier {'turn' if more == 1 else 'turns'}"
            self.say(self._apply_style(f"… {count}, {self._read_key} to read", "dim"))
        self._render_facts(_slice_turn(shown, turns[-1]))

    def _render_facts(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, TurnStarted):
                block = fact.message.content[0]
                self.add_prompt(block.text if isinstance(block, Text) else "[an image]")
            elif isinstance(fact, ModelReplied | CallJudged | CallFinished):
                self._render_fact(fact)
        self._flush()

    def render_full(self) -> str:
        """Return everything, with complete cards."""
        earlier = ""
        if self._earlier:
            before = LiveTranscript(None, self._painter, status=Status())
            before._render_facts(self._earlier)
            earlier = before.render_full()
        return earlier + "".join(
            f"\n{self.cards.render_card(it)}"
            if isinstance(it, int)
            else it.decode("utf-8", "replace")
            for it in self._committed
        )

    def render_plain(self) -> str:
        return to_plain_text(self.render_full()).lstrip("\n")

    # Live rows

    def render_tail(self, rows: int) -> list[str]:
        """Return the end of the text that is being written, at most `rows` rows."""
        self._use_paint()
        return self._streaming_text.render_tail(rows)

    def render_running(self, rows: int) -> list[str]:
        """Return the running calls, and the output of the newest one."""
        return self._render_running_rows()[: max(0, min(RUNNING_ROWS, rows))]

    def _use_paint(self) -> Paint:
        """Return the current paint. Everything that follows is laid out with it."""
        paint = self._painter.paint
        if paint is not self._painted:
            self._painted = paint
            self.cards.set_paint(paint)
            self._streaming_text.set_paint(paint)
        return paint

    def _render_running_rows(self) -> list[str]:
        now, rows = time.monotonic(), []
        newest = next(reversed(self.running), "")
        for call_id, one in self.running.items():
            output = one.output if call_id == newest or one.call.name == CHILD_TOOL else ""
            shown = self.cards.render_running(one.call, now - one.began, last_lines=output)
            rows += shown.rstrip("\n").split("\n")
        held = self.cards.render_held()
        return [*(held.rstrip("\n").split("\n") if held else []), *rows]

    # Handling each event

    def _add_text(self, text: str) -> None:
        self._stop_thinking()
        self._status.add_received("Writing", text)
        if not self._streaming_text.is_open:
            self._flush()
            self._was_streamed = True
            self._streaming_text.begin(self._use_paint())
        self._commit_block(self._streaming_text.add(text), apart=False)

    def _add_thinking(self, text: str) -> None:
        if self._thinking_since is None:
            self._finish_text()
            self._thinking_since = time.monotonic()
        self._thought += text
        self._status.add_received("Thinking", text)

    def _stop_thinking(self) -> None:
        if self._thinking_since is None:
            return
        seconds, self._thinking_since = time.monotonic() - self._thinking_since, None
        text, self._thought = self._thought.strip(), ""
        self.say(
            transcript_blocks.render_thinking(
                self._use_paint(), text, seconds=seconds, is_shown=self.shows_thinking
            )
        )

    def _render_retry(self, retry: RetryDelta) -> None:
        self._stop_thinking()
        why = escape(retry.reason)
        if retry.status == 429:
            why = f"Rate limited ({retry.status})"
        elif self._streaming_text.is_open and retry.status is None:
            why = f"Connection lost after {self._status.arriving_tokens} tokens"
        if self._streaming_text.is_open:
            self._finish_text()
            self._was_streamed = False
            self.add(transcript_blocks.render_broken_off(self._use_paint(), why))
        self._status.set_retry(
            why, wait_s=retry.wait_s, attempt=retry.attempt, attempts=retry.attempts
        )

    def _finish_reply(self, event: ModelReplied) -> None:
        message = event.message
        self._stop_thinking()
        if message.text.strip() and not self._was_streamed:
            self._add_text(message.text)
        self._finish_text()
        self._was_streamed = False
        self._calls.update((call.id, call) for call in message.tool_calls)
        for line in describe_hosted(message):
            self.add(transcript_blocks.render_hosted(self._use_paint(), line))
        usage = message.usage
        self._update_context(event)
        self._status.add_usage(sent=usage.prompt_tokens, received=usage.output_tokens)
        self._status.set_verb(_choose_verb(message.tool_calls))

    def _update_context(self, event: ModelReplied) -> None:
        usage = event.message.usage
        if usage.prompt_tokens:
            self.context_tokens = usage.prompt_tokens + usage.output_tokens

    def _start_call(self, event: CallJudged) -> None:
        self._judged[event.call.id] = event
        if event.verdict.decision != "deny":
            self._status.set_verb(f"Running {event.call.name} {format_target(event.call)}")
            self.running[event.call.id] = _RunningCall(event.call)

    def _finish_call(self, event: CallFinished) -> None:
        call_id = event.result.call_id
        self.running.pop(call_id, None)
        self._tools += 1
        judged = self._judged.pop(call_id, None)
        self._render_card(judged, event)
        if self._use_paint().accessible:
            self._flush()  # in the order of events, and not in fewer lines
        if not self.running:
            self._status.set_verb("Waiting for model")

    def _render_card(self, judged: CallJudged | None, finished: CallFinished) -> None:
        self._finish_text()
        call = self._calls.pop(finished.result.call_id, None)
        shown = self.cards.add_finished(judged, finished, call=call)
        self._cards += 1
        self._committed.append(self._cards)
        self._commit_block(shown, apart=True, card=self._cards)

    def _render_check(self, event: CheckStarted | Verified) -> None:
        if isinstance(event, CheckStarted):
            self._status.set_verb(f"Checking {' '.join(event.command.split())}")
            return
        self.say(self._apply_style(describe_check(event), "dim" if event.passed else "failed"))
        self._status.set_verb("Waiting for model")

    def _render_context_note(self, event: ContextNote) -> None:
        if event.why == NoteReason.USER:
            self.add_prompt(event.text)
            for note in self._notes.pop(event.text, ()):
                self.add(self._apply_style(f"  {note}", "dim"))
        elif event.why not in HIDDEN_NOTES:
            self.say(transcript_blocks.render_context_note(self._use_paint(), event))

    def _finish_turn(self, event: TurnEnded) -> None:
        self._flush()
        self.running.clear()
        if event.ending is Ending.DONE:
            seconds = self._status.elapsed_s
            line = render_turn_summary(
                self._use_paint(),
                self._turn,
                tools=self._tools,
                duration_s=seconds,
                ended_at=time.strftime("%H:%M"),
            )
            if line:
                self._commit_block(line, apart=True)
        elif event.ending is not Ending.CANCELLED:
            self.add_error(event.message or event.ending.value, event.hint)
        self._commit_block(render_verification(self._use_paint(), self.tally), apart=False)

    def _flush(self) -> None:
        self._stop_thinking()
        self._finish_text()
        self._commit_block(self.cards.flush(), apart=True, card=self._cards)

    def _commit_block(self, ansi: str, *, apart: bool, card: int | None = None) -> None:
        if not ansi:
            return
        ansi = ("\n" if apart else "") + (ansi if ansi.endswith("\n") else ansi + "\n")
        if card is None:
            self._committed.append(ansi.encode("utf-8", "replace"))
        if self._display is not None:
            self._display.commit(ansi)

    def _finish_text(self) -> None:
        self._commit_block(self._streaming_text.finish(), apart=False)

    def _apply_style(self, text: str, style: str) -> str:
        return transcript_blocks.apply_style(self._use_paint(), text, style=style)


def _find_turns(facts: Sequence[Fact]) -> list[int]:
    """Return the positions where turns begin that the user has not withdrawn."""
    begun: list[int] = []
    for at, fact in enumerate(facts):
        if isinstance(fact, TurnStarted):
            begun.append(at)
        elif isinstance(fact, TurnWithdrawn) and begun:
            begun.pop()
    return begun


def _slice_turn(facts: Sequence[Fact], begin: int) -> Sequence[Fact]:
    later = (at for at in range(begin + 1, len(facts)) if isinstance(facts[at], TurnStarted))
    return facts[begin : next(later, len(facts))]


def _choose_verb(calls: Sequence[ToolCall]) -> str:
    return f"Preparing {calls[0].name}" if calls else "Waiting for model"
