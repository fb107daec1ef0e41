import pytest

from agentcli.providers.dialect import Model
from agentcli.providers.normalize import GO_ON, NormalizedHistory, normalize, restore_names
from agentcli.types.messages import (
    AssistantMessage,
    Echo,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult
from tests.support.conversations import NAMES, conversation

MODEL = Model(provider="anthropic", name="claude-opus-5-5", protocol="anthropic")
BLIND = Model(provider="ollama", name="qwen", protocol="openai-chat", images=False)


def user(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),))


def reply(*blocks: Text | Thinking | ToolCall | Opaque) -> AssistantMessage:
    return AssistantMessage(content=blocks, stop="end", protocol=MODEL.protocol, model=MODEL.name)


def call(call_id: str) -> ToolCall:
    return ToolCall(id=call_id, name="bash", input={})


def results(*pairs: tuple[str, str]) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=call_id, name="bash", status="ok", content=(Text(text=text),))
            for call_id, text in pairs
        )
    )


def not_run(call_id: str) -> ToolResult:
    return ToolResult(
        call_id=call_id,
        name="bash",
        status="error",
        content=(Text(text="Cancelled before it ran."),),
        error=ErrorKind.NOT_RUN,
    )


def test_good_history_stays_the_same_objects() -> None:
    history: list[Message] = [
        user("Go"),
        reply(Text(text="Yes"), call("a"), call("b")),
        results(("a", "1"), ("b", "2")),
    ]
    normal = normalize(history, MODEL)
    assert list(normal) == history
    assert normal[0] is history[0]
    assert normal[1] is history[1]


def test_conversation_that_grows_keeps_what_became_of_it() -> None:
    made = NormalizedHistory(MODEL)
    history: list[Message] = [user("\ud800"), reply(call("a"), call("a")), user("Go")]
    made.normalize(history)
    first = made.normalize([*history, reply(Text(text="x"))])
    second = made.normalize([*history, reply(Text(text="y")), user("More")])
    assert all(one is other for one, other in zip(first[:4], second, strict=False))
    assert second == normalize([*history, reply(Text(text="y")), user("More")], MODEL)


def test_other_conversation_is_told_apart() -> None:
    made = NormalizedHistory(MODEL)
    histories: list[list[Message]] = [
        [user("A"), reply(call("a")), user("B"), reply(call("b"))],
        [user("C"), reply(call("a")), user("D")],
        [],
    ]
    for history in histories:
        assert made.normalize(history) == normalize(history, MODEL)
    assert made.ids == {}


def test_missing_result_is_an_error() -> None:
    history: list[Message] = [
        user("Go"),
        reply(call("a"), call("b")),
        results(("b", "2")),
        user("Stop"),
    ]
    assert normalize(history, MODEL)[2] == ToolMessage(
        results=(not_run("a"), *results(("b", "2")).results)
    )


def test_results_stand_in_the_order_of_their_calls() -> None:
    history: list[Message] = [
        user("Go"),
        reply(call("a"), call("b")),
        results(("b", "2"), ("a", "1")),
    ]
    assert normalize(history, MODEL)[2] == results(("a", "1"), ("b", "2"))


def test_result_said_later_is_moved_to_its_call() -> None:
    history: list[Message] = [
        user("Go"),
        reply(call("a")),
        user("Wait"),
        results(("a", "1")),
        reply(Text(text="x")),
    ]
    assert normalize(history, MODEL)[1:4] == (history[1], history[3], history[2])


def test_result_nobody_asked_for_is_dropped() -> None:
    history: list[Message] = [
        results(("z", "0")),
        user("Go"),
        reply(call("a")),
        results(("a", "1"), ("a", "2")),
    ]
    assert normalize(history, MODEL)[2:] == (results(("a", "1")),)


def test_same_ids_get_numbers() -> None:
    history: list[Message] = [
        user("Go"),
        reply(call("a"), call("a")),
        results(("a", "1"), ("a", "2")),
        reply(call("a")),
        results(("a", "3")),
    ]
    _, first, answers, second, last = normalize(history, MODEL)
    assert isinstance(first, AssistantMessage)
    assert isinstance(second, AssistantMessage)
    assert [it.id for it in (*first.tool_calls, *second.tool_calls)] == ["a", "a_2", "a_3"]
    assert answers == results(("a", "1"), ("a_2", "2"))
    assert last == results(("a_3", "3"))


def test_three_hundred_same_ids_stay_unique() -> None:
    history: list[Message] = [user("Go")]
    for _ in range(300):
        history += [reply(call("a"), call("a_2")), results(("a", "1"), ("a_2", "2"))]
    ids = [
        it.id
        for message in normalize(history, MODEL)
        if isinstance(message, AssistantMessage)
        for it in message.tool_calls
    ]
    assert len(set(ids)) == 600


def test_somebody_speaks_before_every_reply() -> None:
    hi = reply(Text(text="Hi"))
    assert normalize([hi, hi], MODEL) == (GO_ON, hi, GO_ON, hi, GO_ON)
    assert normalize([], MODEL) == (GO_ON,)


def test_paused_reply_is_continued_without_a_word() -> None:
    paused = AssistantMessage(
        content=(Text(text="x"),), stop="paused", protocol=MODEL.protocol, model=MODEL.name
    )
    assert normalize([user("Go"), paused], MODEL) == (user("Go"), paused)
    assert normalize([user("Go"), paused], BLIND) == (user("Go"), paused, GO_ON)


def test_reply_of_nothing_is_dropped() -> None:
    nothing = reply(Text(text=""), Text(text=" \n"), Thinking(text="x"))
    assert normalize([user("Go"), nothing, user("Well?")], MODEL) == (user("Go"), user("Well?"))


def test_nothing_to_say_has_a_placeholder() -> None:
    empty = ToolResult(call_id="a", name="bash", status="ok", content=())
    history: list[Message] = [user(" "), reply(call("a")), ToolMessage(results=(empty,))]
    first, _, last = normalize(history, MODEL)
    assert first == user("(empty message)")
    assert last == results(("a", "(no output)"))


def test_echo_is_kept_for_its_own_model_alone() -> None:
    def echo(protocol: str, model: str) -> Echo:
        return Echo(protocol=protocol, model=model, data={"x": 1})

    own, other = echo("anthropic", "claude-opus-5-5"), echo("anthropic", "claude-haiku-5-5")
    message = AssistantMessage(
        content=(
            Thinking(text="mine", echo=own),
            Thinking(text="not mine", echo=other),
            Thinking(text="nobody's"),
            Opaque(echo=own),
            Opaque(echo=echo("gemini", "claude-opus-5-5")),
            Text(text="", echo=own),
            Text(text="said", echo=other),
            ToolCall(id="a", name="bash", input={}, echo=other),
        ),
        stop="tool_calls",
        protocol="anthropic",
        model="claude-opus-5-5",
        echo=other,
    )
    _, normal, _ = normalize([user("Go"), message], MODEL)
    assert isinstance(normal, AssistantMessage)
    assert normal.content == (
        Thinking(text="mine", echo=own),
        Opaque(echo=own),
        Text(text="", echo=own),
        Text(text="said"),
        ToolCall(id="a", name="bash", input={}),
    )
    assert normal.echo is None


def test_id_is_kept_for_who_made_it_and_fitted_for_others() -> None:
    made = reply(call("functions.bash:0"))
    _, own, _ = normalize([user("Go"), made], MODEL)
    _, other, answer = normalize([user("Go"), made], BLIND)
    assert own is made
    assert isinstance(other, AssistantMessage)
    assert [it.id for it in other.tool_calls] == ["functions_bash_0"]
    assert answer == ToolMessage(results=(not_run("functions_bash_0"),))


@pytest.mark.parametrize("bad", ["", "a\nb", "\ud800", "\x1b"])
def test_id_that_cannot_be_sent_is_fitted_for_everybody(bad: str) -> None:
    history: list[Message] = [user("Go"), reply(call(bad), call(bad)), results((bad, "1"))]
    _, said, answers = normalize(history, MODEL)
    assert isinstance(said, AssistantMessage)
    assert isinstance(answers, ToolMessage)
    ids = [it.id for it in said.tool_calls]
    assert ids == [result.call_id for result in answers.results]
    assert all(it.isascii() and it.isprintable() and it for it in ids)


def test_images_become_text_for_models_without_eyes() -> None:
    image = Image(media_type="image/png", data="AAAA")
    odd = Image(media_type="image/tiff", data="AAAA")
    history: list[Message] = [UserMessage(content=(image, odd))]
    seen, blind = normalize(history, MODEL)[0], normalize(history, BLIND)[0]
    placeholder = "[An image ({}) was here. This model cannot see it.]"
    assert seen == UserMessage(content=(image, Text(text=placeholder.format("image/tiff"))))
    assert blind == UserMessage(
        content=tuple(Text(text=placeholder.format(it)) for it in ("image/png", "image/tiff"))
    )


@pytest.mark.parametrize("name", NAMES)
def test_conversation_cut_before_any_reply_is_a_prefix(name: str) -> None:
    history = conversation(name)
    whole = normalize(history, MODEL)
    cuts = [n for n, message in enumerate(history) if isinstance(message, AssistantMessage)]
    for cut in cuts:
        part = normalize(history[:cut], MODEL)
        grown = normalize([*history[:cut], reply(Text(text="x")), user("y")], MODEL)
        assert grown[: len(part)] == part
    assert normalize(history, MODEL) == whole


def test_received_call_has_our_name_and_a_new_id() -> None:
    message = reply(
        ToolCall(id="a", name="server_tool", input={}),
        ToolCall(id="b", name="unknown", input={}),
        ToolCall(id="b", name="bash", input={}),
        ToolCall(id="", name="bash", input={}),
    )
    ours = restore_names(message, taken={"a": 1}, names={"server_tool": "server.tool"})
    assert [(it.id, it.name) for it in ours.tool_calls] == [
        ("a_2", "server.tool"),
        ("b", "unknown"),
        ("b_2", "bash"),
        ("call", "bash"),
    ]


def test_received_message_that_needs_nothing_is_the_same() -> None:
    message = reply(Text(text="x"), call("a"))
    assert restore_names(message, taken={}, names={}) is message
