import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentcli.agent.completion import (
    EVIDENCE,
    ROUNDS_MAX,
    AnswerForm,
    CompletionChecks,
    Goal,
    RunCheck,
)
from agentcli.agent.journal import Journal
from agentcli.agent.limits import TurnLimits
from agentcli.agent.loop import find_final_denial
from agentcli.tools.answer import AnswerTool
from agentcli.types.checks import AnswerChecked, Verified
from agentcli.types.errors import Ending, ProviderError, ProviderErrorKind
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Fact,
    HostJudged,
    TurnEnded,
)
from agentcli.types.messages import Json, Text, ToolCall
from agentcli.types.tools import Command, Diff, Effect, Output, ToolContext, ToolResult
from agentcli.types.verdicts import Verdict
from tests.support.session import Bench, FunctionTool, Reply, bench, call, reply


def passes_at(attempt: int) -> RunCheck:
    tries = [0]

    async def run(command: str) -> Verified:
        tries[0] += 1
        code = 0 if tries[0] >= attempt else 1
        return Verified(command=command, exit_code=code, output=f"try {tries[0]}")

    return run


async def is_wanted(value: Json) -> str:
    return "" if value == {"n": 1} else "it is not what is wanted"


def facts(done: Bench, kind: type) -> list[Fact]:
    return [entry.fact for entry in done.entries if isinstance(entry.fact, kind)]


def finish(
    *,
    checks: Sequence[str] = (),
    run_check: RunCheck | None = None,
) -> Callable[[Journal], CompletionChecks]:
    def of(journal: Journal) -> CompletionChecks:
        return CompletionChecks(
            journal,
            checks=checks,
            run_check=run_check or passes_at(1),
        )

    return of


def test_passed_check_ends_the_turn() -> None:
    done = bench([reply("done")], finish=finish(checks=["make test"]))
    assert done.turn() == TurnEnded(ending=Ending.DONE)
    assert facts(done, Verified) == [
        Verified(command="make test", exit_code=0, output="try 1", attempt=1)
    ]


def test_failed_check_goes_back_to_the_model_until_it_passes() -> None:
    replies = [reply("done"), reply("now?"), reply("now!")]
    done = bench(replies, finish=finish(checks=["make test"], run_check=passes_at(3)))
    assert done.turn().ending is Ending.DONE
    told = [fact.text for fact in facts(done, ContextNote) if isinstance(fact, ContextNote)]
    assert len(told) == 2
    assert "$ make test\ntry 1" in told[0]


def test_check_that_never_passes_is_given_up() -> None:
    replies = [reply("done") for _ in range(ROUNDS_MAX + 1)]
    done = bench(replies, finish=finish(checks=["make test"], run_check=passes_at(99)))
    ended = done.turn()
    assert ended.ending is Ending.VERIFY_FAILED
    assert "--verify 'make test' failed (exit code 1)" in ended.message
    assert len(done.wire.requests) == ROUNDS_MAX


def test_limit_that_is_reached_while_a_check_fails_is_a_failed_check() -> None:
    done = bench(
        [reply("done"), reply("never")],
        limits=TurnLimits(steps=1),
        finish=finish(checks=["make test"], run_check=passes_at(99)),
    )
    assert done.turn().ending is Ending.VERIFY_FAILED


def with_form(replies: Sequence[Reply], *, by_call: bool, attempt: int = 1) -> Bench:
    made: list[AnswerForm] = []

    def of(journal: Journal) -> CompletionChecks:
        form = AnswerForm({}, find_problem=is_wanted, by_call=by_call, emit=journal.append)
        made.append(form)
        return CompletionChecks(
            journal,
            checks=["check"] if attempt > 1 else [],
            run_check=passes_at(attempt),
            form=form,
        )

    answer = AnswerTool("answer", {}, take=lambda value: made[0].check_value(value))
    other = FunctionTool("other", lambda args, context: "ok")
    return bench(replies, [answer, other], finish=of)


def test_text_of_the_wanted_form_is_the_answer() -> None:
    done = with_form([reply('{"n": 1}')], by_call=False)
    assert done.turn().ending is Ending.DONE
    assert facts(done, AnswerChecked) == [AnswerChecked(value={"n": 1})]


def test_fence_around_the_answer_is_forgiven() -> None:
    assert with_form([reply('```json\n{"n": 1}\n```')], by_call=True).turn().ending is Ending.DONE


@pytest.mark.parametrize("wrong", ["no JSON", '{"n": 2}', "", "[" * 100_000])
def test_answer_of_another_form_is_asked_for_once_more(wrong: str) -> None:
    repaired = with_form([reply(wrong), reply('{"n": 1}')], by_call=False)
    assert repaired.turn().ending is Ending.DONE
    given_up = with_form([reply(wrong), reply(wrong), reply("never")], by_call=False)
    assert given_up.turn().ending is Ending.SCHEMA_UNMET
    assert len(given_up.wire.requests) == 2


def test_answer_by_call_ends_the_turn_without_another_request() -> None:
    done = with_form([reply(call("other")), reply(call("answer", n=1))], by_call=True)
    assert done.turn().ending is Ending.DONE
    assert len(done.wire.requests) == 2


def test_wrong_answer_by_call_is_repaired_once() -> None:
    wrong, right = reply(call("answer", "c1", n=2)), reply(call("answer", "c2", n=1))
    assert with_form([wrong, right], by_call=True).turn().ending is Ending.DONE
    again = reply(call("answer", "c2", n=3))
    assert with_form([wrong, again], by_call=True).turn().ending is Ending.SCHEMA_UNMET


def test_answer_is_asked_for_again_after_a_failed_check() -> None:
    first, second = reply(call("answer", "c1", n=1)), reply(call("answer", "c2", n=1))
    done = with_form([first, second], by_call=True, attempt=2)
    assert done.turn().ending is Ending.DONE
    assert len(facts(done, AnswerChecked)) == 2


def test_form_says_what_is_wrong_in_its_own_words() -> None:
    told: list[object] = []
    form = AnswerForm({}, find_problem=is_wanted, by_call=True, emit=told.append)
    assert asyncio.run(form.check_text(json.dumps({"n": 2}))) == (
        "Your answer does not have the form that was asked for: it is not what is wanted. "
        "Now call answer."
    )
    assert told == [AnswerChecked(problem="it is not what is wanted")]


EDITED = Diff(path="calc.py", unified="", added=1, removed=0)


def work_through(*steps: str, replies: Sequence[Reply], **options: Any) -> Bench:
    """A turn with these calls, each in a reply: an edit, or a command with that exit code."""

    def run(args: Any, context: ToolContext) -> Output:
        return Output(content=(Text(text="ran"),), details=RESULTS[args["step"]])

    calls = [reply(call("act", f"c{at}", step=step)) for at, step in enumerate(steps)]
    return bench([*calls, *replies], [FunctionTool("act", run)], finish=finish(), **options)


def command(exit_code: int | None, **fields: Any) -> Command:
    return Command(command="pytest -q", cwd="/", exit_code=exit_code, **fields)


RESULTS: dict[str, Diff | Command] = {
    "edit": EDITED,
    "pass": command(0),
    "fail": command(1),
    "hang": command(None, timed_out=True),
    "serve": command(None, background_pid=9),
    "piped": command(0, pipe="pytest 2, tail 0"),
    "look": Command(command="cd src && git diff | head -50; ls", cwd="/", exit_code=0),
    "lint": Command(command="ruff check .", cwd="/", exit_code=1),
    "script": Command(command="./demo.sh", cwd="/", exit_code=1),
    "absent": Command(command="grep -rn old src", cwd="/", exit_code=1),
}
NOTHING_RAN = "no command ran after your last edit (calc.py) that could check it."
LAST_FAILED = "what ran last after your last edit (calc.py) failed.\n"
HIDDEN = "exit code 0; in the pipe: pytest 2, tail 0"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("", None),
        ("fail", None),
        ("edit pass", None),
        ("edit fail pass", None),
        ("edit pass serve", None),
        ("edit", NOTHING_RAN),
        ("pass edit", NOTHING_RAN),
        ("edit serve", NOTHING_RAN),
        ("edit fail", f"{LAST_FAILED}$ pytest -q: exit code 1"),
        ("edit pass fail", f"{LAST_FAILED}$ pytest -q: exit code 1"),
        ("edit piped", f"{LAST_FAILED}$ pytest -q: {HIDDEN}"),
        ("edit piped look", f"{LAST_FAILED}$ pytest -q: {HIDDEN}"),
        ("edit fail fail look", f"{LAST_FAILED}$ pytest -q: exit code 1"),
        ("edit lint pass", f"{LAST_FAILED}$ ruff check .: exit code 1"),
        ("edit pass script", f"{LAST_FAILED}$ ./demo.sh: exit code 1"),
        ("edit look", NOTHING_RAN),
        ("edit absent", NOTHING_RAN),
        ("edit script pass", None),
        ("edit pass absent", None),
        ("edit piped pass", None),
        ("edit hang", f"{LAST_FAILED}$ pytest -q: timed out"),
    ],
)
def test_model_hears_once_what_ran_after_its_last_edit(steps: str, expected: str | None) -> None:
    done = work_through(*steps.split(), replies=[reply("It works."), reply("Not checked.")])
    assert done.turn().ending is Ending.DONE
    told = [fact.text for fact in facts(done, ContextNote) if isinstance(fact, ContextNote)]
    assert told == ([EVIDENCE.format(facts=expected)] if expected else [])
    assert done.journal.answer() == ("Not checked." if expected else "It works.")


@pytest.mark.parametrize("steps", [2, 3])
def test_evidence_turns_no_finished_run_into_a_failure(steps: int) -> None:
    # At the step limit it is not sent; if the provider fails after it, the run was done before.
    failure = ProviderError("it failed", kind=ProviderErrorKind.UNAVAILABLE)
    limits = TurnLimits(steps=steps)
    done = work_through("edit", replies=[reply("It works."), failure], limits=limits, wraps_up=True)
    assert done.turn() == TurnEnded(ending=Ending.DONE)
    assert done.journal.answer() == "It works."
    assert len(done.wire.requests) == steps


def test_passed_check_is_evidence_enough() -> None:
    run = FunctionTool("edit", lambda args, context: Output(content=(), details=EDITED))
    replies = [reply(call("edit")), reply("It works.")]
    done = bench(replies, [run], finish=finish(checks=["make test"]))
    assert done.turn().ending is Ending.DONE
    assert facts(done, ContextNote) == []


def choosing(choice: str, replies: Sequence[Reply], *tools: str) -> Bench:
    def of(journal: Journal) -> CompletionChecks:
        return CompletionChecks(journal, run_check=passes_at(1), tool_choice=choice)

    return bench(
        replies, [FunctionTool(name, lambda args, context: "ok") for name in tools], finish=of
    )


def choices(done: Bench) -> list[str]:
    return [request.tool_choice for request in done.wire.requests]


def test_required_call_is_required_until_it_was_made() -> None:
    done = choosing("required", [reply(call("look")), reply("done")], "look")
    assert done.turn().ending is Ending.DONE
    assert choices(done) == ["required", "auto"]


def test_named_tool_is_required_whatever_else_is_called() -> None:
    replies = [reply(call("look", "c1")), reply(call("act", "c2")), reply("done")]
    done = choosing("act", replies, "look", "act")
    assert done.turn().ending is Ending.DONE
    assert choices(done) == ["act", "act", "auto"]


def test_forbidden_calls_stay_forbidden() -> None:
    done = choosing("none", [reply("done")], "look")
    assert done.turn().ending is Ending.DONE
    assert choices(done) == ["none"]


def test_missing_call_is_asked_for_once_and_then_no_success() -> None:
    made = choosing("act", [reply("no"), reply(call("act")), reply("done")], "act")
    assert made.turn().ending is Ending.DONE
    (note,) = facts(made, ContextNote)
    assert isinstance(note, ContextNote)
    assert (note.why, "call act" in note.text) == ("tool_choice", True)
    never = choosing("required", [reply("no"), reply("no"), reply("never")], "act")
    ended = never.turn()
    assert ended.ending is Ending.PROVIDER_FAILED
    assert ended.message == "the model did not call a tool, as --tool-choice requires"


def test_required_call_is_required_in_each_turn() -> None:
    replies = [reply(call("act", "c1")), reply("one"), reply(call("act", "c2")), reply("two")]
    done = choosing("required", replies, "act")
    done.turn()
    done.turn()
    assert choices(done) == ["required", "auto", "required", "auto"]


def test_answer_is_forced_once_a_text_had_the_wrong_form() -> None:
    done = with_form([reply("It is 1."), reply(call("answer", n=1))], by_call=True)
    assert done.turn().ending is Ending.DONE
    assert choices(done) == ["auto", "answer"]


CHANGES = FunctionTool(
    "edit",
    lambda args, context: Output.of("ok", details=Diff(path="a", unified="", added=1, removed=0)),
)


def pursue(
    *commands: str, run_check: RunCheck
) -> tuple[Callable[[Journal], CompletionChecks], list[Goal]]:
    goals: list[Goal] = []

    def of(journal: Journal) -> CompletionChecks:
        goals.append(Goal(journal, commands, hint="/goal off"))
        return CompletionChecks(journal, goal=goals[0], run_check=run_check, shows_evidence=False)

    return of, goals


def test_goal_runs_after_changes_only_once_it_has_passed() -> None:
    finish, _ = pursue("make test", run_check=passes_at(2))
    replies = [
        reply("just talk"),
        *(reply(call("edit")), reply("done"), reply("fixed")),
        reply("just talk"),
        *(reply(call("edit")), reply("done")),
    ]
    done = bench(replies, [CHANGES], finish=finish)
    checks = []
    for _ in range(4):
        assert done.turn().ending is Ending.DONE
        checks.append(
            [fact.exit_code for fact in facts(done, Verified) if isinstance(fact, Verified)]
        )
    assert checks == [[], [1, 0], [1, 0], [1, 0, 0]]


def test_goal_of_the_user_runs_before_any_change_and_can_be_dropped() -> None:
    finish, goals = pursue(run_check=passes_at(2))
    done = bench([reply("hi"), reply("done"), reply("now"), reply("bye")], finish=finish)
    done.turn()
    goals[0].change("make test")
    done.turn()
    goals[0].change()
    done.turn()
    assert len(facts(done, Verified)) == 2
    assert Goal(done.journal, ["another"]).commands == ()


def test_goal_that_never_passes_ends_each_turn_with_clear_words() -> None:
    finish, _ = pursue("make test", run_check=passes_at(99))
    replies = [reply(call("edit")), *(reply("done") for _ in range(2 * ROUNDS_MAX))]
    done = bench(replies, [CHANGES], finish=finish)
    for _ in range(2):
        ended = done.turn()
        assert ended.ending is Ending.VERIFY_FAILED
        assert ended.message == "the goal 'make test' failed (exit code 1), 5 times in a row"
        assert ended.hint == "/goal off"


HOST_DENIED = HostJudged(
    call_id="a",
    host="docs.example.org",
    port=443,
    verdict=Verdict(
        decision="deny", by="nobody", reason="not granted", remedy="--network docs.example.org"
    ),
)


def _end_command(exit_code: int | None) -> tuple[Fact, Fact, Fact]:
    call = ToolCall(id="a", name="bash", input={"command": "make"})
    allowed = Verdict(decision="allow", by="mode", reason="")
    details = Command(command="make", cwd="/", exit_code=exit_code)
    result = ToolResult(call_id="a", name="bash", status="ok", content=(), details=details)
    judged = CallJudged(call=call, effect=Effect.EXECUTE, verdict=allowed)
    return judged, HOST_DENIED, CallFinished(result=result)


def test_command_that_fails_after_a_host_was_refused_ends_the_run_as_denied() -> None:
    ended = find_final_denial(_end_command(1))
    assert ended is not None
    assert ended.ending is Ending.DENIED
    assert ended.message == "docs.example.org:443 was denied: not granted"
    assert ended.hint == "--network docs.example.org"


def test_refused_host_does_not_count_if_the_command_succeeds_then_or_later() -> None:
    assert find_final_denial(_end_command(0)) is None
    judged, _, finished = _end_command(0)
    assert find_final_denial((*_end_command(1), judged, finished)) is None


def test_refused_credentials_are_no_denial_of_a_host() -> None:
    judged, _, finished = _end_command(1)
    asked = replace(HOST_DENIED, credential="git")
    assert find_final_denial((judged, asked, finished)) is None
