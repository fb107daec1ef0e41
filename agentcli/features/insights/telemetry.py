"""Facts as OpenTelemetry spans and metrics by the GenAI conventions: turns, requests, calls.

A child agent is a turn below the call that opened it. Content is left out unless requested.
Numbers, names and outcomes are always included.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import TypeAlias
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from agentcli.types.answers import AnswerParts
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Event,
    ModelChanged,
    ModelFailed,
    ModelReplied,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import AssistantMessage, Text, ToolCall, Usage
from agentcli.types.spending import NO_SPENDING, compute_spending

AGENT = "agentcli"

_PROVIDERS = {
    "openai-chat": "openai",
    "gemini": "gcp.gemini",
    "gemini-interactions": "gcp.gemini",
    "bedrock": "aws.bedrock",
    "vertex": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
}
"""Provider names of the conventions that differ from ours."""

Attributes = Mapping[str, AttributeValue]


# Metrics: the usage and the duration of requests, as histograms with the conventional buckets


class RequestMetrics:
    def __init__(self, meter: Meter) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=[4.0**power for power in range(14)],
        )
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=[0.01 * 2**power for power in range(14)],
        )

    def record(self, attributes: Attributes, *, duration_s: float, usage: Usage | None) -> None:
        """Record one request. `usage` is None if it failed."""
        self._durations.record(duration_s, attributes)
        for kind, tokens in _list_tokens(usage):
            self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})


def _list_tokens(usage: Usage | None) -> Sequence[tuple[str, int]]:
    if usage is None:
        return ()
    return (("input", usage.prompt_tokens), ("output", usage.output_tokens))


FindAddress: TypeAlias = Callable[[], str]
"""Returns the base URL of the model in use, or an empty string."""


class SpanListener:
    """A listener. Must get every event of a session, in order."""

    def __init__(
        self,
        tracer: Tracer,
        *,
        content: bool,
        metrics: RequestMetrics | None = None,
        find_address: FindAddress = str,
        parent: Context | None = None,
        agent: str = AGENT,
    ) -> None:
        """`parent` is what the turns belong to, such as a job that runs us."""
        self._tracer = tracer
        self._content = content
        self._metrics = metrics
        self._find_address = find_address
        self._parent = parent
        self._agent = agent
        self._session = self._model = ""
        self._turn: Span | None = None
        self._calls: dict[str, tuple[Span, ToolCall]] = {}
        self._free_ns = 0
        """The time since which only the model can have been waited for."""
        self._answer = AnswerParts()
        self._spent = NO_SPENDING

    def build_child(self, role: str, call_id: str) -> "SpanListener":
        """Build the listener for a child agent, whose turn belongs to the call that opens it."""
        open_call = self._calls.get(call_id)
        span = open_call[0] if open_call else self._turn
        return SpanListener(
            self._tracer,
            content=self._content,
            metrics=self._metrics,
            find_address=self._find_address,
            parent=set_span_in_context(span) if span else self._parent,
            agent=f"{AGENT} {role}".rstrip(),
        )

    def __call__(self, event: Event) -> None:
        self._spent += compute_spending(event)
        self._answer(event)
        match event:
            case SessionStarted() | SessionResumed():
                self._session, self._model = event.session, event.model
            case ModelChanged(model=model):
                self._model = model
            case TurnStarted():
                self._begin_turn(event)
            case ModelReplied() | ModelFailed():
                self._record_request(event)
            case CallJudged() | CallFinished():
                self._call(event)
            case TurnEnded():
                self._end_turn(event)
            case _:
                pass

    def _begin_turn(self, event: TurnStarted) -> None:
        self._free_ns = time.time_ns()
        self._spent = NO_SPENDING
        self._turn = self._start(
            f"invoke_agent {self._agent}",
            {"gen_ai.operation.name": "invoke_agent"},
            at_ns=self._free_ns,
        )
        if self._content:
            text = "".join(block.text for block in event.message.content if isinstance(block, Text))
            self._turn.set_attribute("gen_ai.input.messages", _encode_messages("user", text))

    def _end_turn(self, event: TurnEnded) -> None:
        for span, _ in self._calls.values():
            span.end()
        self._calls.clear()
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.set_attributes({**_build_usage(self._spent.usage), "agentcli.ending": event.ending})
        if self._spent.cost_usd is not None:
            turn.set_attribute("agentcli.cost_usd", self._spent.cost_usd)
        if self._content and self._answer.text:
            turn.set_attribute(
                "gen_ai.output.messages", _encode_messages("assistant", self._answer.text)
            )
        if event.ending is not Ending.DONE:
            _fail(turn, event.ending, message=event.message if self._content else "")
        turn.end()

    def _record_request(self, event: ModelReplied | ModelFailed) -> None:
        now_ns = time.time_ns()
        began_ns = self._free_ns or now_ns
        if isinstance(event, ModelReplied) and event.duration_s:
            began_ns = now_ns - int(event.duration_s * 1e9)
        request: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": self._name,
            **_build_address(self._find_address()),
        }
        span = self._start(f"chat {self._name}", request, at_ns=began_ns, kind=SpanKind.CLIENT)
        if isinstance(event, ModelReplied):
            self._record_reply(span, event)
        else:
            _fail(span, event.kind, message=event.message if self._content else "")
        span.end(now_ns)
        if self._metrics is not None:
            self._metrics.record(
                {**request, "gen_ai.provider.name": self._provider, **_build_outcome(event)},
                duration_s=(now_ns - began_ns) / 1e9,
                usage=event.message.usage if isinstance(event, ModelReplied) else None,
            )

    def _record_reply(self, span: Span, event: ModelReplied) -> None:
        message = event.message
        span.set_attributes(
            {
                **_build_usage(message.usage),
                **_build_outcome(event),
                "gen_ai.response.finish_reasons": (_FINISH.get(message.stop, message.stop),),
                "agentcli.retries": event.retries,
            }
        )
        if event.cost_usd is not None:
            span.set_attribute("agentcli.cost_usd", event.cost_usd)
        if self._content:
            span.set_attribute("gen_ai.output.messages", _encode_reply(message))

    def _call(self, event: CallJudged | CallFinished) -> None:
        if isinstance(event, CallJudged):
            span = self._start_tool(event.call)
            span.set_attribute("agentcli.verdict", event.verdict.decision)
            span.set_attribute("agentcli.verdict.by", event.verdict.by)
            self._calls[event.call.id] = (span, event.call)
            return
        result = event.result
        unjudged = ToolCall(id=result.call_id, name=result.name, input=None)
        open_call = self._calls.pop(result.call_id, None)
        span, call = open_call or (self._start_tool(unjudged, event.duration_s), unjudged)
        if self._content:
            arguments = json.dumps(call.input, ensure_ascii=False)
            span.set_attribute("gen_ai.tool.call.arguments", arguments)
            span.set_attribute("gen_ai.tool.call.result", result.text)
        if result.error is not None:
            _fail(span, result.error, message=result.text if self._content else "")
        span.set_attribute("agentcli.truncated", result.truncated)
        span.end()
        self._free_ns = time.time_ns()

    def _start_tool(self, call: ToolCall, ran_s: float = 0.0) -> Span:
        return self._start(
            f"execute_tool {call.name}",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.call.id": call.id,
                "gen_ai.tool.type": "function",
            },
            at_ns=time.time_ns() - int(ran_s * 1e9),
        )

    def _start(
        self, name: str, attributes: Attributes, *, at_ns: int, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        everywhere: Attributes = {
            "gen_ai.provider.name": self._provider,
            "gen_ai.agent.name": self._agent,
            "gen_ai.conversation.id": self._session,
        }
        return self._tracer.start_span(
            name,
            context=set_span_in_context(self._turn) if self._turn else self._parent,
            kind=kind,
            attributes={**everywhere, **attributes},
            start_time=at_ns,
        )

    @property
    def _provider(self) -> str:
        provider = self._model.partition("/")[0]
        return _PROVIDERS.get(provider, provider)

    @property
    def _name(self) -> str:
        """Return the name of the model without its provider."""
        return self._model.partition("/")[2] or self._model


_FINISH = {"end": "stop", "tool_calls": "tool_call", "refusal": "content_filter"}
"""Stop reasons of the conventions that differ from ours."""


def _build_address(base_url: str) -> Attributes:
    parts = urlsplit(base_url)
    if not parts.hostname:
        return {}
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname, "server.port": port}


def _build_outcome(event: ModelReplied | ModelFailed) -> Attributes:
    if isinstance(event, ModelFailed):
        return {"error.type": event.kind}
    model = event.message.model
    return {"gen_ai.response.model": model.partition("/")[2] or model}


def _fail(span: Span, kind: str, *, message: str) -> None:
    span.set_attribute("error.type", str(kind))
    span.set_status(Status(StatusCode.ERROR, message or None))


def _build_usage(usage: Usage) -> Attributes:
    """Return the usage. The conventions count cached tokens as part of the input."""
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _encode_messages(role: str, text: str) -> str:
    parts = [{"type": "text", "content": text}]
    return json.dumps([{"role": role, "parts": parts}], ensure_ascii=False)


def _encode_reply(message: AssistantMessage) -> str:
    parts: list[dict[str, object]] = []
    for block in message.content:
        if isinstance(block, Text):
            parts.append({"type": "text", "content": block.text})
        elif isinstance(block, ToolCall):
            parts.append(
                {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.input}
            )
    finish = _FINISH.get(message.stop, message.stop)
    messages = [{"role": "assistant", "parts": parts, "finish_reason": finish}]
    return json.dumps(messages, ensure_ascii=False)


# Export to a collector, in the background: a dead one costs a session nothing


FLUSH_LIMIT_S = 1.0
"""The time that the end of a session waits for unsent spans and metrics."""


def read_parent(environ: Mapping[str, str]) -> Context:
    """Return the span that TRACEPARENT and TRACESTATE name: that of a job that runs us."""
    carrier = {name.lower(): environ[name] for name in _CARRIERS if name in environ}
    return TraceContextTextMapPropagator().extract(carrier)


_CARRIERS = ("TRACEPARENT", "TRACESTATE")


class TelemetryExport:
    def __init__(
        self,
        *,
        version: str,
        exporter: SpanExporter | None = None,
        metric_exporter: MetricExporter | None = None,
        has_metrics: bool = True,
    ) -> None:
        # We report its failures once. It must not print them into the user's terminal.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._version = version
        self._exporter = _WatchedExporter(exporter or OTLPSpanExporter())
        resource = Resource.create({"service.name": "agentcli", "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        readers: list[MetricReader] = (
            [PeriodicExportingMetricReader(metric_exporter or OTLPMetricExporter())]
            if has_metrics
            else []
        )
        self._meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)

    def build_tracer(self) -> Tracer:
        return self._provider.get_tracer("agentcli", self._version)

    def build_metrics(self) -> RequestMetrics:
        return RequestMetrics(self._meters.get_meter("agentcli", self._version))

    def close(self) -> bool:
        """Send what is left, for a moment, and return whether all spans arrived."""
        closing = [
            Thread(target=provider.shutdown, daemon=True)
            for provider in (self._provider, self._meters)
        ]
        for one in closing:
            one.start()
        until_s = time.monotonic() + FLUSH_LIMIT_S
        for one in closing:
            one.join(max(0.0, until_s - time.monotonic()))
        return not closing[0].is_alive() and not self._exporter.has_failed


class _WatchedExporter(SpanExporter):
    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.has_failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self.has_failed = self.has_failed or result is not SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
