from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.history import History, build_messages
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    ContextNote,
    Fact,
    ModelFailed,
    ModelReplied,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    TurnWithdrawn,
)
from agentcli.types.messages import (
    AssistantMessage,
    Stop,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message
from agentcli.types.tools import ToolMessage, ToolResult

IDS = st.sampled_from(["a", "b", "c"])  # few, so that ids come again across and within replies
STOPS: st.SearchStrategy[Stop] = st.sampled_from(
    ["end", "tool_calls", "length", "overflow", "paused", "refusal", "error", "cancelled"]
)

calls = st.builds(lambda call_id: ToolCall(id=call_id, name="t", input={}), IDS)
blocks = st.one_of(
    st.builds(Text, text=st.text(max_size=3)), st.builds(Thinking, text=st.just("")), calls
)
facts: st.SearchStrategy[Fact] = st.one_of(
    st.builds(
        ModelReplied,
        message=st.builds(
            AssistantMessage,
            content=st.lists(blocks, max_size=4).map(tuple),
            stop=STOPS,
            protocol=st.just("p"),
            model=st.just("m"),
        ),
    ),
    st.builds(
        CallFinished,
        result=st.builds(
            lambda call_id, text: ToolResult(
                call_id=call_id, name="t", status="ok", content=(Text(text=text),)
            ),
            IDS,
            st.text(max_size=3),
        ),
    ),
    st.builds(TurnStarted, message=st.just(UserMessage(content=(Text(text="go"),)))),
    st.builds(ContextNote, text=st.just("note"), why=st.just("test")),
    st.just(TurnEnded(ending=Ending.CANCELLED)),
    st.just(ModelFailed(kind="cut", message="")),
    st.just(
        SessionStarted(
            session="", version="", workspace="", model="", mode="", tools=(), tools_sha256=""
        )
    ),
)
all_facts = facts | st.just(TurnWithdrawn())


@given(st.lists(all_facts, max_size=30))
def test_every_call_of_any_log_is_answered_once_in_order_and_at_once(log: list[Fact]) -> None:
    for end in range(len(log) + 1):
        history = build_messages(log[:end])
        for index, message in enumerate(history):
            if isinstance(message, ToolMessage):
                asked = history[index - 1]
                assert isinstance(asked, AssistantMessage)
                assert [call.id for call in asked.tool_calls] == [
                    answer.call_id for answer in message.results
                ]
            if isinstance(message, AssistantMessage) and message.tool_calls:
                assert isinstance(history[index + 1], ToolMessage)


@given(st.lists(all_facts, max_size=30))
def test_history_kept_as_it_grows_equals_the_fold(log: list[Fact]) -> None:
    growing = History()
    for fact in log:
        growing.add(fact)
        growing.build_messages()
    assert growing.build_messages() == build_messages(log)


@given(st.lists(facts, max_size=30))
def test_settled_messages_that_nobody_withdraws_never_change(log: list[Fact]) -> None:
    growing = History()
    before: tuple[Message, ...] = ()
    for fact in log:
        growing.add(fact)
        now = growing.build_messages()
        settled = before[:-1] if before and isinstance(before[-1], ToolMessage) else before
        assert now[: len(settled)] == settled
        before = now
