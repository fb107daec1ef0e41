import asyncio
from dataclasses import replace

import pytest

from agentcli.agent.limits import TurnLimits
from agentcli.agent.loop import CUT_OFF, CUT_OFF_CALL, EMPTY_REPLY, OnDeny
from agentcli.types.deltas import TextDelta
from agentcli.types.errors import (
    EXIT_OF_ENDING,
    Ending,
    Exit,
    ProviderError,
    ProviderErrorKind,
    ToolError,
)
from agentcli.types.events import CallFinished, ContextNote, ModelFailed, ModelReplied, TurnEnded
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import OnDelta, Request
from agentcli.types.tools import (
    Effect,
    ErrorKind,
    PreparedCall,
    ToolContext,
    ToolMessage,
    ToolResult,
)
from agentcli.types.verdicts import Preview, Verdict
from tests.support.session import Bench, FunctionTool, Reply, bench, call, reply


def echo(name: str = "echo", kind: Effect = Effect.READ) -> FunctionTool:
    return FunctionTool(name, lambda args, context: f"got {args}", kind=kind)


def results(done: Bench) -> list[ToolResult]:
    return [entry.fact.result for entry in done.entries if isinstance(entry.fact, CallFinished)]


def test_reply_without_calls_ends_the_turn() -> None:
    done = bench([reply("hello")])
    assert done.turn() == TurnEnded(ending=Ending.DONE)
    assert len(done.wire.requests) == 1


def test_results_stand_in_the_order_of_the_calls() -> None:
    async def act(args: dict[str, float], context: object) -> str:
        for _ in range(int(args["rounds"])):
            await asyncio.sleep(0)
        return f"after {args['rounds']}"

    calls = [call("wait", f"c{rounds}", rounds=rounds) for rounds in (30, 1, 15)]
    done = bench([reply(*calls), reply("ok")], [FunctionTool("wait", act)])
    done.turn()
    message = done.wire.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert [answer.call_id for answer in message.results] == ["c30", "c1", "c15"]


@pytest.mark.parametrize(
    ("parallel", "kind", "most_at_once"),
    [(True, Effect.READ, 3), (False, Effect.READ, 1), (True, Effect.WRITE, 1)],
)
def test_only_reads_run_together(parallel: bool, kind: Effect, most_at_once: int) -> None:
    running: list[int] = [0]
    peaks: list[int] = []

    async def act(args: object, context: object) -> str:
        running[0] += 1
        for _ in range(5):
            await asyncio.sleep(0)
        peaks.append(running[0])
        running[0] -= 1
        return "x"

    calls = [call("do", f"c{n}", n=n) for n in range(3)]
    done = bench([reply(*calls), reply("ok")], [FunctionTool("do", act, kind)], parallel=parallel)
    done.turn()
    assert max(peaks) == most_at_once


def test_step_limit_is_an_ending_and_nothing_more_is_sent() -> None:
    replies = [reply(call("echo", f"c{n}", n=n)) for n in range(10)]
    done = bench(replies, [echo()], limits=TurnLimits(steps=3))
    assert done.turn() == TurnEnded(
        ending=Ending.STEP_LIMIT,
        message="the limit of 3 requests is reached",
        hint="raise --max-turns",
    )
    assert len(done.wire.requests) == 3


def test_time_limit_ends_a_turn_in_the_middle_of_a_call() -> None:
    async def hang(args: object, context: object) -> str:
        await asyncio.Event().wait()
        return "never"

    done = bench(
        [reply(call("hang"))], [FunctionTool("hang", hang)], limits=TurnLimits(wall_s=0.05)
    )
    ended = done.turn()
    assert (ended.ending, EXIT_OF_ENDING[ended.ending]) == (Ending.TIME_LIMIT, Exit.TIMEOUT)
    assert results(done)[0].error is ErrorKind.CANCELLED


def test_repeated_call_is_told_the_third_time_and_ends_the_turn_the_fifth() -> None:
    replies = [reply(call("echo", f"c{n}", same=1)) for n in range(9)]
    done = bench(replies, [echo()])
    assert done.turn() == TurnEnded(
        ending=Ending.REPEATED,
        message="echo was called 5 times with the same input and result",
        hint="agentcli triage",
    )
    told = ["This is the" in answer.text for answer in results(done)]
    assert told == [False, False, True, True, True]


def test_two_calls_in_turn_are_a_circle_too() -> None:
    replies = [reply(call("echo", f"c{n}", which=n % 2)) for n in range(20)]
    done = bench(replies, [echo()])
    assert done.turn().ending is Ending.REPEATED


def fail(args: object, context: ToolContext) -> str:
    raise ToolError("no such text")


def test_tool_that_only_fails_is_told_and_ends_the_turn_however_its_calls_differ() -> None:
    replies = []
    for n in range(40):
        replies += [reply(call("edit", f"e{n}", old=n)), reply(call("echo", f"r{n}", line=n))]
    done = bench(replies, [FunctionTool(name="edit", act=fail), echo()])
    ended = done.turn()
    assert (ended.ending, ended.message) == (Ending.REPEATED, "25 calls of edit in a row failed")
    told = ["call number" in answer.text for answer in results(done) if answer.name == "edit"]
    assert told == [False] * 9 + [True] * 16


def test_progress_in_between_clears_the_count() -> None:
    replies = []
    for n in range(6):
        replies += [reply(call("echo", f"e{n}", edit=n)), reply(call("echo", f"t{n}", test=1))]
    done = bench([*replies, reply("done")], [echo()])
    assert done.turn().ending is Ending.DONE


def test_same_call_twice_in_one_reply_counts_once() -> None:
    replies = [reply(call("echo", "a", n=1), call("echo", "b", n=1)) for _ in range(2)]
    done = bench([*replies, reply("done")], [echo()])
    assert done.turn().ending is Ending.DONE
    assert all("This is the" not in answer.text for answer in results(done))


def test_rate_limit_refuses_a_tool_that_is_called_too_often() -> None:
    replies = [reply(call("echo", f"c{n}", n=n)) for n in range(4)]
    done = bench([*replies, reply("ok")], [echo()], calls_per_minute=3)
    assert done.turn().ending is Ending.DONE
    assert [answer.error for answer in results(done)] == [None, None, None, ErrorKind.LIMITED]


def test_cut_off_text_is_continued() -> None:
    done = bench([reply("The first half", stop="length"), reply("and the second")])
    assert done.turn().ending is Ending.DONE
    assert done.wire.requests[1].messages[-1] == UserMessage(content=(Text(text=CUT_OFF),))


def test_calls_of_a_cut_off_reply_are_answered_and_never_run() -> None:
    tool = echo()
    done = bench([reply(call("echo", "c1"), stop="length"), reply("ok")], [tool])
    assert done.turn().ending is Ending.DONE
    assert tool.ran == []
    assert [(answer.error, answer.text) for answer in results(done)] == [
        (ErrorKind.NOT_RUN, CUT_OFF_CALL)
    ]


def cut_off(*blocks: ToolCall | str) -> Reply:
    said = reply(*blocks, stop="length")
    assert isinstance(said, AssistantMessage)
    return replace(said, cut_off=("write_file",))


def test_call_that_was_cut_off_is_told_by_its_name() -> None:
    run = bench([cut_off("I write."), reply("ok")])
    assert run.turn().ending is Ending.DONE
    *_, said, told = run.wire.requests[1].messages
    assert isinstance(said, AssistantMessage) and said.text == "I write."
    assert told == UserMessage(
        content=(
            Text(
                text="Your reply was cut off at the output limit, in the middle of a call of "
                "write_file. That call was not run. Make it again with less in it, such as a part "
                "of the text at a time."
            ),
        )
    )


def test_call_that_was_cut_off_after_whole_ones_is_told_beside_their_results() -> None:
    tool = FunctionTool("look", lambda args, context: "seen")
    run = bench([cut_off(call("look")), reply("ok")], [tool])
    assert run.turn().ending is Ending.DONE
    *_, results, told = run.wire.requests[1].messages
    assert tool.ran == []
    assert isinstance(results, ToolMessage) and results.results[0].error is ErrorKind.NOT_RUN
    assert isinstance(told, UserMessage) and "write_file" in str(told)


@pytest.mark.parametrize("nothing", [(), (" \n",), (Thinking(text="Hm."),)])
def test_reply_of_nothing_is_asked_for_again_once(nothing: tuple[Block | str, ...]) -> None:
    run = bench([reply(*nothing), reply("ok")])
    assert run.turn() == TurnEnded(ending=Ending.DONE)
    assert run.wire.requests[1].messages[-1] == UserMessage(content=(Text(text=EMPTY_REPLY),))


def test_second_reply_of_nothing_is_no_success() -> None:
    tool = FunctionTool("look", lambda args, context: "seen")
    run = bench([reply(), reply(call("look")), reply(), reply()], [tool])
    ended = run.turn()
    assert (ended.ending, ended.message) == (
        Ending.PROVIDER_FAILED,
        "the model sent two empty replies in a row",
    )


def test_endless_cut_offs_end_the_turn() -> None:
    done = bench([reply("more", stop="length") for _ in range(9)])
    assert done.turn().ending is Ending.LENGTH
    assert len(done.wire.requests) == 4


def test_paused_reply_is_sent_again_as_it_is() -> None:
    done = bench([reply("searching", stop="paused"), reply("found")])
    assert done.turn().ending is Ending.DONE
    assert done.wire.requests[1].messages[-1] == reply("searching", stop="paused")


def test_refusal_has_its_own_ending() -> None:
    done = bench([reply("no", stop="refusal")])
    assert done.turn() == TurnEnded(ending=Ending.REFUSED, message="the model refused")


@pytest.mark.parametrize(
    ("kind", "ending", "code"),
    [
        (ProviderErrorKind.CREDENTIALS, Ending.MISCONFIGURED, Exit.SETTINGS),
        (ProviderErrorKind.UNAVAILABLE, Ending.PROVIDER_FAILED, Exit.PROVIDER),
        (ProviderErrorKind.OVERFLOW, Ending.OVERFLOW, Exit.LIMIT),
        (ProviderErrorKind.REFUSED, Ending.REFUSED, Exit.REFUSED),
    ],
)
def test_failed_request_is_recorded_and_decides_the_ending(
    kind: ProviderErrorKind, ending: Ending, code: Exit
) -> None:
    done = bench([ProviderError("it failed", kind=kind, hint="do this")])
    assert done.turn() == TurnEnded(ending=ending, message="it failed", hint="do this")
    assert EXIT_OF_ENDING[ending] is code
    assert ModelFailed(kind=kind, message="it failed", hint="do this") in done.journal.facts


def test_denial_with_nobody_to_ask_is_not_success() -> None:
    async def nobody(asked: PreparedCall, /, *, preview: Preview) -> Verdict:
        return Verdict(decision="deny", by="nobody", reason="needs approval")

    done = bench([reply(call("echo", path="a")), reply("gave up")], [echo()], judge=nobody)
    ended = done.turn()
    assert (ended.ending, EXIT_OF_ENDING[ended.ending]) == (Ending.DENIED, Exit.DENIED)


def denied_then_done(on_deny: OnDeny) -> Bench:
    async def nobody(asked: PreparedCall, /, *, preview: Preview) -> Verdict:
        remedy = f"--allow {asked.call.name}"
        return Verdict(decision="deny", by="nobody", reason="nobody", remedy=remedy)

    calls = (call("echo", "c1", path="a"), call("other", "c2", path="b"))
    replies = [reply(*calls), reply("done")]
    return bench(replies, [echo(), echo("other")], judge=nobody, on_deny=on_deny)


@pytest.mark.parametrize(
    ("on_deny", "ending", "requests"),
    [("fail", Ending.DENIED, 1), ("continue", Ending.DENIED, 2), ("ignore", Ending.DONE, 2)],
)
def test_denial_ends_the_turn_at_once_at_its_end_or_not_at_all(
    on_deny: OnDeny, ending: Ending, requests: int
) -> None:
    done = denied_then_done(on_deny)
    assert (done.turn().ending, len(done.wire.requests)) == (ending, requests)


def test_denial_names_every_option_that_would_have_permitted_it() -> None:
    assert denied_then_done("fail").turn().hint == "--allow echo --allow other"


def test_wrap_up_is_one_request_without_tools_after_a_limit() -> None:
    replies = [reply(call("echo", "c1", n=1)), reply("so far"), reply("never")]
    done = bench(replies, [echo()], limits=TurnLimits(steps=1), wraps_up=True)
    assert done.turn().ending is Ending.STEP_LIMIT
    assert [request.tool_choice for request in done.wire.requests] == ["auto", "none"]


def test_denial_does_not_count_when_the_target_was_reached_another_way() -> None:
    async def only_edits(asked: PreparedCall, /, *, preview: Preview) -> Verdict:
        if asked.call.name == "edit":
            return Verdict(decision="allow", by="rule", reason="edits are fine")
        return Verdict(decision="deny", by="nobody", reason="needs approval")

    done = bench(
        [reply(call("write", path="a")), reply(call("edit", "c2", path="a")), reply("done")],
        [echo("write"), echo("edit")],
        judge=only_edits,
    )
    assert done.turn().ending is Ending.DONE


def test_what_was_shown_before_an_interrupt_stays_in_the_history() -> None:
    class HalfWire:
        def __init__(self) -> None:
            self.shown = asyncio.Event()

        async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
            on_delta(TextDelta(text="half an ans"))
            self.shown.set()
            await asyncio.Event().wait()
            raise AssertionError("never")

        async def close(self) -> None:
            raise AssertionError("never")

    async def scenario() -> Bench:
        wire = HalfWire()
        done = bench([], provider=wire)
        task = asyncio.create_task(done.loop.run_turn(UserMessage(content=(Text(text="go"),))))
        await wire.shown.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done

    done = asyncio.run(scenario())
    replied = [fact for fact in done.journal.facts if isinstance(fact, ModelReplied)]
    assert [(fact.message.text, fact.message.stop) for fact in replied] == [
        ("half an ans", "cancelled")
    ]


def test_malformed_reply_is_told_to_the_model() -> None:
    done = bench([reply(stop="error"), reply("ok")])
    assert done.turn().ending is Ending.DONE
    assert [fact.why for fact in done.journal.facts if isinstance(fact, ContextNote)] == ["error"]
