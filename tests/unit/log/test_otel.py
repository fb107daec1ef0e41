import json
import socket
import time

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from agentcli.features.insights.telemetry import FLUSH_LIMIT_S, SpanExport, SpanListener
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Event,
    ModelFailed,
    ModelReplied,
    SessionStarted,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import AssistantMessage, Text, ToolCall, Usage, UserMessage
from agentcli.types.tools import Effect, ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict
from tests.support.collector import collector

SECRET = "what only the two of them know"
CALL = ToolCall(id="call_1", name="bash", input={"command": f"echo {SECRET}"})


def started() -> list[Event]:
    return [
        SessionStarted(
            session="s1",
            version="1",
            workspace="/w",
            model="gemini/gemini-9",
            mode="auto",
            tools=("bash",),
            tools_sha256="",
        ),
        TurnStarted(message=UserMessage(content=(Text(text=SECRET),))),
    ]


def replied(*blocks: Text | ToolCall) -> ModelReplied:
    calls = any(isinstance(block, ToolCall) for block in blocks)
    return ModelReplied(
        message=AssistantMessage(
            content=blocks,
            stop="tool_calls" if calls else "end",
            protocol="test",
            model="gemini/gemini-9-001",
            usage=Usage(
                input_tokens=5, cache_read_tokens=10, cache_write_tokens=1, output_tokens=3
            ),
        ),
        duration_s=2.5,
        cost_usd=0.25,
        retries=1,
    )


def ran(error: ErrorKind | None = None) -> list[Event]:
    verdict = Verdict(decision="allow", by="mode", reason="")
    result = ToolResult(
        call_id=CALL.id,
        name="bash",
        status="error" if error else "ok",
        content=(Text(text=SECRET),),
        error=error,
    )
    return [
        CallJudged(call=CALL, effect=Effect.EXECUTE, verdict=verdict),
        CallFinished(result=result, duration_s=1.0),
    ]


def spans_of(events: list[Event], *, content: bool = False) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = SpanListener(provider.get_tracer("test"), content=content)
    for event in events:
        spans(event)
    return list(exporter.get_finished_spans())


def a_turn() -> list[Event]:
    return [
        *started(),
        replied(CALL),
        *ran(),
        replied(Text(text=SECRET)),
        TurnEnded(ending=Ending.DONE),
    ]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_turn_is_a_tree_of_spans_by_the_conventions() -> None:
    first, tool, second, turn = spans_of(a_turn())
    assert [span.name for span in (turn, first, tool, second)] == [
        "invoke_agent agentcli",
        "chat gemini-9",
        "execute_tool bash",
        "chat gemini-9",
    ]
    assert turn.parent is None
    for span in (first, tool, second):
        assert span.parent is not None and turn.context is not None
        assert span.parent.span_id == turn.context.span_id
    assert [span.kind for span in (turn, first, tool)] == [
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
    ]


def test_chat_span_carries_model_usage_and_cost() -> None:
    assert attributes(spans_of(a_turn())[0]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.agent.name": "agentcli",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": "gemini-9",
        "gen_ai.response.model": "gemini-9-001",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 16,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 10,
        "gen_ai.usage.cache_creation.input_tokens": 1,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "agentcli.retries": 1,
        "agentcli.cost_usd": 0.25,
    }


def test_spans_last_as_long_as_what_they_tell_of() -> None:
    span = spans_of(a_turn())[0]
    assert span.start_time is not None and span.end_time is not None
    assert span.end_time - span.start_time == 2_500_000_000


def test_content_is_left_out_unless_wanted() -> None:
    assert SECRET not in str([span.to_json() for span in spans_of(a_turn())])
    _, tool, _, turn = spans_of(a_turn(), content=True)
    assert attributes(tool)["gen_ai.tool.call.result"] == SECRET
    assert json.loads(str(attributes(tool)["gen_ai.tool.call.arguments"])) == CALL.input
    said = [{"role": "user", "parts": [{"type": "text", "content": SECRET}]}]
    assert json.loads(str(attributes(turn)["gen_ai.input.messages"])) == said


def test_failures_are_errors_without_their_text() -> None:
    failed = [
        *started(),
        replied(CALL),
        *ran(ErrorKind.TIMEOUT),
        ModelFailed(kind="unavailable", message=SECRET),
        TurnEnded(ending=Ending.PROVIDER_FAILED, message=SECRET),
    ]
    _, tool, request, turn = spans_of(failed)
    assert [attributes(span)["error.type"] for span in (tool, request, turn)] == [
        "timeout",
        "unavailable",
        "provider_failed",
    ]
    assert {span.status.status_code for span in (tool, request, turn)} == {StatusCode.ERROR}
    assert SECRET not in str([span.to_json() for span in (tool, request, turn)])


def test_interrupted_turn_leaves_no_span_open() -> None:
    events = [*started(), replied(CALL), ran()[0], TurnEnded(ending=Ending.CANCELLED)]
    assert [span.name for span in spans_of(events)] == [
        "chat gemini-9",
        "execute_tool bash",
        "invoke_agent agentcli",
    ]


def exported_to(endpoint: str) -> bool:
    export = SpanExport(version="1", exporter=OTLPSpanExporter(endpoint=endpoint))
    spans = SpanListener(export.tracer(), content=False)
    for event in a_turn():
        spans(event)
    return export.close()


def test_collector_gets_every_span() -> None:
    with collector() as (endpoint, names):
        assert exported_to(f"{endpoint}/v1/traces")
    assert sorted(names) == [
        "chat gemini-9",
        "chat gemini-9",
        "execute_tool bash",
        "invoke_agent agentcli",
    ]


def test_dead_collector_is_told_of_and_costs_a_moment_at_most(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # takes the connection, and never answers
        began = time.monotonic()
        arrived = exported_to(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces")
        assert not arrived
        assert time.monotonic() - began < FLUSH_LIMIT_S * 5
    assert capfd.readouterr() == ("", "")
