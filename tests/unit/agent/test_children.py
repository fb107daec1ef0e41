import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcli.agent.children import (
    ANSWER_CHARS,
    CHILD_INSTRUCTIONS,
    MAX_PARALLEL_CHILDREN,
    Child,
    ChildRunner,
    Role,
)
from agentcli.agent.limits import TurnLimits
from agentcli.types.errors import ProviderError, ProviderErrorKind, ToolError
from agentcli.types.events import Event, SessionEnded
from agentcli.types.messages import Usage, UserMessage
from agentcli.types.tools import ChildTurn, ErrorKind, Output, ToolContext
from tests.support.session import Bench, FunctionTool, Reply, bench, call, reply

LOG = Path("child.jsonl")


async def close_nothing() -> None:
    return None


class Family:
    """Children whose replies are given, and what was shown of them."""

    def __init__(self, *replies: Reply, roles: tuple[Role, ...] = (), steps: int = 5) -> None:
        self.shown: list[str] = []
        self.benches: list[Bench] = []
        self._replies = replies
        self._limits = TurnLimits(steps=steps)
        self._children = ChildRunner(roles, open_child=self._open)

    def _open(
        self, role: Role, task: str, *, listen: Callable[[Event], None], context: ToolContext
    ) -> Child:
        look = FunctionTool(name="look", act=lambda args, context: "seen")
        made = bench(self._replies, [look], limits=self._limits, listeners=[listen])
        self.benches.append(made)
        return Child(
            journal=made.journal,
            loop=made.loop,
            log_path=LOG,
            read_log_head=lambda: "",
            close=close_nothing,
        )

    def run(self, task: str = "Where is it?", role: str = "") -> Output:
        context = ToolContext(call_id="c", workspace=Path(), progress=self.shown.append)
        return asyncio.run(self._children.run(task, role, context=context))


def text(output: Output) -> str:
    return "".join(block.text for block in output.content if block.type == "text")


def first_told(family: Family) -> str:
    message = family.benches[0].wire.requests[0].messages[0]
    assert isinstance(message, UserMessage)
    return "".join(block.text for block in message.content if block.type == "text")


def test_only_the_last_words_of_a_child_reach_its_parent() -> None:
    looked = reply("Looking.", call("look", place="src"), usage=Usage(output_tokens=5))
    family = Family(looked, reply("In src/a.py:3.", usage=Usage(input_tokens=7)))
    output = family.run()
    assert (text(output), output.error) == ("In src/a.py:3.", None)
    assert output.details == ChildTurn(
        role="",
        ending="done",
        calls=1,
        usage=Usage(input_tokens=7, output_tokens=5),
        cost_usd=None,
        log_path="child.jsonl",
    )
    assert family.shown == ["call 1: look src\n"]
    assert first_told(family) == CHILD_INSTRUCTIONS


def test_a_role_s_instructions_are_told_first() -> None:
    family = Family(reply("ok"), roles=(Role(name="critic", instructions="Be strict."),))
    family.run(role="critic")
    assert first_told(family) == f"{CHILD_INSTRUCTIONS}\n\nBe strict."


def test_a_role_that_does_not_exist_is_named_with_those_that_do() -> None:
    family = Family(roles=(Role(name="critic"),))
    with pytest.raises(ToolError) as refused:
        family.run(role="critik")
    assert str(refused.value) == (
        "There is no role 'critik'. Did you mean critic? The roles are critic."
    )


def test_answer_of_a_child_in_several_replies_is_whole() -> None:
    family = Family(reply("In a.py ", stop="length"), reply("and ", stop="paused"), reply("b.py."))
    assert text(family.run()) == "In a.py and b.py."


def test_a_child_that_loops_ends_at_its_limit_with_one_result() -> None:
    family = Family(*[reply("Again.", call("look", f"c{n}", n=n)) for n in range(9)], steps=3)
    output = family.run()
    assert output.error is ErrorKind.FAILED
    assert text(output) == (
        "The child agent did not finish: the limit of 3 requests is reached. "
        "Its last message: Again."
    )


def test_a_child_whose_model_fails_is_one_result() -> None:
    output = Family(ProviderError("no answer", kind=ProviderErrorKind.UNAVAILABLE)).run()
    assert (text(output), output.error) == (
        "The child agent did not finish: no answer.",
        ErrorKind.FAILED,
    )


def test_a_long_answer_is_bounded_and_says_where_it_is() -> None:
    output = Family(reply("x" * 20_000)).run()
    assert text(output) == (
        "x" * ANSWER_CHARS + "… [20000 characters; all of it is in child.jsonl]"
    )
    assert output.truncated


def test_only_so_many_children_work_at_the_same_time() -> None:
    at_work: list[int] = []
    most = 0

    async def look(args: object, context: ToolContext) -> str:
        nonlocal most
        at_work.append(1)
        most = max(most, len(at_work))
        for _ in range(10):
            await asyncio.sleep(0)
        at_work.pop()
        return "seen"

    def open_child(
        role: Role, task: str, *, listen: Callable[[Event], None], context: ToolContext
    ) -> Child:
        tool = FunctionTool(name="look", act=look)
        made = bench([reply(call("look")), reply("Found.")], [tool], listeners=[listen])
        return Child(
            journal=made.journal,
            loop=made.loop,
            log_path=LOG,
            read_log_head=lambda: "",
            close=close_nothing,
        )

    async def all_of_them() -> list[Output]:
        children = ChildRunner((), open_child=open_child)
        context = ToolContext(call_id="c", workspace=Path(), progress=lambda text: None)
        return await asyncio.gather(*(children.run("find", "", context=context) for _ in range(20)))

    outputs = asyncio.run(all_of_them())
    assert [text(output) for output in outputs] == ["Found."] * 20
    assert most == MAX_PARALLEL_CHILDREN


def test_interrupted_child_sends_what_became_of_it_along() -> None:
    closed: list[bool] = []
    entries: list[Event] = []
    began = asyncio.Event()

    async def never(args: object, context: ToolContext) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    async def close() -> None:
        closed.append(True)

    def open_child(
        role: Role, task: str, *, listen: Callable[[Event], None], context: ToolContext
    ) -> Child:
        tool = FunctionTool(name="look", act=never)
        made = bench([reply("Looking.", call("look"))], [tool], listeners=[listen, entries.append])
        return Child(
            journal=made.journal,
            loop=made.loop,
            log_path=LOG,
            read_log_head=lambda: "",
            close=close,
        )

    async def interrupted() -> Output:
        children = ChildRunner((), open_child=open_child)
        context = ToolContext(call_id="c", workspace=Path(), progress=lambda text: None)
        task = asyncio.ensure_future(children.run("find", "", context=context))
        await began.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as stopped:
            (output,) = stopped.args
            assert isinstance(output, Output)
            return output
        raise AssertionError("it was not interrupted")

    output = asyncio.run(interrupted())
    assert (text(output), output.error, closed) == (
        "The child agent did not finish: it was interrupted. Its last message: Looking.",
        ErrorKind.CANCELLED,
        [True],
    )
    assert isinstance(entries[-1], SessionEnded)
    assert entries[-1].exit_code == 130
