"""A recording that answers: the model's replies, the verdicts and, if wanted, the results.

The provider returns each turn's replies in order, whatever the request is. If the recorded turn was
interrupted, this one is, too. Verdicts and results are looked up among the calls of the latest
reply only, because ids may repeat.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from agentcli.agent.completion import DONE, CompletionChecks
from agentcli.agent.journal import Journal
from agentcli.features.replay.recording import (
    PathRelocation,
    RecordedCall,
    RecordedReply,
    RecordedTurn,
    is_overflow,
)
from agentcli.types.checks import Verified
from agentcli.types.deltas import TextDelta
from agentcli.types.errors import Ending, ProviderError, ProviderErrorKind, ToolError
from agentcli.types.events import (
    CallFinished,
    Checkpointed,
    ContextNote,
    Event,
    ModelFailed,
    TurnEnded,
    Undone,
)
from agentcli.types.grants import NO_GRANTS
from agentcli.types.messages import AssistantMessage, Json, ToolCall
from agentcli.types.provider import OnDelta, Request
from agentcli.types.tools import (
    Details,
    Effect,
    ErrorKind,
    Output,
    PreparedCall,
    Tool,
    ToolContext,
    ToolSpec,
)
from agentcli.types.verdicts import Preview, Verdict

Repeat: TypeAlias = Callable[[Undone | Checkpointed], None]


class Playback:
    """The recording during its replay: a provider, and the calls of its latest reply."""

    def __init__(self, relocate: PathRelocation) -> None:
        self._relocate = relocate
        self._replies: list[RecordedReply] = []
        self._ended: TurnEnded | None = None
        self._latest: RecordedReply | None = None
        self._finished: set[str] = set()
        self._news = asyncio.Event()
        self._repeat: Repeat = lambda fact: None

    def __call__(self, event: Event) -> None:
        """Note the calls that finish in this run."""
        if isinstance(event, CallFinished):
            self._finished.add(event.result.call_id)
            self._news.set()

    def begin(self, turn: RecordedTurn, *, repeat: Repeat) -> None:
        """Begin a turn. `repeat` repeats what was done to the files other than by its calls."""
        self._replies = list(turn.replies)
        self._ended = turn.ended
        self._repeat = repeat
        for fact in turn.undone:
            repeat(fact)

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return the context notes that the recorded model got before the next reply."""
        return self._relocate.relocate_notes(self._replies[0].notes) if self._replies else ()

    async def collect_unfinished(self) -> Sequence[ContextNote]:
        """Return the notes that sent the recorded model back to work when it seemed done."""
        if not self._replies:
            return ()
        notes, self._replies[0].notes = self._replies[0].notes, []
        return self._relocate.relocate_notes(notes)

    async def send(self, request: Request, show: OnDelta) -> AssistantMessage:
        if not self._replies:
            raise self._build_stop()
        self._latest = self._take_next()
        self._finished.clear()
        for merged in self._latest.merged:
            self._repeat(merged)
        match self._latest.outcome:
            case ModelFailed() as failed:
                raise _build_failure(failed)
            case AssistantMessage() as reply if reply.stop == "cancelled":
                show(TextDelta(text=reply.text))
                raise asyncio.CancelledError
            case AssistantMessage() as reply:
                return self._relocate_reply(reply)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _take_next(self) -> RecordedReply:
        """Return the next reply. Skip an overflow that led to compaction: here none is needed."""
        while len(self._replies) > 1 and is_overflow(self._replies[0].outcome):
            self._replies.pop(0)
        return self._replies.pop(0)

    def find_call(self, call_id: str) -> RecordedCall | None:
        """Return the recorded call of the latest reply; if an id occurs twice, the first."""
        calls = self._latest.calls if self._latest else []
        return next((one for one in calls if one.call.id == call_id), None)

    def effect(self, name: str, given: Json) -> Effect:
        """Return the effect of the latest reply's call with this input.

        A call that never ran does not count as a read.
        """
        for one in self._latest.calls if self._latest else []:
            if one.call.name == name and self._relocate.relocate_json(one.call.input) == given:
                return one.judged.effect if one.judged else Effect.EXECUTE
        return Effect.EXECUTE

    def find_ending(self, *endings: Ending) -> TurnEnded | None:
        """Return how the recorded turn ended, if no reply is left and it ended in one of these."""
        if self._replies or self._ended is None or self._ended.ending not in endings:
            return None
        return self._ended

    async def wait_for_interruption(self) -> None:
        """Wait until the parallel calls that finished in the recording have finished here, too."""
        calls = self._latest.calls if self._latest else []
        awaited = {one.call.id for one in calls if one.finished and not one.was_interrupted}
        while not awaited <= self._finished:
            self._news.clear()
            await self._news.wait()

    def _relocate_reply(self, reply: AssistantMessage) -> AssistantMessage:
        """Return the reply with the paths in its calls' input rewritten."""
        content = tuple(
            replace(block, input=self._relocate.relocate_json(block.input))
            if isinstance(block, ToolCall)
            else block
            for block in reply.content
        )
        return replace(reply, content=content)

    def _build_stop(self) -> BaseException:
        if self._ended is None or self._ended.ending is not Ending.DONE:
            return asyncio.CancelledError()  # interrupted, or at a limit that is not known here
        return ProviderError("the recording has no further reply", kind=ProviderErrorKind.MODEL)


def _build_failure(failed: ModelFailed) -> ProviderError:
    kinds = (kind for kind in ProviderErrorKind if kind == failed.kind)
    kind = next(kinds, ProviderErrorKind.UNAVAILABLE)
    return ProviderError(failed.message, kind=kind, hint=failed.hint)


_UNMET = (Ending.SCHEMA_UNMET, Ending.VERIFY_FAILED, Ending.PROVIDER_FAILED)
"""The endings of a turn whose last reply did not meet a requirement."""


class RecordedCompletion(CompletionChecks):
    """Checks of a run that end a turn where they ended the recorded one. None is run again."""

    def __init__(self, journal: Journal, playback: Playback, *, has_form: bool) -> None:
        super().__init__(journal, run_check=_refuse_check)
        self._playback = playback
        self._has_form = has_form

    @property
    def has_form(self) -> bool:
        return self._has_form

    def collect_evidence(self) -> Sequence[ContextNote]:
        """Return nothing: the notes that the recorded model got come with the recording."""
        return ()

    async def check_reply(self) -> TurnEnded | None:
        # A host that was denied is not asked about again, and a process is not killed again.
        return self._playback.find_ending(*_UNMET, Ending.DENIED, Ending.CANCELLED) or DONE

    async def check_after_calls(self) -> TurnEnded | None:
        """Return the ending if the calls were the last: the answer, or one that was denied."""
        by_answer = (Ending.DONE, Ending.SCHEMA_UNMET) if self._has_form else ()
        return self._playback.find_ending(Ending.VERIFY_FAILED, Ending.DENIED, *by_answer)

    def convert_limit_ending(self, ended: TurnEnded) -> TurnEnded:
        return self._playback.find_ending(Ending.VERIFY_FAILED) or ended


async def _refuse_check(command: str) -> Verified:
    raise AssertionError(f"a replay runs no check: {command}")


class RecordedJudge:
    """A judge that repeats the recorded verdicts, but grants no more than the workspace."""

    def __init__(self, playback: Playback, relocate: PathRelocation) -> None:
        self._playback = playback
        self._relocate = relocate

    async def __call__(self, call: PreparedCall, /, *, preview: Preview) -> Verdict:
        played = self._playback.find_call(call.call.id)
        if played is not None and played.judged is None and played.finished is not None:
            # It never got a verdict: what was wrong with it is wrong again.
            kind = played.finished.error or ErrorKind.FAILED
            raise ToolError(played.finished.text, kind=kind)
        if played is None or played.judged is None:
            return Verdict(decision="deny", by="nobody", reason="the recording has no verdict")
        verdict = played.judged.verdict
        given = self._relocate.relocate_json(verdict.input)
        return replace(verdict, input=given, grants=NO_GRANTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReplayInput:
    given: Json
    parsed: Any


class RecordedTool:
    """A tool that runs the real one if that exists and can run, else answers from the recording."""

    def __init__(self, spec: ToolSpec, playback: Playback, *, real: Tool | None = None) -> None:
        self._spec = spec
        self._playback = playback
        self._real = real

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def parse(self, raw: Json) -> _ReplayInput:
        return _ReplayInput(given=raw, parsed=self._real.parse(raw) if self._real else raw)

    def effect(self, args: _ReplayInput) -> Effect:
        """Return the recorded effect, so that the same calls run in parallel."""
        return self._playback.effect(self._spec.name, args.given)

    async def preview(self, args: _ReplayInput, context: ToolContext) -> Details | None:
        return None

    async def run(self, args: _ReplayInput, context: ToolContext) -> Output:
        played = self._playback.find_call(context.call_id)
        if played is not None and played.was_interrupted:
            await self._playback.wait_for_interruption()
            raise asyncio.CancelledError
        if self._real is not None and not (played and played.why_not_again):
            return await self._real.run(args.parsed, context)
        if played is None or played.finished is None:
            return Output.of("The recording has no result.", error=ErrorKind.FAILED)
        result = played.finished
        return Output(
            content=result.content,
            details=result.details,
            error=result.error,
            truncated=result.truncated,
        )
