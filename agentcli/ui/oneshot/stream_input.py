"""`run --input stream-json`: prompts, messages, answers and interrupts, one JSON object per line.

A line that cannot be used is named by an `input.rejected` line, and the rest goes on.
"""

import asyncio
import codecs
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agentcli.session.session import InterruptibleTurn, Session
from agentcli.system.strict_json import replace_half_characters
from agentcli.system.validation import describe_fault
from agentcli.types.errors import Ending, RunOutcome, UsageError
from agentcli.types.events import Event, TurnEnded
from agentcli.types.verdicts import ProgramSpan, Question, Verdict
from agentcli.ui.images import load_named_images
from agentcli.ui.oneshot.jsonl import JsonRow, build_display
from agentcli.ui.streams import OutputClosed
from agentcli.ui.tally import Tally, collect_changes

LINE_LIMIT_BYTES = 16 * 1024 * 1024
PIECE_BYTES = 64 * 1024
STDIN = 0


# The messages of the program on stdin


class _StreamMessage(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PromptMessage(_StreamMessage):
    """Runs a turn, after those before it."""

    type: Literal["prompt"]
    text: Annotated[str, Field(pattern=r"\S")]
    images: Annotated[list[str], Field(description="Paths of image files.")] = []


class SteerMessage(_StreamMessage):
    """A message to the running turn, before the model's next reply."""

    type: Literal["steer"]
    text: Annotated[str, Field(pattern=r"\S")]


class AnswerMessage(_StreamMessage):
    """The answer to a `question` line."""

    type: Literal["answer"]
    id: Annotated[str, Field(description="The id of the question.")]
    decision: Literal["allow", "deny"]
    lasts: Annotated[
        ProgramSpan,
        Field(description="turn, session: also for calls like it, as the question describes them."),
    ] = "once"
    input: Annotated[
        dict[str, Any] | None,
        Field(description="With allow: other arguments to run the call with, this once."),
    ] = None
    reason: Annotated[str, Field(description="With deny: the reason, which the model reads.")] = ""


class InterruptMessage(_StreamMessage):
    """Stops the running turn; the next prompt goes on."""

    type: Literal["interrupt"]


StreamMessage: TypeAlias = Annotated[
    PromptMessage | SteerMessage | AnswerMessage | InterruptMessage, Field(discriminator="type")
]
MESSAGES: TypeAdapter[StreamMessage] = TypeAdapter(StreamMessage)


def parse_message(line: bytes) -> StreamMessage:
    """Parse a line. Raise ValueError that says what is wrong."""
    given = line.removeprefix(codecs.BOM_UTF8)
    text: str | bytes = given
    with suppress(ValueError):
        text = replace_half_characters(given.decode())
    try:
        return MESSAGES.validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        if fault["type"] == "json_invalid":
            raise ValueError(f"not JSON: {fault['ctx']['error']}") from None
        raise ValueError(describe_fault(error, skip=1)) from None


def iter_lines(descriptor: int) -> Iterator[bytes | None]:
    """Yield the lines of a file that may be a pipe; None for each that is too long."""
    held, is_too_long = bytearray(), False
    while piece := _read_piece(descriptor):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            held += end
            yield None if is_too_long else bytes(held)
            held, is_too_long = bytearray(), False
        held += rest
        if len(held) > LINE_LIMIT_BYTES:
            held, is_too_long = bytearray(), True
    if held or is_too_long:
        yield None if is_too_long else bytes(held)


def _read_piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError:
        return b""  # a terminal that was closed ends like a pipe


class StreamConversation:
    """The prompts of a run, each as a turn, and the questions in between."""

    def __init__(self, write_row: Callable[[JsonRow], None]) -> None:
        """`write_row` writes a line of output."""
        self._write_row = write_row
        self._lines = 0
        self._has_ended = False
        self._prompts: deque[PromptMessage] = deque()
        self._called_off = 0
        """The number of prompts at the front of these that were interrupted before they began."""
        self._is_at_work = False
        """True while a prompt is run, from its first line of output to its last."""
        self._has_news = asyncio.Event()
        self._answers: dict[str, asyncio.Future[Verdict]] = {}
        """The answers that are awaited, by the ids of their questions."""
        self._asked = 0
        self._tally = Tally()
        self._session: Session | None = None
        self._turn: InterruptibleTurn | None = None

    def __call__(self, event: Event) -> None:
        self._tally(event)

    async def run(self, session: Session) -> TurnEnded:
        """Run all prompts, and return the end of the last one.

        Raise UsageError if there is no prompt before the input ends."""
        self._session, self._turn = session, InterruptibleTurn(session)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        ended, number = None, 0
        while (prompt := await self._wait_for_prompt()) is not None:
            number += 1
            self._is_at_work = True
            ended = await self._run_prompt(number, prompt)
            self._is_at_work = False
        if ended is None:
            raise UsageError(
                "stdin ended without a prompt",
                hint="""write a line like {"type": "prompt", "text": "explain this project"}""",
            )
        return ended

    async def ask(self, question: Question) -> Verdict:
        """Put the question to the program, and wait for its answer or the end of its input."""
        if question.form is not None and question.form.kind != "tools":
            reason = "forms are not supported by --input stream-json"
            return Verdict(decision="deny", by="nobody", reason=reason)
        if self._has_ended:
            return _build_unanswered()
        self._asked += 1
        name = f"q{self._asked}"
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._answers[name] = answer
        try:
            self._write_row(_build_question(name, question))
            return await answer
        finally:
            del self._answers[name]

    async def _wait_for_prompt(self) -> PromptMessage | None:
        """Return the next prompt, or None if there will be none."""
        while not self._prompts and not self._has_ended:
            self._has_news.clear()
            await self._has_news.wait()
        return self._prompts.popleft() if self._prompts else None

    async def _run_prompt(self, number: int, prompt: PromptMessage) -> TurnEnded:
        assert self._session is not None and self._turn is not None
        self._tally = Tally()
        self._write_row({"type": "prompt.started", "prompt": number, "text": prompt.text})
        try:
            ended = await self._run_turn(self._turn, prompt)
        except UsageError as error:  # it is about this prompt alone
            ended = TurnEnded(ending=error.ending, message=str(error), hint=error.hint)
        await collect_changes(self._tally, self._session)
        outcome = RunOutcome(ending=ended.ending, message=ended.message, hint=ended.hint)
        result = self._tally.build_result(outcome)
        self._write_row({**result, "type": "prompt.finished", "prompt": number})
        return ended

    async def _run_turn(self, turn: InterruptibleTurn, prompt: PromptMessage) -> TurnEnded:
        if self._called_off:
            self._called_off -= 1
            return TurnEnded(ending=Ending.CANCELLED, message="interrupted")
        images = load_named_images([*map(Path, prompt.images)])
        return await turn.run(prompt.text, attachments=images)

    # Reading, in a thread: a file and a pipe are read in the same way, and nothing waits for it.

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop is closed: the run has ended
            for line in iter_lines(STDIN):
                loop.call_soon_threadsafe(self._take_line, line)
            loop.call_soon_threadsafe(self._end_input)

    def _end_input(self) -> None:
        self._has_ended = True
        self._has_news.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(_build_unanswered())

    def _take_line(self, line: bytes | None) -> None:
        self._lines += 1
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise ValueError(f"longer than {LINE_LIMIT_BYTES // 1024 // 1024} MB")
            self._handle(parse_message(line))
        except ValueError as error:
            self._reject(str(error))

    def _reject(self, why: str) -> None:
        try:
            self._write_row({"type": "input.rejected", "line": self._lines, "message": why})
        except OutputClosed:
            self._end_input()  # the program is gone

    def _handle(self, message: StreamMessage) -> None:
        """Do what a message says. Raise ValueError if it fits nothing."""
        assert self._session is not None and self._turn is not None
        match message:
            case PromptMessage():
                self._prompts.append(message)
                self._has_news.set()
            case SteerMessage(text=text):
                if not (self._turn.is_running or self._prompts):
                    raise ValueError("no turn is running; send it as a prompt")
                self._session.add_attachments(self._session.steering.add(text), ())
            case InterruptMessage():
                if not (self._turn.interrupt() or self._call_off()):
                    raise ValueError("no turn is running")
            case AnswerMessage():
                self._answer(message)

    def _call_off(self) -> bool:
        """Call off the next prompt, if none is run now. Return False if there is none."""
        if self._is_at_work or self._called_off >= len(self._prompts):
            return False
        self._called_off += 1
        return True

    def _answer(self, message: AnswerMessage) -> None:
        answer = self._answers.get(message.id)
        if answer is None or answer.done():
            raise ValueError(f"no question {message.id} is open")
        answer.set_result(_build_verdict(message))


def _build_unanswered() -> Verdict:
    reason = "the input ended before an answer came"
    return Verdict(decision="deny", by="nobody", reason=reason)


def _build_verdict(message: AnswerMessage) -> Verdict:
    if message.decision == "deny":
        reason = message.reason or "the program denied it"
        lasts = message.lasts if message.lasts != "once" else None
        return Verdict(decision="deny", by="user", reason=reason, lasts=lasts)
    reason = "the program approved it"
    if message.input is not None:
        return Verdict(decision="modify", by="user", reason=reason, input=message.input)
    return Verdict(decision="allow", by="user", reason=reason, lasts=message.lasts)


def _build_question(name: str, question: Question) -> JsonRow:
    call, suggestion = question.call, question.suggestion
    return {
        "type": "question",
        "id": name,
        "call": call.id,
        "tool": call.name,
        "input": call.input,
        "effect": question.effect,
        "reason": question.verdict.reason,
        "wanted_for": question.wanted_for,
        "child": question.child.role if question.child else None,
        "session_covers": suggestion.session,
        "rules": list(suggestion.describe_rules()),
        "display": build_display(question.preview) if question.preview else None,
    }
