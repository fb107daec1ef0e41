import json
import socket
import time
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from agentcli.features.insights.telemetry import (
    FLUSH_LIMIT_S,
    RequestMetrics,
    SpanListener,
    TelemetryExport,
    read_parent,
)
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

TOKENS = "gen_ai.client.token.usage"
DURATION = "gen_ai.client.operation.duration"
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


def spans_of(events: list[Event], *, content: bool = False, **options: Any) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = SpanListener(provider.get_tracer("test"), content=content, **options)
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


def test_child_agent_is_a_turn_below_the_call_that_opened_it() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = SpanListener(provider.get_tracer("test"), content=False)
    judged, finished = ran()
    for event in (*started(), replied(CALL), judged):
        spans(event)
    child = spans.build_child("reader", CALL.id)
    for event in (*started(), replied(Text(text="Found.")), TurnEnded(ending=Ending.DONE)):
        child(event)
    for event in (finished, TurnEnded(ending=Ending.DONE)):
        spans(event)
    _, request, inner, tool, outer = exporter.get_finished_spans()
    assert (inner.name, outer.name) == ("invoke_agent agentcli reader", "invoke_agent agentcli")
    assert [span.parent and span.parent.span_id for span in (request, inner, tool)] == [
        span.context and span.context.span_id for span in (inner, tool, outer)
    ]
    assert attributes(inner)["agentcli.cost_usd"] == 0.25


def test_turns_belong_to_the_job_that_runs_us() -> None:
    carried = {"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    *_, turn = spans_of(a_turn(), parent=read_parent(carried))
    assert turn.parent is not None and turn.parent.span_id == 0xB7AD6B7169203331
    for wrong in ({}, {"TRACEPARENT": "nonsense"}):
        *_, turn = spans_of(a_turn(), parent=read_parent(wrong))
        assert turn.parent is None


@pytest.mark.parametrize(
    ("base_url", "address", "port"),
    [
        ("https://api.example.com/v1", "api.example.com", 443),
        ("http://[::1]:8080", "::1", 8080),
        ("", None, None),
    ],
)
def test_request_names_the_server(base_url: str, address: str | None, port: int | None) -> None:
    request = attributes(spans_of(a_turn(), find_address=lambda: base_url)[0])
    assert (request.get("server.address"), request.get("server.port")) == (address, port)


def test_metrics_count_tokens_and_seconds_of_requests() -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
    failed = ModelFailed(kind="unavailable", message=SECRET)
    spans_of([*a_turn()[:-1], failed, a_turn()[-1]], metrics=RequestMetrics(meter))
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: [
            (dict(point.attributes or {}), point.sum)
            for point in metric.data.data_points
            if isinstance(point, HistogramDataPoint)
        ]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    tokens = {told["gen_ai.token.type"]: total for told, total in points[TOKENS]}
    assert tokens == {"input": 32, "output": 6}
    assert [total for told, total in points[DURATION] if "error.type" not in told] == [5.0]
    assert [told["error.type"] for told, _ in points[DURATION] if "error.type" in told] == [
        "unavailable"
    ]
    assert SECRET not in str(points)


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
    export = TelemetryExport(
        has_metrics=False, version="1", exporter=OTLPSpanExporter(endpoint=endpoint)
    )
    spans = SpanListener(export.build_tracer(), content=False)
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
