from dataclasses import replace

from agentcli.permissions.masking import EventMasking
from agentcli.permissions.secrets import Redactor
from agentcli.types.deltas import (
    CallDelta,
    CallProgress,
    CommandEnded,
    RetryDelta,
    TextDelta,
    ThinkingDelta,
)
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Event,
    ModelReplied,
    TurnStarted,
)
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Document,
    Echo,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.tools import Effect, Raw, ToolResult
from agentcli.types.verdicts import Verdict

SECRET = "opensesame-0123"
SHAPED = "sk-" + "a1" * 16
REDACTOR = Redactor(environ={}, values=[SECRET])
HIDDEN, HIDDEN_SHAPED = REDACTOR.mask(SECRET), REDACTOR.mask(SHAPED)


def masked(*events: Event) -> list[Event]:
    masking = EventMasking(REDACTOR)
    return [shown for event in events for shown in masking(event)]


def reply(*blocks: Block, echo: Echo | None = None) -> ModelReplied:
    return ModelReplied(
        message=AssistantMessage(content=blocks, stop="end", protocol="p", model="m", echo=echo)
    )


def echo(data: str) -> Echo:
    return Echo(protocol="p", model="m", data={"signature": data})


def test_event_without_secrets_is_left_as_it_is() -> None:
    event = reply(Thinking(text="hm", echo=echo("s" * 300)), ToolCall(id="1", name="x", input={}))

    assert masked(event)[0] is event


def test_every_text_of_a_fact_is_masked() -> None:
    call = ToolCall(id=SECRET, name="bash", input={"command": f"echo {SECRET}", SECRET: [SHAPED]})
    verdict = Verdict(decision="allow", by="mode", reason=f"{SECRET}?", input=[SECRET])
    result = ToolResult(
        call_id=SECRET,
        name="bash",
        status="ok",
        content=(Text(text=SECRET), Image(media_type="image/png", data=SECRET)),
        details=Raw(text=f"<{SHAPED}>"),
    )

    shown = masked(
        TurnStarted(message=UserMessage(content=(Text(text=f"use {SECRET}"),))),
        CallJudged(call=call, effect=Effect.EXECUTE, verdict=verdict),
        CallFinished(result=result),
        ContextNote(text=SHAPED, why=SECRET),
        RetryDelta(reason=f"bad key {SECRET}", status=401, wait_s=1.0, attempt=1, attempts=2),
        CallProgress(call_id=SECRET, text=SECRET),
    )

    assert shown == [
        TurnStarted(message=UserMessage(content=(Text(text=f"use {HIDDEN}"),))),
        CallJudged(
            call=ToolCall(
                id=SECRET, name="bash", input={"command": f"echo {HIDDEN}", HIDDEN: [HIDDEN_SHAPED]}
            ),
            effect=Effect.EXECUTE,
            verdict=Verdict(decision="allow", by="mode", reason=f"{HIDDEN}?", input=[HIDDEN]),
        ),
        CallFinished(
            result=ToolResult(
                call_id=SECRET,
                name="bash",
                status="ok",
                content=(Text(text=HIDDEN), Image(media_type="image/png", data=SECRET)),
                details=Raw(text=f"<{HIDDEN_SHAPED}>"),
            )
        ),
        ContextNote(text=HIDDEN_SHAPED, why=HIDDEN),
        RetryDelta(reason=f"bad key {HIDDEN}", status=401, wait_s=1.0, attempt=1, attempts=2),
        CallProgress(call_id=SECRET, text=HIDDEN),
    ]


def test_providers_data_is_kept_but_for_known_secrets() -> None:
    signature = f"_{SHAPED}"
    blocks = (
        Thinking(text="", echo=echo(signature)),
        Text(text="fine", echo=echo(f"a {SECRET} b")),
        Opaque(echo=echo(SECRET)),
    )

    assert masked(reply(*blocks, echo=echo(signature))) == [
        reply(
            Thinking(text="", echo=echo(signature)),
            Text(text="fine", echo=echo(f"a {HIDDEN} b")),
            Opaque(echo=echo(HIDDEN)),
        )
    ]


def test_masked_text_loses_the_data_that_vouches_for_it() -> None:
    thought = Thinking(text=f"the key is {SECRET}", echo=echo("signed"))

    assert masked(reply(thought, Text(text="ok", echo=echo("t")))) == [
        reply(Thinking(text=f"the key is {HIDDEN}"), Text(text="ok", echo=echo("t")))
    ]


def test_document_with_a_secret_goes_as_masked_text_without_its_file() -> None:
    shown = Document(name="a.pdf", data="JVBERi0=", text=f"the key is {SECRET}", pages=1)
    plain = Document(name="b.pdf", data="JVBERi0=", text="no key", pages=1)
    (event,) = masked(TurnStarted(message=UserMessage(content=(shown, plain))))
    assert isinstance(event, TurnStarted)
    assert event.message.content == (replace(shown, data="", text=f"the key is {HIDDEN}"), plain)


def test_end_of_a_background_command_does_not_tear_a_text_apart() -> None:
    ended = CommandEnded(pid=7, how="exit code 0")
    shown = masked(TextDelta(text=SECRET[:6]), ended, TextDelta(text=f"{SECRET[6:]}! "))
    assert shown == [ended, TextDelta(text=f"{HIDDEN}! ")]


def test_secret_split_over_deltas_is_masked_and_nothing_is_lost() -> None:
    shown = masked(
        TextDelta(text="say opense"),
        TextDelta(text="same-01"),
        TextDelta(text="23! then o"),
        ThinkingDelta(text="hm opensesame"),
        CallDelta(call_id="1", name="bash", arguments=""),
        CallDelta(call_id="1", name="bash", arguments='{"command": "opensesame'),
        CallProgress(call_id="0", text="x"),
        CallDelta(call_id="1", name="bash", arguments='-0123"}'),
        reply(Text(text=f"say {SECRET}! then o")),
    )

    assert shown == [
        TextDelta(text="say "),
        TextDelta(text=f"{HIDDEN}! then "),
        TextDelta(text="o"),
        ThinkingDelta(text="hm "),
        ThinkingDelta(text="opensesame"),
        CallDelta(call_id="1", name="bash", arguments=""),
        CallDelta(call_id="1", name="bash", arguments='{"command": "'),
        CallProgress(call_id="0", text="x"),
        CallDelta(call_id="1", name="bash", arguments=HIDDEN + '"}'),
        reply(Text(text=f"say {HIDDEN}! then o")),
    ]
