from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.agent.history import History, build_messages
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    Compacted,
    ContextNote,
    Fact,
    ModelFailed,
    ModelReplied,
    NoteReason,
    Restored,
    ResultsTrimmed,
    Rewound,
    SessionStarted,
    TrimmedResult,
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


shortened = st.one_of(
    all_facts,
    st.builds(
        Compacted,
        summary=st.sampled_from(["one", "two"]),
        tokens_before=st.just(9),
        left_out=st.integers(0, 2),
        keeps_new=st.booleans(),
    ),
    st.builds(ContextNote, text=st.sampled_from(["a plan", "b"]), why=st.just(NoteReason.PLAN)),
    st.builds(
        ResultsTrimmed,
        results=st.lists(
            st.builds(TrimmedResult, call_id=IDS, text=st.just("cut")), max_size=2
        ).map(tuple),
        freed_tokens=st.just(1),
    ),
)
taken_back: st.SearchStrategy[Fact] = st.one_of(
    st.just(Restored()),
    st.builds(Rewound, id=IDS, action=st.just("rewind"), turn=st.integers(0, 3)),
    st.builds(Rewound, id=IDS, action=st.just("redo"), turn=st.just(0), of=IDS),
)


@given(st.lists(shortened | taken_back, max_size=30))
def test_history_kept_as_it_grows_equals_the_fold(log: list[Fact]) -> None:
    growing = History()
    for fact in log:
        growing.add(fact)
        growing.build_messages()
    assert growing.build_messages() == build_messages(log)


def reply(*content: Text | ToolCall) -> ModelReplied:
    message = AssistantMessage(content=content, stop="end", protocol="p", model="m")
    return ModelReplied(message=message)


ASKED = TurnStarted(message=UserMessage(content=(Text(text="go"),)))
CALLED = reply(ToolCall(id="a", name="t", input={}))
SUMMARISED = Compacted(summary="one", tokens_before=9, keeps_new=True)
ENDED = TurnEnded(ending=Ending.DONE)


@example([ASKED, reply(Text(text="yes")), CALLED, SUMMARISED], [ENDED])
@example([ASKED, CALLED, reply(), SUMMARISED], [ENDED])
@example([ASKED, reply(Text(text="yes")), CALLED, SUMMARISED], [Restored()])
@given(st.lists(shortened, max_size=20), st.lists(shortened | taken_back, max_size=10))
def test_history_goes_on_from_a_fold_as_if_it_had_grown(log: list[Fact], more: list[Fact]) -> None:
    growing, folded = History(), History(log)
    for fact in log:
        growing.add(fact)
    for fact in more:
        growing.add(fact)
        folded.add(fact)
        assert folded.build_messages() == growing.build_messages()
        assert folded.list_user_messages() == growing.list_user_messages()
        assert folded.list_preserved_messages(1) == growing.list_preserved_messages(1)
        assert folded.build_missing_results() == growing.build_missing_results()


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
