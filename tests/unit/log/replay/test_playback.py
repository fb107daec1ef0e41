import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.features.replay.playback import Playback, RecordedJudge, RecordedTool
from agentcli.features.replay.recording import (
    PathRelocation,
    RecordedPaths,
    RecordedTurn,
    split_turns,
)
from agentcli.types.deltas import Delta
from agentcli.types.errors import Ending, ProviderError, ToolError
from agentcli.types.events import (
    ContextNote,
    Entry,
    Fact,
    HookRan,
    HostJudged,
    ModelFailed,
    TurnEnded,
)
from agentcli.types.grants import Grants
from agentcli.types.messages import ToolCall
from agentcli.types.provider import Request
from agentcli.types.tools import ErrorKind, Output, PreparedCall, ToolContext, ToolSpec
from agentcli.types.verdicts import Verdict
from tests.support.record import (
    ALLOWED,
    DONE,
    SESSION,
    STARTED,
    A,
    B,
    asked,
    finished,
    judged,
    replied,
)
from tests.support.session import FunctionTool

NOWHERE = PathRelocation(RecordedPaths(workspaces=(), sessions=()), workspace="/w", directory="/s")
REQUEST = Request(model="m", system="", messages=())
CANCELLED = TurnEnded(ending=Ending.CANCELLED)


def turns(*facts: Fact) -> list[RecordedTurn]:
    return split_turns(
        Entry(seq=seq, at="", session="s", parent=None, fact=fact)
        for seq, fact in enumerate((STARTED, *facts), start=1)
    )


def playing(turn: RecordedTurn) -> Playback:
    playback = Playback(NOWHERE)
    playback.begin(turn, repeat=lambda fact: None)
    return playback


def asked_again(playback: Playback, times: int = 1) -> Sequence[object]:
    async def ask() -> list[object]:
        shown: list[Delta] = []
        return [await playback.send(REQUEST, shown.append) for _ in range(times)]

    return asyncio.run(ask())


def test_recording_is_taken_apart_into_turns_replies_and_calls() -> None:
    first, second = turns(*SESSION[1:])
    assert [len(turn.replies) for turn in (first, second)] == [2, 2]
    (call, denied) = first.replies[0].calls
    assert call.finished is not None
    assert denied.judged is not None
    assert (call.finished.status, denied.judged.verdict.decision) == ("ok", "deny")
    assert not first.was_cut


def test_turn_that_ended_at_a_limit_was_cut() -> None:
    limit = TurnEnded(ending=Ending.STEP_LIMIT)
    assert [turn.was_cut for turn in turns(asked("x"), limit, asked("y"))] == [True, True]


def test_words_are_told_again_where_they_were_told() -> None:
    before, between = ContextNote(text="1", why="instructions"), ContextNote(text="2", why="user")
    own = ContextNote(text="3", why="length")
    (turn,) = turns(before, asked("x"), replied(A), finished(A), between, own, replied(), DONE)
    assert (turn.notes, turn.replies[1].notes) == ([before], [between])


def test_failed_request_fails_again() -> None:
    (turn,) = turns(asked("x"), ModelFailed(kind="rate_limited", message="slow down"), DONE)
    with pytest.raises(ProviderError, match="slow down"):
        asked_again(playing(turn))


def test_conversation_that_was_shortened_goes_on_where_it_went_on() -> None:
    overflow = ModelFailed(kind="overflow", message="too long")
    (turn,) = turns(asked("x"), overflow, replied(text="on"), DONE)
    (reply,) = asked_again(playing(turn))
    assert reply == replied(text="on").message


def test_interrupted_reply_interrupts_again() -> None:
    said = replied(text="half a")
    partial = replace(said, message=replace(said.message, stop="cancelled"))
    (turn,) = turns(asked("x"), partial, CANCELLED)
    with pytest.raises(asyncio.CancelledError):
        asked_again(playing(turn))


@pytest.mark.parametrize(
    ("ended", "error"), [(CANCELLED, asyncio.CancelledError), (DONE, ProviderError)]
)
def test_end_of_the_recording_is_as_the_turn_ended(
    ended: TurnEnded, error: type[BaseException]
) -> None:
    (turn,) = turns(asked("x"), replied(), ended)
    with pytest.raises(error):
        asked_again(playing(turn), times=2)


def ran(playback: Playback, tool: RecordedTool, call: ToolCall) -> Output:
    context = ToolContext(call_id=call.id, workspace=Path(), progress=lambda text: None)
    return asyncio.run(tool.run(tool.parse(call.input), context))


def test_call_is_run_where_it_can_be_and_answered_where_not() -> None:
    letting_out = replace(ALLOWED, grants=Grants(network=True))
    (turn,) = turns(
        asked("x"),
        replied(A, B),
        judged(A),
        finished(A, text="then"),
        judged(B, letting_out),
        finished(B, text="from afar"),
        DONE,
    )
    playback = playing(turn)
    asked_again(playback)
    real = FunctionTool("bash", lambda args, context: "now")
    tool = RecordedTool(ToolSpec(name="bash", description="", schema={}), playback, real=real)
    texts = [output.content[0] for output in (ran(playback, tool, A), ran(playback, tool, B))]
    assert [getattr(text, "text", "") for text in texts] == ["now", "from afar"]


def test_call_is_run_again_unless_it_reached_a_host_or_had_more_than_the_workspace() -> None:
    given = replace(ALLOWED, grants=Grants(hosts=("docs.example.org",)))
    wide = replace(ALLOWED, grants=Grants(writable=(Path("/srv"),)))
    reached = HostJudged(call_id="a", host="docs.example.org", port=443, verdict=ALLOWED)
    refused = replace(reached, verdict=replace(ALLOWED, decision="deny"))
    for facts, why in (
        ((judged(A, given),), ""),
        ((judged(A, given), refused), ""),
        ((judged(A, given), reached), "it reached docs.example.org:443"),
        ((judged(A, wide),), "it had more than the workspace: can also write /srv"),
    ):
        (turn,) = turns(asked("x"), replied(A), *facts, finished(A), DONE)
        assert turn.replies[0].calls[0].why_not_again == why


def test_result_that_a_hook_changed_is_not_run_again() -> None:
    hook = HookRan(hook="h", call_id="a", decision="transformed")
    (turn,) = turns(asked("x"), replied(A), judged(A), hook, finished(A), DONE)
    assert turn.replies[0].calls[0].why_not_again == "a hook changed its result"


def test_call_that_never_came_to_a_verdict_fails_as_it_did() -> None:
    wrong = finished(A, error=ErrorKind.INVALID_INPUT, text="path is missing")
    (turn,) = turns(asked("x"), replied(A), wrong, DONE)
    playback = playing(turn)
    asked_again(playback)

    with pytest.raises(ToolError, match="path is missing") as raised:
        judge_again(playback)
    assert raised.value.kind is ErrorKind.INVALID_INPUT


def test_recorded_verdict_lets_nothing_out_of_the_workspace() -> None:
    letting_out = replace(ALLOWED, grants=Grants(network=True, writable=(Path("/"),)))
    (turn,) = turns(asked("x"), replied(A), judged(A, letting_out), finished(A), DONE)
    playback = playing(turn)
    asked_again(playback)
    assert judge_again(playback).grants == Grants()


def judge_again(playback: Playback) -> Verdict:
    tool = RecordedTool(ToolSpec(name="bash", description="", schema={}), playback)
    args = tool.parse(A.input)
    prepared = PreparedCall(call=A, tool=tool, args=args, effect=tool.effect(args))

    async def judge() -> Verdict:
        return await RecordedJudge(playback, NOWHERE)(prepared, preview=nothing)

    return asyncio.run(judge())


async def nothing() -> None:
    return None
